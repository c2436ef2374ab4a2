#include "collectives/epochs/rate_watch.h"

#include <algorithm>

namespace ringwood {

void RateWatch::renew() {
  renewed_ = restarts_ = true;
  direction_ = 0;
}

// What is expected in its place; 0: it is as expected.
double RateWatch::contradicted(double rate) const {
  if (expected_ > 0)
    return rate * kChanged < expected_ || rate > expected_ * kChanged ? expected_ : 0;
  const double least = path_.rate * path_.both_ways / sharing_;
  if (rate < least * (1 - kContradicts)) return least;
  return rate > path_.rate * (1 + kContradicts) ? path_.rate : 0;
}

auto RateWatch::look(const LinkTraffic& total) -> std::optional<Change> {
  if (restarts_) {
    restarts_ = false;
    window_ = total;
    return std::nullopt;
  }
  const double busy = total.busy - window_.busy, held = total.held - window_.held;
  const auto bytes = static_cast<double>(total.bytes - window_.bytes);
  const auto messages = static_cast<double>(total.messages - window_.messages);
  if (!(bytes >= kWindowBytes && busy >= kMinSeconds) && busy < kWindowSeconds) return std::nullopt;
  window_ = total;
  if (held > busy / 2) return std::nullopt;  // it says more of the peer
  const double longest = std::max(kMessage, kLatencies * path_.latency * path_.rate);
  // A path that carries nothing at all has a rate, too.
  if (bytes > 0 && bytes < longest * messages) return std::nullopt;
  const double rate = std::max(bytes / (busy - held), 1.0);
  if (renewed_) {
    renewed_ = false;
    expected_ = rate;
    return std::nullopt;
  }
  const double expected = contradicted(rate);
  const int direction = expected == 0 ? 0 : rate < expected ? -1 : 1;
  const bool twice = direction != 0 && direction == direction_;
  direction_ = twice ? 0 : direction;
  if (direction == 0 && expected_ == 0) expected_ = rate;
  if (!twice) return std::nullopt;
  expected_ = rate;
  return Change{rate, expected};
}

}  // namespace ringwood
