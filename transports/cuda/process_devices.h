// CUDA in this process, as all its groups share it: the driver, the devices in use, and the pinned
// blocks of the arena, which can be registered only once.
//
// It lives as long as a group that uses it. Thread safety: all functions. After a fork the child
// gets an error.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "transports/base/options.h"
#include "transports/cuda/pinned.h"

namespace ringwood::cuda {

class ProcessDevices {
 public:
  // Loads the driver where that has not been done. Error: there is none, no memory that can be
  // pinned, or CUDA was used before a fork. The options of the first group count.
  static Result<std::shared_ptr<ProcessDevices>> of_process(const CudaOptions& options);
  // For of_process() only. The arena outlives it.
  ProcessDevices(const Driver& driver, Arena& arena, size_t max_pinned);
  ProcessDevices(const ProcessDevices&) = delete;
  ProcessDevices& operator=(const ProcessDevices&) = delete;

  // Valid as long as this. Error: there is no such device, or the driver refuses it.
  Result<const Device*> device(int ordinal);
  // Precondition: a device is in use.
  PinnedBlocks& pinned() { return *pinned_; }
  Arena& arena() { return arena_; }

 private:
  const Driver& driver_;
  Arena& arena_;
  const size_t max_pinned_;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<Device>> devices_;
  std::unique_ptr<PinnedBlocks> pinned_;  // by the first of them
};

}  // namespace ringwood::cuda
