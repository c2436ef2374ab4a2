#include "transports/cuda/handles.h"

namespace ringwood::cuda {

Event::Event(const Device& device) : device_(device) {
  const CurrentContext current(device);
  device.require(device.driver().event.create(&event_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
}

Event::~Event() {
  if (const CurrentContext current(device_, std::nothrow); current)
    device_.driver().event.destroy(event_);
}

void Event::record(CUstream stream) {
  const CurrentContext current(device_);
  device_.require(device_.driver().event.record(event_, stream), "cuEventRecord");
}

bool Event::done() const {
  const CurrentContext current(device_);
  const BesideCaptures beside(device_);
  const CUresult code = device_.driver().event.query(event_);
  if (code == CUDA_ERROR_NOT_READY) return false;
  device_.require(code, "cuEventQuery");
  return true;
}

void Event::synchronize() const {
  const CurrentContext current(device_);
  const BesideCaptures beside(device_);
  device_.require(device_.driver().event.synchronize(event_), "cuEventSynchronize");
}

Stream::Stream(const Device& device) : device_(device) {
  const CurrentContext current(device);
  const Driver& driver = device.driver();
  int least = 0, greatest = 0;  // a greater priority is a smaller number
  device.require(driver.context.get_priorities(&least, &greatest), "cuCtxGetStreamPriorityRange");
  device.require(driver.stream.create(&stream_, CU_STREAM_NON_BLOCKING, greatest),
                 "cuStreamCreateWithPriority");
}

Stream::~Stream() {
  if (const CurrentContext current(device_, std::nothrow); current)
    device_.driver().stream.destroy(stream_);
}

void Stream::wait(const Event& event) {
  const CurrentContext current(device_);
  device_.require(device_.driver().stream.wait_event(stream_, event.get(), 0), "cuStreamWaitEvent");
}

bool Stream::idle() const {
  const CurrentContext current(device_);
  const BesideCaptures beside(device_);
  const CUresult code = device_.driver().stream.query(stream_);
  if (code == CUDA_ERROR_NOT_READY) return false;
  device_.require(code, "cuStreamQuery");
  return true;
}

void Stream::synchronize() const {
  const CurrentContext current(device_);
  device_.require(device_.driver().stream.synchronize(stream_), "cuStreamSynchronize");
}

}  // namespace ringwood::cuda
