// The last synchronous operations of a communicator. Each is reused with its plan once its handle
// is dropped: a call like one of them allocates nothing and looks nothing up. There are several
// because programs alternate: a barrier and a sum, or the sums of three tensors.
//
// Most such calls are recognized by their arguments alone, in again(): the arguments were
// checked before.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "collectives/operations/operation.h"
#include "collectives/runtime/work_queue.h"

namespace ringwood {

// A call with blocks of one size, as its caller makes it, without the options.
struct EvenCall {
  Collective collective = Collective::barrier;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  size_t count = 0;          // CollectiveArgs::count
  const void* in = nullptr;  // blocks in sequence; null where the call is in place
  void* out = nullptr;       // likewise, or the one buffer

  // The memory that peers might read in place.
  const void* source() const {
    if (cut_from_one_buffer(collective)) return out;
    return sends_from_input(collective) ? in : nullptr;
  }
};

// Thread safety: one thread at a time holds it, and others see that it is held. hold() requires the
// engine's lock, which the call needs anyway; give_back() does not.
class RecentCalls final {
 public:
  using State = std::shared_ptr<CollectiveState>;

  // False: another thread holds it. Otherwise give_back() must follow.
  bool hold(const EngineLock&) {
    if (held_.load(std::memory_order_acquire)) return false;
    held_.store(true, std::memory_order_relaxed);
    return true;
  }
  void give_back() noexcept { held_.store(false, std::memory_order_release); }

  // The operation of a call like a recent one, ready to begin, and held. Null: there is none,
  // another thread holds it, or the arguments need the full checks.
  const State* again(const EngineLock& lock, const EvenCall& even, const CallOptions& call,
                     bool private_source, Duration timeout);

  // Precondition: hold(). Gives back if it throws. `make` makes a new state, `find` a plan.
  template <class Make, class Find>
  State take(const char* name, Duration timeout, const CollectiveArgs& args,
             const CallOptions& call, bool private_source, Make make, Find find) {
    try {
      Recent& recent = like(args, call, private_source);
      if (recent.free()) {
        recent.state->reuse(name, timeout);
      } else {
        auto next = make();
        next->recent = true;
        if (recent.known) next->use(recent.state->plan);
        recent.state = std::move(next);
      }
      if (!recent.known) recent.state->use(find());
      recent.known = true;
      return recent.state;
    } catch (...) {
      give_back();
      throw;
    }
  }

 private:
  struct Recent {
    State state;
    bool known = false;  // the state's plan is that of the call described by the following
    std::string algorithm;
    int segments = 0;
    double tolerance = 0;
    std::shared_ptr<const ProvedSchedules> schedules;
    bool private_source = false;

    // The operation has no other holder.
    bool free() const {
      if (!state || state.use_count() != 1) return false;
      std::atomic_thread_fence(std::memory_order_acquire);
      return true;
    }
    bool serves(const CallOptions& call, bool source) const {
      return known && segments == call.segments && algorithm == call.algorithm &&
             tolerance == call.tolerance && schedules == call.schedules && private_source == source;
    }
  };

  // The entry for calls with these options whose plan is as wanted, or null.
  template <class Wanted>
  Recent* find(const CallOptions& call, bool private_source, Wanted wanted) {
    const auto fits = [&](const Recent& recent) {
      return recent.serves(call, private_source) && wanted(recent.state->plan->args);
    };
    if (fits(recent_[last_])) return &recent_[last_];
    for (size_t i = 0; i < recent_.size(); ++i) {
      if (!fits(recent_[i])) continue;
      last_ = i;
      return &recent_[i];
    }
    return nullptr;
  }
  // The entry for such calls; else the oldest one, cleared.
  Recent& like(const CollectiveArgs& args, const CallOptions& call, bool private_source);

  std::atomic<bool> held_{false};
  std::array<Recent, 4> recent_;
  size_t last_ = 0;  // index last used
  size_t next_ = 0;  // index to be replaced next
};

}  // namespace ringwood
