// The last synchronous operations of a communicator, each to be used again with its plan once its
// handle is dropped: a call like one of them asks for no memory and looks nothing up. They are
// several because programs take turns: a barrier and a sum, or the sums of three tensors.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "collectives/operation.h"

namespace ringwood {

// Thread safe: one thread at a time has it, the others find it taken.
class RecentCalls final {
 public:
  // Null: taken. Otherwise give_back() must follow. `make` makes a new state, `find` a plan.
  template <class Make, class Find>
  std::shared_ptr<CollectiveState> take(const char* name, Duration timeout, const Shape& shape,
                                        const CallOptions& call, bool private_source, Make make,
                                        Find find) {
    if (busy_.test_and_set(std::memory_order_acquire)) return nullptr;
    try {
      Recent& recent = like(shape, call, private_source);
      if (recent.state && recent.state.use_count() == 1) {
        std::atomic_thread_fence(std::memory_order_acquire);
        recent.state->reuse(name, timeout);
      } else {
        recent.state = make();
        recent.state->recent = true;
      }
      CollectiveState& state = *recent.state;
      if (!recent.known || !state.plan) {
        state.plan = nullptr;
        state.plan = find();
        recent.known = true;
      }
      return recent.state;
    } catch (...) {
      give_back();
      throw;
    }
  }
  void give_back() noexcept { busy_.clear(std::memory_order_release); }

 private:
  struct Recent {
    std::shared_ptr<CollectiveState> state;
    bool known = false;  // the state's plan is that of the following, as the call said it
    std::string algorithm;
    int lanes = 0;
    double tolerance = 0;
    std::shared_ptr<const ProvedSchedules> schedules;
    bool private_source = false;

    bool serves(const Shape& shape, const CallOptions& call, bool source) const {
      return known && state->plan->shape == shape && lanes == call.lanes &&
             algorithm == call.algorithm && tolerance == call.tolerance &&
             schedules == call.schedules && private_source == source;
    }
  };

  // The one for such calls, or the one that has been there longest, of which nothing is known.
  Recent& like(const Shape& shape, const CallOptions& call, bool private_source) {
    if (recent_[last_].serves(shape, call, private_source)) return recent_[last_];
    for (size_t i = 0; i < recent_.size(); ++i) {
      if (!recent_[i].serves(shape, call, private_source)) continue;
      last_ = i;
      return recent_[i];
    }
    last_ = next_;
    next_ = (next_ + 1) % recent_.size();
    Recent& oldest = recent_[last_];
    oldest.known = false;
    oldest.algorithm = call.algorithm;
    oldest.lanes = call.lanes;
    oldest.tolerance = call.tolerance;
    oldest.schedules = call.schedules;
    oldest.private_source = private_source;
    return oldest;
  }

  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::array<Recent, 4> recent_;
  size_t last_ = 0;  // used
  size_t next_ = 0;  // to be given up
};

}  // namespace ringwood
