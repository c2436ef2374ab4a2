// Launches of one group, one after the other: two of its kernels at a time would count wrongly.
//
// On one stream they are in order by themselves; where the stream changes, the new one waits for an
// event that was recorded behind the last launch. Launches that are captured are ordered by their
// graph. Not thread safe but for is_capturing(). The Device must outlive it.
#pragma once

#include "transports/base/clock.h"
#include "transports/cuda/handles.h"

namespace ringwood::device {

class LaunchOrder final {
 public:
  explicit LaunchOrder(const cuda::Device& device) : device_(device), last_(device) {}

  bool is_capturing(cuda::CUstream stream) const;
  // `argument`: of the kernel, copied by the driver.
  Status launch(cuda::CUfunction kernel, int blocks, int threads, const void* argument,
                cuda::CUstream stream);
  // False: the last launch has not ended by then.
  bool wait_until_idle(Deadline deadline) const;

 private:
  const cuda::Device& device_;
  cuda::Event last_;
  cuda::CUstream stream_ = nullptr;
  bool launched_ = false;
};

}  // namespace ringwood::device
