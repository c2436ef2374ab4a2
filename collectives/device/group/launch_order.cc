#include "collectives/device/group/launch_order.h"

#include <thread>

#include "transports/cuda/check.h"

namespace ringwood::device {

bool LaunchOrder::is_capturing(cuda::CUstream stream) const {
  const cuda::CurrentContext current(device_);
  cuda::CUstreamCaptureStatus status = cuda::CU_STREAM_CAPTURE_STATUS_NONE;
  device_.require(device_.driver().stream.is_capturing(stream, &status), "cuStreamIsCapturing");
  return status != cuda::CU_STREAM_CAPTURE_STATUS_NONE;
}

Status LaunchOrder::launch(cuda::CUfunction kernel, int blocks, int threads, const void* argument,
                           cuda::CUstream stream) {
  const cuda::CurrentContext current(device_);
  const cuda::Driver& driver = device_.driver();
  const bool captured = is_capturing(stream);
  if (!captured && launched_ && stream != stream_)
    if (Status waits = cuda::check(driver, driver.stream.wait_event(stream, last_.get(), 0),
                                   "cuStreamWaitEvent", device_.ordinal());
        !waits)
      return waits;
  void* parameters[] = {const_cast<void*>(argument)};
  Status launched = cuda::check(
      driver,
      driver.kernel.launch(kernel, static_cast<unsigned>(blocks), 1, 1,
                           static_cast<unsigned>(threads), 1, 1, 0, stream, parameters, nullptr),
      "cuLaunchKernel", device_.ordinal());
  if (!launched || captured) return launched;
  last_.record(stream);
  stream_ = stream;
  launched_ = true;
  return {};
}

bool LaunchOrder::wait_until_idle(Deadline deadline) const {
  while (!last_.done()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

}  // namespace ringwood::device
