// How late this machine wakes a sleeping thread, measured beside what is judged by it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "transports/base/clock.h"

namespace ringwood::testing {

// While it lives, a thread of this process sleeps 10 ms, again and again.
//
// A test that is about time itself checks its bound against this object, which must live from
// before the interval until it is judged: a bound that is exceeded beside wakes that were as late
// says nothing of the product. It sees one thread of one process, so stretch() leaves room for
// others that were less lucky. Any thread may ask.
class LateWakes {
 public:
  LateWakes() : thread_([this] { watch(); }) {}
  LateWakes(const LateWakes&) = delete;
  LateWakes& operator=(const LateWakes&) = delete;
  ~LateWakes() {
    over_ = true;
    thread_.join();
  }

  // How late the latest wake was, or is by now if it has not come.
  Duration worst() const {
    const Duration waited = Clock::now() - Clock::time_point(Duration(asleep_since_.load()));
    return std::max(Duration(worst_.load()), waited - kSleep);
  }
  // `bound`, and ten times the latest wake.
  Duration stretch(Duration bound) const { return bound + 10 * std::max(Duration(0), worst()); }

 private:
  static constexpr Duration kSleep = std::chrono::milliseconds(10);

  void watch() {
    while (!over_) {
      const auto began = Clock::now();
      asleep_since_ = Duration(began.time_since_epoch()).count();
      std::this_thread::sleep_for(kSleep);
      const Duration late = Clock::now() - began - kSleep;
      worst_ = std::max(worst_.load(), late.count());
    }
  }

  std::atomic<bool> over_{false};
  std::atomic<Duration::rep> asleep_since_{Duration(Clock::now().time_since_epoch()).count()};
  std::atomic<Duration::rep> worst_{0};
  std::thread thread_;  // after what it uses
};

}  // namespace ringwood::testing
