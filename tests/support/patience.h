// How long a test waits for what comes by itself unless something is broken.
#pragma once

#include <chrono>

#include "transports/base/clock.h"

namespace ringwood::testing {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr int kSlower = 10;
#else
inline constexpr int kSlower = 1;
#endif

inline Deadline within(double seconds) {
  return Deadline::after(std::chrono::milliseconds(static_cast<int>(seconds * 1000)));
}

// Also of the product's own limits where no timeout is tested. No promise: what it bounds takes far
// less on a free machine, and a busy one may wake a sleeping thread seconds late, again and again.
// Only a broken test needs it.
inline constexpr std::chrono::seconds kPatience{120 * kSlower};
inline Deadline patiently() { return Deadline::after(kPatience); }

// A heartbeat with which all that is asked of a rank over the control connection may be answered
// 100 times as late as usually (6 s, 30 s, 100 s): a rank of a busy machine does not look like one
// that does not answer. Heartbeats come but once, at the start.
inline constexpr std::chrono::milliseconds kUnhurried{25'000};

// For a limit of the product that has to end what cannot succeed, while something else has to
// happen before: `attempt` is given the limit `first`, and four times as much after each attempt
// that was too short, which it says by false. False: kPatience was too short as well.
template <class Attempt>
bool with_growing_limit(std::chrono::milliseconds first, Attempt attempt) {
  for (auto limit = first; limit < kPatience; limit *= 4)
    if (attempt(limit)) return true;
  return false;
}

}  // namespace ringwood::testing
