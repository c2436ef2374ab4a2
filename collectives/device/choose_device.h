// Which row of the table a device group takes for a call, in bulk or as packets, and in how many
// blocks: by the least predicted time (predict.h).
//
// Candidates are the rows that accept n ranks of one host, both ways, in 1, 2, 4, ... blocks, as
// many as the model allows. Packets that need more room than the model's are none. Taken are the
// fewest blocks within kTolerance of the best time, which leaves the GPU's other multiprocessors to
// the user's kernels; of these the least time, then the first in the table.
//
// Thread safety: none for one DeviceRows. Deterministic: equal on all ranks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/device/predict.h"

namespace ringwood::device {

inline constexpr double kTolerance = 0.025;  // NCCL's, for its channels

// Proved programs of rows, made once.
class DeviceRows final {
 public:
  // Null: none is proved. The memory is this object's.
  const ProvedProgram* find(const AlgorithmRow& row, int n, int root, bool packets);

 private:
  using Key = std::tuple<const AlgorithmRow*, int, int, bool>;
  std::map<Key, std::unique_ptr<const ProvedProgram>> known_;
};

struct DeviceChoice {
  const AlgorithmRow* row = nullptr;  // null: a barrier, which is the hello alone
  bool packets = false;
  int blocks = 1;
  double seconds = 0;
};
// "direct"; "hello" of a barrier.
std::string name_of(const DeviceChoice& choice);

// Each row and way with its best number of blocks, by time. Empty where no row fits. `algorithm`:
// only this row; "": all.
std::vector<DeviceChoice> device_choices(DeviceRows& rows, const CollectiveArgs& args, int n,
                                         const IslandModel& model,
                                         const std::string& algorithm = "");

// Throws Error(invalid_argument) where no row fits. An all-reduce takes 0.03 s of a core among 8
// devices, 0.8 s among 32, 8 s among 72; the first one up to a quarter more, for the proofs.
DeviceChoice choose_device(DeviceRows& rows, const CollectiveArgs& args, int n,
                           const IslandModel& model);

}  // namespace ringwood::device
