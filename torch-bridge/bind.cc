// The extension module, RINGWOOD_MODULE (meson.build): makes backends, and ends them when the
// interpreter does.
#include <c10/util/StringUtil.h>
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "torch-bridge/backend.h"
#include "torch-bridge/errors.h"
#include "torch-bridge/flight_recorder.h"
#include "torch-bridge/interpreter_end.h"
#include "torch-bridge/interrupt.h"
#include "torch-bridge/shared.h"
#include "torch-bridge/store.h"
#include "transports/base/options.h"

namespace py = pybind11;

namespace ringwood {

namespace {

// The backends that are still alive, so that the end of the interpreter finds them. Thread safe.
class Alive final {
 public:
  void add(const c10::intrusive_ptr<TorchBackend>& backend) {
    std::lock_guard lock(mutex_);
    std::erase_if(backends_, [](const auto& weak) { return weak.expired(); });
    backends_.emplace_back(backend);
  }
  void leave_all() {
    python_is_ending.store(true);
    std::vector<c10::weak_intrusive_ptr<TorchBackend>> backends;
    {
      std::lock_guard lock(mutex_);
      backends.swap(backends_);
    }
    // All together, so that the interpreter ends within two seconds.
    const Deadline deadline = Deadline::after(std::chrono::milliseconds(1500));
    for (const auto& weak : backends) {
      const std::chrono::milliseconds left(std::max(10, deadline.left_ms()));
      if (auto backend = weak.lock()) backend->leave_at_exit(left);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<c10::weak_intrusive_ptr<TorchBackend>> backends_;
};

// Called without the GIL: ranks that are threads of this process must be able to come, too.
c10::intrusive_ptr<TorchBackend> create(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                        int size, std::chrono::milliseconds timeout,
                                        const std::string& name,
                                        const std::vector<int64_t>& global_ranks) {
  auto torch_options = c10::make_intrusive<c10d::Backend::Options>("ringwood", timeout);
  torch_options->group_name = name;
  torch_options->global_ranks_in_group.assign(global_ranks.begin(), global_ranks.end());
  try {
    Options options = Options::from_environment();
    options.timeout = timeout;
    options.init_timeout = std::min(options.init_timeout, timeout);
    if (options.share_tensors > 0) SharingAllocator::install(options.share_tensors);
    auto communicator =
        Communicator::create(std::make_shared<TorchStore>(store), rank, size, options, name);
    return c10::make_intrusive<TorchBackend>(std::move(communicator), std::move(torch_options),
                                             options.cuda);
  } catch (const Error& error) {
    rethrow_interrupt();
    raise_at_start(error, group_note(name, "", torch_options->global_ranks_in_group));
  }
}

}  // namespace

PYBIND11_MODULE(RINGWOOD_MODULE, module) {
  py::module_::import("torch._C._distributed_c10d");  // the base class of what create() returns
  auto alive = std::make_shared<Alive>();
  module.def(
      "create",
      [alive](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
              std::chrono::milliseconds timeout, const std::string& name,
              const std::vector<int64_t>& global_ranks) {
        auto backend = create(store, rank, size, timeout, name, global_ranks);
        alive->add(backend);
        return c10::static_intrusive_pointer_cast<c10d::Backend>(backend);
      },
      py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"), py::arg("name"),
      py::arg("global_ranks"), py::call_guard<py::gil_scoped_release>());
  module.def(
      "shared_bytes",
      [](int64_t count) { return shared_tensor(count, at::TensorOptions(at::kByte)); },
      py::arg("count"));
  module.def("share_large_tensors", &SharingAllocator::install, py::arg("least"));
  module.def(
      "prioritize",
      [](bool high) {
        const Priority now = high ? Priority::high : Priority::normal;
        return std::exchange(priority_of_thread, now) == Priority::high;
      },
      py::arg("high"), "The priority of what this thread calls; returns the one before.");
  module.def(
      "dump_fr_trace",
      [](bool calls, bool only_active) {
        std::string pickled;
        {
          const py::gil_scoped_release released;
          pickled = FlightRecorder::instance().dump(calls, only_active);
        }
        return py::bytes(pickled);
      },
      py::arg("calls"), py::arg("only_active"));
  module.def(
      "leave_all", [alive] { alive->leave_all(); }, py::call_guard<py::gil_scoped_release>());
}

}  // namespace ringwood
