// The last synchronous operations of a communicator. Each is reused with its plan once its handle
// is dropped: a call like one of them allocates nothing and looks nothing up. There are several
// because programs alternate: a barrier and a sum, or the sums of three tensors.
//
// Most such calls are recognized by their arguments alone, in again(): the arguments were
// checked before.
//
// Between calls an operation here has its plan, and nothing else that takes memory.
#pragma once

#include <array>
#include <atomic>
#include <memory>
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
// engine's lock, which the call needs anyway; the end of a Hold does not. All else requires one.
class RecentCalls final {
 public:
  using State = std::shared_ptr<CollectiveState>;

  // Gives it back at its end. An empty one holds nothing.
  class Hold final {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(held_, other.held_);
      return *this;
    }
    ~Hold() {
      if (held_) held_->store(false, std::memory_order_release);
    }
    explicit operator bool() const { return held_ != nullptr; }

   private:
    friend class RecentCalls;
    explicit Hold(std::atomic<bool>& held) : held_(&held) {
      held.store(true, std::memory_order_relaxed);
    }
    std::atomic<bool>* held_ = nullptr;
  };

  // A call's operation, until it is carried out or given up. One that was taken from here lets go
  // at the end of what it needed for that, before this is given back.
  class Begun final {
   public:
    explicit Begun(State state) : state_(std::move(state)) {}
    Begun(State state, Hold hold) : hold_(std::move(hold)), state_(std::move(state)) {}
    Begun(Begun&&) noexcept = default;
    Begun& operator=(Begun&&) = delete;
    ~Begun() {
      if (hold_ && state_ && (state_->number < 0 || state_->done())) state_->let_go();
    }
    bool recent() const { return static_cast<bool>(hold_); }
    const State& state() const { return state_; }
    CollectiveState& operator*() const { return *state_; }
    CollectiveState* operator->() const { return state_.get(); }

   private:
    Hold hold_;
    State state_;
  };

  // Empty: another thread holds it.
  Hold hold(const EngineLock&) {
    return held_.load(std::memory_order_acquire) ? Hold() : Hold(held_);
  }

  // The operation of a call like a recent one, ready to begin. Null: there is none, or the
  // arguments need the full checks.
  const State* again(const Hold&, const EvenCall& even, const CallOptions& call,
                     bool private_source, Duration timeout);

  // `make` makes a new state, `find` a plan.
  template <class Make, class Find>
  Begun take(Hold hold, const char* name, Duration timeout, const PlanKey& key, Make make,
             Find find) {
    Recent& recent = like(key);
    if (recent.free()) {
      recent.state->reuse(name, timeout);
    } else {
      auto next = make();
      if (recent.known) next->draft().plan = recent.state->call().plan;
      recent.state = std::move(next);
    }
    if (!recent.known) recent.state->draft().plan = find();
    recent.known = true;
    return Begun(recent.state, std::move(hold));
  }

 private:
  struct Recent {
    State state;
    bool known = false;  // the state has a plan, and is for calls with its key

    // The operation has no other holder.
    bool free() const {
      if (!state || state.use_count() != 1) return false;
      std::atomic_thread_fence(std::memory_order_acquire);
      return true;
    }
  };

  // The entry whose plan is as wanted, or null.
  template <class Wanted>
  Recent* find(Wanted wanted) {
    const auto fits = [&](const Recent& recent) {
      return recent.known && wanted(*recent.state->call().plan);
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
  Recent& like(const PlanKey& key);

  std::atomic<bool> held_{false};
  std::array<Recent, 4> recent_;
  size_t last_ = 0;  // index last used
  size_t next_ = 0;  // index to be replaced next
};

}  // namespace ringwood
