// The programs of a group that this rank has already uploaded, by the shape of the call.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "collectives/algorithms/algorithms.h"
#include "collectives/device/bind_words.h"
#include "transports/cuda/handles.h"
#include "transports/cuda/memory.h"

namespace ringwood::device {

// What a program depends on.
struct ProgramShape {
  CollectiveArgs args;                // of equal blocks
  const AlgorithmRow* row = nullptr;  // null: of a barrier, which is the hellos alone
  bool packets = false;
  int segments = 1;
  RankBuffers buffers;
};

struct UploadedProgram {
  BoundWords bound;
  BoundFold fold;
  cuda::CUfunction kernel = nullptr;
  cuda::CUdeviceptr words = 0, operands = 0, reach = 0;
};

// Not thread safe. Errors: thrown. The Device must outlive it.
class Programs final {
 public:
  Programs(const cuda::Device& device, int rank, int n);

  // Null: not yet uploaded.
  const UploadedProgram* find(const ProgramShape& shape) const;
  // Proves it, where that is new, binds and uploads it; waits for the upload. `kernel`: by name.
  const UploadedProgram& add(const ProgramShape& shape,
                             const std::function<cuda::CUfunction(const std::string&)>& kernel);
  // Of constant tables, too. 16 B aligned.
  cuda::CUdeviceptr upload(const void* data, size_t bytes);

 private:
  using Key =
      std::tuple<int, int, int, int, size_t, const AlgorithmRow*, bool, int, bool, bool, size_t>;
  static Key key_of(const ProgramShape& shape);
  const ProvedProgram& proved(const ProgramShape& shape);

  const cuda::Device& device_;
  const int rank_, n_;
  cuda::Stream stream_;
  std::deque<cuda::DeviceArena> memory_;
  size_t used_ = 0;  // of the last one
  std::map<std::tuple<const AlgorithmRow*, int, bool>, ProvedProgram> proved_;
  std::map<Key, std::unique_ptr<UploadedProgram>> programs_;
};

}  // namespace ringwood::device
