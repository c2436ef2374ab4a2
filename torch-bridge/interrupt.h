// Ctrl-C, and every other signal with a handler in Python, while the main thread waits in a call.
//
// Python runs signal handlers in the main thread, between two of its instructions; a thread that
// waits in here executes none. So it asks for signals itself, now and then: run_signal_handlers()
// is what a Communicator asks. If a handler raises, the group is aborted, which ends the wait, and
// rethrow_interrupt() carries the handler's exception to the caller instead of the group's error.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <atomic>
#include <exception>
#include <string>
#include <utility>

#include "torch-bridge/interpreter_end.h"

namespace ringwood {

// What a handler has raised. Of the main thread alone, but for `any`, which spares every call the
// question which thread it is in.
struct Raised {
  std::exception_ptr error;
  std::atomic<bool> any{false};
};
inline Raised& raised_by_handler() {
  static Raised raised;
  return raised;
}

// Takes the GIL. Empty: no handler raised anything, or this is not the main thread.
inline std::string run_signal_handlers() {
  if (!in_main_thread() || !Py_IsInitialized()) return "";
  const pybind11::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return "";
  pybind11::error_already_set error;
  const auto name = error.type().attr("__name__").cast<std::string>();
  raised_by_handler().error = std::make_exception_ptr(std::move(error));
  raised_by_handler().any.store(true);
  return name + " (a signal) interrupted this rank while it waited";
}

// At the end of everything that may have waited.
inline void rethrow_interrupt() {
  stay_if_python_ends();
  Raised& raised = raised_by_handler();
  if (!raised.any.load(std::memory_order_relaxed) || !in_main_thread()) return;
  raised.any.store(false);
  std::rethrow_exception(std::exchange(raised.error, nullptr));
}

}  // namespace ringwood
