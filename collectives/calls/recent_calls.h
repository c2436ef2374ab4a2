// The last synchronous operations of a communicator, each to be used again with its plan once its
// handle is dropped: a call like one of them asks for no memory and looks nothing up. They are
// several because programs take turns: a barrier and a sum, or the sums of three tensors.
//
// Most of such calls are known from their arguments alone, again(): those were found right before.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "collectives/operations/operation.h"
#include "collectives/runtime/work_queue.h"

namespace ringwood {

// A call of blocks of one size, as its caller makes it, but for the options.
struct EvenCall {
  Collective collective = Collective::barrier;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  size_t count = 0;          // CollectiveArgs::count
  const void* in = nullptr;  // blocks, one after the other; null where the call is in place
  void* out = nullptr;       // likewise, or the one buffer

  // What peers might read in place.
  const void* source() const {
    if (cut_from_one_buffer(collective)) return out;
    return sends_from_input(collective) ? in : nullptr;
  }
};

// Thread safety: one thread at a time holds it, the others find it held. It is taken hold of with
// the engine's lock held, which the call needs anyway, and given back without.
class RecentCalls final {
 public:
  using State = std::shared_ptr<CollectiveState>;

  // False: somebody else holds it. Otherwise give_back() must follow.
  bool hold(const EngineLock&) {
    if (held_.load(std::memory_order_acquire)) return false;
    held_.store(true, std::memory_order_relaxed);
    return true;
  }
  void give_back() noexcept { held_.store(false, std::memory_order_release); }

  // The operation of a call like a recent one, all but begun, and it is held. Null: there is none,
  // or somebody else holds it, or the arguments are not plainly right.
  const State* again(const EngineLock& lock, const EvenCall& even, const CallOptions& call,
                     bool private_source, Duration timeout);

  // Precondition: hold(). Where it throws, it is given back. `make` makes a new state, `find` a
  // plan.
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
    bool known = false;  // the state's plan is that of the following, as the call said it
    std::string algorithm;
    int segments = 0;
    double tolerance = 0;
    std::shared_ptr<const ProvedSchedules> schedules;
    bool private_source = false;

    // Nobody else holds the operation.
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

  // The one that serves calls with such options whose plan is as wanted, or null.
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
  // The one for such calls, or the one that has been there longest, of which nothing is known.
  Recent& like(const CollectiveArgs& args, const CallOptions& call, bool private_source);

  std::atomic<bool> held_{false};
  std::array<Recent, 4> recent_;
  size_t last_ = 0;  // used
  size_t next_ = 0;  // to be given up
};

}  // namespace ringwood
