// The engine's part in calls on memory of devices.
#include <exception>
#include <functional>
#include <type_traits>
#include <utility>

#include "collectives/runtime/progress_engine.h"
#include "transports/cuda/loaded_driver.h"

namespace ringwood {
namespace {

// It may wait for streams, which wait for operations that this thread is to end.
Error in_a_callback() {
  return {ErrorCode::unsupported,
          "a call on memory of a device cannot be made in the callback of another operation: make "
          "it in a thread of its own"};
}

const DeviceStream& stream_of(const CollectiveState& operation) { return operation.call().on; }
const DeviceStream& stream_of(const MessageState& message) { return message.on; }

}  // namespace

template <class State>
Status ProgressEngine::refuse_on_device(EngineLock& held, State& operation) {
  if (role_.mine(held)) return in_a_callback();
  if (Status s = refusal(); !s) return s;
  if constexpr (std::is_same_v<State, CollectiveState>)
    if (!queue_.admits(held, operation)) return admit(held, operation);
  return {};
}

// Precondition: it has entered. False: parameters have changed, once more.
template <class State>
Result<bool> ProgressEngine::push_entered(const std::shared_ptr<State>& operation,
                                          bool synchronous) try {
  EngineLock held = role_.lock();
  if (Status s = refusal(); !s) return std::move(s.error());
  if constexpr (std::is_same_v<State, CollectiveState>)
    if (!queue_.admits(held, *operation)) return false;
  if (Status s = need_driver(held, synchronous); !s) return std::move(s.error());
  queue_.push(held, operation);
  if (!synchronous) role_.notify_progress_thread(held);
  return true;
} catch (...) {
  return caught_error();
}

template <class State>
Status ProgressEngine::submit_on_device(std::shared_ptr<State> operation, bool synchronous) {
  if (forked_since(mesh_->process)) return health();
  while (true) {
    {
      EngineLock held = role_.lock();
      if (Status s = refuse_on_device(held, *operation); !s) return s;
    }
    const auto in_order = device_calls_->in_order();
    auto entered = device_calls_->enter(*operation);
    if (!entered) return end_unless_callers(std::move(entered.error()), operation->name);
    auto pushed = push_entered(operation, synchronous);
    if (pushed && *pushed) waiter_.wake();
    if (!pushed || !*pushed) device_calls_->leave(*operation);
    Status held_back = device_calls_->hold_back(stream_of(*operation), *entered);
    if (!held_back) {  // the driver may have it: the group ends, and it with it
      held_back.error().collective = operation->name;
      Error ended = error_.end(std::move(held_back.error()));
      return pushed && *pushed ? Status() : std::move(ended);
    }
    if (!pushed) return std::move(pushed.error());
    if (*pushed) return {};
  }
}
template Status ProgressEngine::submit_on_device(std::shared_ptr<CollectiveState>, bool);
template Status ProgressEngine::submit_on_device(std::shared_ptr<MessageState>, bool);

Error ProgressEngine::end_unless_callers(Error error, const char* collective) {
  error.collective = collective;
  return is_of_the_caller(error) ? error : error_.end(std::move(error));
}

void ProgressEngine::launch_together(const std::function<void()>& launch) {
  if (!device_calls_->used() || forked_since(mesh_->process)) return launch();
  if (!device_calls_->begin_together()) return launch();
  std::exception_ptr thrown;
  try {
    launch();
  } catch (...) {
    thrown = std::current_exception();
  }
  if (Status s = device_calls_->end_together(); !s) (void)error_.end(std::move(s.error()));
  if (thrown) std::rethrow_exception(thrown);
}

void ProgressEngine::check_kind(const char* what, const DeviceStream& on,
                                std::span<void* const> buffers) {
  if (forked_since(mesh_->process)) return;
  if (on.device < 0) return cuda::LoadedDriver::refuse(what, buffers);
  if (role_.mine(role_.lock())) throw in_a_callback();
  if (Status s = device_calls_->check(what, on, buffers); !s)
    throw end_unless_callers(std::move(s.error()), what);
}

}  // namespace ringwood
