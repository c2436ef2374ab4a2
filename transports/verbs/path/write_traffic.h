// What the large writes of a link carry, by its user's own completions, for Link::traffic().
//
// A completion that nobody reads says nothing of its time: after an operation the last writes may
// stay unread until the next one. So only those intervals between two looks count in which the user
// was waiting: short ones, and those in which it slept with its queues armed, since a completion
// would have woken it. What lands in any other interval does not count either.
//
// Thread safety: look() and posted() from the link's user, traffic() from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "transports/base/clock.h"
#include "transports/link.h"

namespace ringwood::verbs {

class WriteTraffic final {
 public:
  static constexpr Duration kShort = std::chrono::milliseconds(1);
  static constexpr Duration kLongestSleep = std::chrono::milliseconds(100);

  // Whether look() has anything to note.
  bool due(uint64_t open) const { return open > 0 || open_; }
  // After the completions were read and the next writes posted. Bytes of large writes: on their way
  // now, and landed since the link was made. `armed`: the user may sleep until its next look.
  void look(uint64_t open, uint64_t landed, bool armed, Clock::time_point now) {
    const Duration gap = now - last_;
    if (open_ && gap <= (armed_ ? kLongestSleep : kShort)) {
      add(bytes_, landed - landed_);
      add(busy_, static_cast<uint64_t>(std::chrono::nanoseconds(gap).count()));
    }
    open_ = open > 0;
    landed_ = landed;
    armed_ = armed;
    last_ = now;
  }
  void posted() { add(messages_, 1); }
  // The part of the link's paths that carry.
  void carry(double part) { carrying_.store(part, std::memory_order_relaxed); }

  LinkTraffic traffic() const {
    const auto of = [](const std::atomic<uint64_t>& n) {
      return n.load(std::memory_order_relaxed);
    };
    return {.messages = of(messages_),
            .bytes = of(bytes_),
            .busy = static_cast<double>(of(busy_)) * 1e-9,
            .carrying = carrying_.load(std::memory_order_relaxed)};
  }

 private:
  // One thread writes.
  static void add(std::atomic<uint64_t>& to, uint64_t n) {
    to.store(to.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  bool open_ = false, armed_ = false;
  uint64_t landed_ = 0;
  Clock::time_point last_;
  std::atomic<uint64_t> messages_{0}, bytes_{0}, busy_{0};  // nanoseconds
  std::atomic<double> carrying_{1};
};

}  // namespace ringwood::verbs
