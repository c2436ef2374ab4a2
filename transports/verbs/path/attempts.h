// When to try to reopen a path. Value type, without a clock of its own.
#pragma once

#include <algorithm>

#include "transports/base/clock.h"

namespace ringwood::verbs {

// The first try is a second after the loss; after every failure the delay doubles, up to half a
// minute, without end. A path that did not last keeps its last delay.
class Attempts {
 public:
  static constexpr Duration kFirst = std::chrono::seconds(1), kLast = std::chrono::seconds(30);

  bool due(Clock::time_point now) const { return now >= next_; }
  void used(Clock::time_point now) {
    since_ = now;
    failures_ = 0;
  }
  void lost(Clock::time_point now) {
    if (now - since_ >= kLast) delay_ = kFirst;
    wait(now);
  }
  void failed(Clock::time_point now) {
    ++failures_;
    wait(now);
  }
  // The rail is back: earlier failures say nothing, but it may need a moment.
  void hurry(Clock::time_point now) {
    next_ = now;
    delay_ = kFirst;
  }
  // Consecutive failures.
  int failures() const { return failures_; }

 private:
  void wait(Clock::time_point now) {
    next_ = now + delay_;
    delay_ = std::min(2 * delay_, kLast);
  }

  Clock::time_point next_{}, since_{};
  Duration delay_ = kFirst;
  int failures_ = 0;
};

}  // namespace ringwood::verbs
