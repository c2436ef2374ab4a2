// The engine's part in calls on memory of devices.
#include <utility>

#include "collectives/runtime/progress_engine.h"

namespace ringwood {
namespace {

// It may wait for streams, which wait for operations that this thread is to end.
Error in_a_callback() {
  return {ErrorCode::unsupported,
          "a call on memory of a device cannot be made in the callback of another operation: make "
          "it in a thread of its own"};
}

}  // namespace

Status ProgressEngine::submit_on_device(std::shared_ptr<CollectiveState> operation,
                                        bool synchronous) {
  if (forked_since(mesh_->process)) return health();
  while (true) {
    {
      EngineLock held = role_.lock();
      if (role_.mine(held)) return in_a_callback();
      if (Status s = refusal(); !s) return s;
      if (!queue_.admits(held, *operation))
        if (Status s = admit(held, *operation); !s) return s;
    }
    const auto in_order = device_calls_->in_order();
    if (Status s = device_calls_->enter(*operation); !s)
      return end_unless_callers(std::move(s.error()), operation->name);
    EngineLock held = role_.lock();
    Status s = refusal();
    if (s && !queue_.admits(held, *operation)) {  // parameters have changed: once more
      device_calls_->leave(*operation);
      continue;
    }
    if (s) s = need_driver(held, synchronous);
    if (!s) {
      device_calls_->leave(*operation);
      return s;
    }
    queue_.push(held, std::move(operation));
    if (!synchronous) role_.notify_progress_thread(held);
    break;
  }
  waiter_.wake();
  return {};
}

Error ProgressEngine::end_unless_callers(Error error, const char* collective) {
  error.collective = collective;
  return is_of_the_caller(error) ? error : error_.end(std::move(error));
}

void ProgressEngine::check_memory(const char* what, int device, std::span<void* const> buffers) {
  if (role_.mine(role_.lock())) throw in_a_callback();
  if (Status s = device_calls_->check(what, device, buffers); !s)
    throw end_unless_callers(std::move(s.error()), what);
}

}  // namespace ringwood
