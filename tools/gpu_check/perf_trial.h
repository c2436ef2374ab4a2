// The time of one call, by one way to carry it out.
#pragma once

#include <string>
#include <vector>

#include "tools/gpu_check/gpu_rank.h"

namespace ringwood::gpu_check {

inline constexpr int kBlocksOfPerf = 16;

struct Way {
  const char* row = "";
  int segments = 1;
  bool packets = false;
};
// What is worth a measurement for so many bytes.
std::vector<Way> ways(Collective collective, size_t bytes, int n);

struct Measured {
  double seconds = 0;        // of a call, at the slowest rank, one after the other
  double graph_seconds = 0;  // in a replayed graph; 0: not measured
  size_t wrong = 0;          // elements, of all ranks
  std::string error = "";
};

// Collective; the same calls on every rank.
class Trial final {
 public:
  Trial(const GpuRank& rank, int repetitions) : rank_(rank), repetitions_(repetitions) {}

  // `bytes`: of the whole buffer, the larger of input and output, as nccl-tests counts them.
  Measured measure(Collective collective, size_t bytes, const Way& way, GpuRank::Kind kind) const;

 private:
  Status together() const;
  std::string time_calls(const device::DeviceCall& call, int turns, double& seconds) const;
  std::string time_graph(const device::DeviceCall& call, double& seconds) const;
  size_t wrong_elements(const device::DeviceCall& call, size_t bytes) const;
  double slowest(double own) const;

  const GpuRank& rank_;
  const int repetitions_;
};

}  // namespace ringwood::gpu_check
