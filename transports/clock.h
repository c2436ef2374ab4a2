// Monotonic time and deadlines. Wall clocks step; nothing here reads one.
#pragma once

#include <algorithm>
#include <chrono>

namespace ringwood {

using Clock = std::chrono::steady_clock;
using Duration = std::chrono::nanoseconds;

// A point in time after which an operation has failed. Value type.
class Deadline {
 public:
  static Deadline never() { return Deadline(Clock::time_point::max()); }
  static Deadline after(Duration d) {
    auto now = Clock::now();
    return d >= Clock::time_point::max() - now ? never() : Deadline(now + d);
  }
  bool passed() const { return passed(Clock::now()); }
  bool passed(Clock::time_point now) const { return now >= at_; }
  // Never negative.
  Duration left() const {
    if (at_ == Clock::time_point::max()) return Duration::max();
    return std::max<Duration>(Duration::zero(), at_ - Clock::now());
  }
  int left_ms() const {  // for poll(); capped, rounded up
    auto ms = std::chrono::ceil<std::chrono::milliseconds>(
        std::min<Duration>(left(), std::chrono::hours(1)));
    return static_cast<int>(ms.count());
  }
  Clock::time_point at() const { return at_; }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace ringwood
