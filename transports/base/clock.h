// Monotonic time and deadlines. Wall clocks step; no code here reads one.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace ringwood {

using Clock = std::chrono::steady_clock;
using Duration = std::chrono::nanoseconds;

// Of any unit, in nanoseconds: those that these cannot express (292 years, as of timedelta.max or
// milliseconds::max()) are the longest, where a conversion of the standard library would wrap.
template <class Number, class Unit>
constexpr Duration saturated(std::chrono::duration<Number, Unit> d) {
  using Given = std::chrono::duration<Number, Unit>;
  if (d >= std::chrono::duration_cast<Given>(Duration::max())) return Duration::max();
  if (d <= std::chrono::duration_cast<Given>(Duration::min())) return Duration::min();
  return std::chrono::duration_cast<Duration>(d);
}

// Of any unit: one that nanoseconds cannot express is not made them first.
template <class Number, class Unit>
double seconds_in(std::chrono::duration<Number, Unit> d) {
  return std::chrono::duration<double>(d).count();
}
inline double seconds_since(Clock::time_point then) { return seconds_in(Clock::now() - then); }

// A point in time after which an operation has failed. Value type.
class Deadline {
 public:
  static Deadline never() { return Deadline(Clock::time_point::max()); }
  template <class Number, class Unit>
  static Deadline after(std::chrono::duration<Number, Unit> given) {
    const Duration d = std::max(saturated(given), Duration::zero());
    const auto now = Clock::now();
    return d >= Clock::time_point::max() - now ? never() : Deadline(now + d);
  }
  bool passed() const { return passed(Clock::now()); }
  bool passed(Clock::time_point now) const { return now >= at_ || is_over(); }
  // This one, or `d` from now, if that is earlier.
  template <class Number, class Unit>
  Deadline within(std::chrono::duration<Number, Unit> d) const {
    Deadline sooner = *this;
    sooner.at_ = std::min(at_, after(d).at_);
    return sooner;
  }
  // This one, or `d` from now, if that is later.
  template <class Number, class Unit>
  Deadline not_before(std::chrono::duration<Number, Unit> d) const {
    Deadline later = *this;
    later.at_ = std::max(at_, after(d).at_);
    return later;
  }
  // Passes at once when `over`, which must outlive all copies, becomes true. Noticed only by a
  // waiter that waits by left_ms() and then asks passed().
  Deadline unless(const std::atomic<bool>& over) const {
    Deadline bounded = *this;
    bounded.over_ = &over;
    return bounded;
  }
  bool may_end_early() const { return over_ != nullptr; }
  // Never negative.
  Duration left() const {
    if (is_over()) return Duration::zero();
    if (at_ == Clock::time_point::max()) return Duration::max();
    return std::max<Duration>(Duration::zero(), at_ - Clock::now());
  }
  int left_ms() const {  // for poll(); capped, rounded up
    const Duration most = over_ ? Duration(std::chrono::milliseconds(50)) : std::chrono::hours(1);
    auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::min(left(), most));
    return static_cast<int>(ms.count());
  }
  Clock::time_point at() const { return at_; }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  bool is_over() const { return over_ && over_->load(std::memory_order_acquire); }
  Clock::time_point at_;
  const std::atomic<bool>* over_ = nullptr;
};

}  // namespace ringwood
