// The last synchronous operation of a communicator, to be used again with its plan once its handle
// is dropped: a repeated call asks for no memory and looks nothing up.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "collectives/operation.h"

namespace ringwood {

// Thread safe: one thread at a time has it, the others find it taken.
class RecentCall final {
 public:
  // Null: taken. Otherwise give_back() must follow. `make` makes a new state, `find` a plan.
  template <class Make, class Find>
  std::shared_ptr<CollectiveState> take(const char* name, Duration timeout, const Shape& shape,
                                        const CallOptions& call, bool private_source, Make make,
                                        Find find) {
    if (busy_.test_and_set(std::memory_order_acquire)) return nullptr;
    try {
      if (state_ && state_.use_count() == 1) {
        std::atomic_thread_fence(std::memory_order_acquire);
        state_->reuse(name, timeout);
      } else {
        state_ = make();
        state_->recent = true;
      }
      const auto& plan = state_->plan;
      if (!plan || lanes_ != call.lanes || plan->shape != shape || algorithm_ != call.algorithm ||
          tolerance_ != call.tolerance || schedules_ != call.schedules ||
          private_source_ != private_source) {
        state_->plan = nullptr;
        state_->plan = find();
        algorithm_ = call.algorithm;
        lanes_ = call.lanes;
        private_source_ = private_source;
        tolerance_ = call.tolerance;
        schedules_ = call.schedules;
      }
    } catch (...) {
      give_back();
      throw;
    }
    return state_;
  }
  void give_back() noexcept { busy_.clear(std::memory_order_release); }

 private:
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::shared_ptr<CollectiveState> state_;
  std::string algorithm_;  // as the call said, like lanes
  int lanes_ = 0;
  bool private_source_ = false;
  double tolerance_ = 0;
  std::shared_ptr<const ProvedSchedules> schedules_;
};

}  // namespace ringwood
