// When to try to open a path again. Value type, no clock of its own.
#pragma once

#include <algorithm>

#include "transports/base/clock.h"

namespace ringwood::verbs {

// When to try: a second after the loss, and after every failure twice as long, up to half a minute,
// without end. A path that did not last does not begin anew.
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
  // The rail is back: what failed before tells nothing, but it may need a moment.
  void hurry(Clock::time_point now) {
    next_ = now;
    delay_ = kFirst;
  }
  // In a row.
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
