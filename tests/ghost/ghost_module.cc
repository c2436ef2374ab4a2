// What tests ask of the ghost device beside what torch does.
#include <pybind11/pybind11.h>

#include <condition_variable>
#include <mutex>

#include "tests/ghost/ghost_driver.h"
#include "tests/ghost/ghost_memory.h"

namespace ghost {
namespace {

namespace cuda = ringwood::cuda;

// Holds up streams until it is opened. One for the process.
class Gate {
 public:
  void close_behind(DeviceIndex index) {
    {
      const std::lock_guard lock(mutex_);
      open_ = false;
    }
    const cuda::CurrentContext context(device(index));
    device(index).require(
        driver().stream.host_function(
            current(index).get(), [](void* gate) { static_cast<Gate*>(gate)->wait(); }, this),
        "cuLaunchHostFunc");
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = true;
};
Gate& gate() {
  static auto* const made = new Gate;
  return *made;
}

}  // namespace

PYBIND11_MODULE(GHOST_MODULE, module) {
  module.def(
      "close_gate", [] { gate().close_behind(current_device()); },
      "What the current stream of the current device is given from now on waits for open_gate().");
  // As torch.cuda.graph() does.
  module.def("begin_capture", [] {
    const auto& on = device(current_device());
    const cuda::CurrentContext context(on);
    on.require(entry<cuda::CUresult (*)(cuda::CUstream, cuda::CUstreamCaptureMode)>(
                   "cuStreamBeginCapture_v2")(current(current_device()).get(),
                                              cuda::CU_STREAM_CAPTURE_MODE_GLOBAL),
               "cuStreamBeginCapture");
  });
  module.def("end_capture", [] {
    const auto& on = device(current_device());
    const cuda::CurrentContext context(on);
    void* graph = nullptr;
    on.require(entry<cuda::CUresult (*)(cuda::CUstream, void**)>("cuStreamEndCapture")(
                   current(current_device()).get(), &graph),
               "cuStreamEndCapture");
  });
  module.def("open_gate", [] { gate().open(); });
  module.def("recorded_streams", &recorded_streams);
  module.def("device_count", [] { return static_cast<int>(device_count()); });
}

}  // namespace ghost
