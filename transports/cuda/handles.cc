#include "transports/cuda/handles.h"

#include <fmt/format.h>

namespace ringwood::cuda {

Event::Event(const Device& device, Timing timing) : device_(device) {
  const CurrentContext current(device);
  const unsigned flags = timing == Timing::on ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
  device.require(device.driver().event.create(&event_, flags), "cuEventCreate");
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

float Event::milliseconds_since(const Event& start) const {
  const CurrentContext current(device_);
  float milliseconds = 0;
  device_.require(device_.driver().event.elapsed(&milliseconds, start.event_, event_),
                  "cuEventElapsedTime");
  return milliseconds;
}

Stream::Stream(const Device& device, Priority priority) : device_(device) {
  const CurrentContext current(device);
  const Driver& driver = device.driver();
  int least = 0, greatest = 0;  // a greater priority is a smaller number
  device.require(driver.context.get_priorities(&least, &greatest), "cuCtxGetStreamPriorityRange");
  device.require(driver.stream.create(&stream_, CU_STREAM_NON_BLOCKING,
                                      priority == Priority::high ? greatest : least),
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
  const CUresult code = device_.driver().stream.query(stream_);
  if (code == CUDA_ERROR_NOT_READY) return false;
  device_.require(code, "cuStreamQuery");
  return true;
}

void Stream::synchronize() const {
  const CurrentContext current(device_);
  device_.require(device_.driver().stream.synchronize(stream_), "cuStreamSynchronize");
}

Module::Module(const Device& device, const void* image) : device_(device) {
  const CurrentContext current(device);
  const BesideCaptures beside(device);
  device.require(device.driver().kernel.load_module(&module_, image), "cuModuleLoadData");
}

Module::~Module() {
  const BesideCaptures beside(device_);
  if (const CurrentContext current(device_, std::nothrow); current)
    device_.driver().kernel.unload_module(module_);
}

CUfunction Module::function(const char* name) const {
  CUfunction function = find(name);
  if (!function)
    device_.require(CUDA_ERROR_NOT_FOUND, fmt::format("cuModuleGetFunction of {}", name).c_str());
  return function;
}

CUfunction Module::find(const char* name) const {
  const CurrentContext current(device_);
  const BesideCaptures beside(device_);
  const KernelCalls& kernel = device_.driver().kernel;
  CUfunction function = nullptr;
  const CUresult code = kernel.get_function(&function, module_, name);
  if (code == CUDA_ERROR_NOT_FOUND) return nullptr;
  if (code != CUDA_SUCCESS)
    device_.require(code, fmt::format("cuModuleGetFunction of {}", name).c_str());
  if (kernel.load_function) device_.require(kernel.load_function(function), "cuFuncLoad");
  return function;
}

}  // namespace ringwood::cuda
