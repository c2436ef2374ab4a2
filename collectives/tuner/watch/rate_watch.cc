#include "collectives/tuner/watch/rate_watch.h"

#include <algorithm>
#include <utility>

namespace ringwood {

void RateWatch::renew() {
  expected_ = 0;
  doubted_.reset();
  min_part_ = kOtherwise;
  restarts_ = true;
  above_ = false;
  direction_ = 0;
}

void RateWatch::measured(const PathParameters& path) {
  const double times = path.rate / path_.rate;
  // It has never carried what the parameters say: others may send to the same port of the peer.
  if (doubted_ == 0.0) min_part_ = kOtherwise;
  expected_ = doubted_.value_or(expected_);
  if (times < 1 - kContradicts || times > 1 + kContradicts) {
    expected_ *= times;
    path_ = path;
  }
  doubted_.reset();
  above_ = false;
  restarts_ = true;
  direction_ = 0;
}

// What is expected in its place; 0: it is as expected. `above`: it is more than the parameters say.
// `at_once`: paths over the same port.
double RateWatch::contradicted(double rate, bool above, double at_once) const {
  if (above && !above_) return path_.rate;
  if (expected_ > 0)
    return rate * kChanged < expected_ || rate > expected_ * kChanged ? expected_ : 0;
  const double least = path_.rate * path_.both_ways / (sharing_ * at_once);
  return rate < least * min_part_ ? least : 0;
}

auto RateWatch::look(const LinkTraffic& total, double port_busy) -> std::optional<Change> {
  if (total.carrying != carrying_) {
    const double before = std::exchange(carrying_, total.carrying);
    renew();
    return Change{path_.rate * carrying_, path_.rate * before};
  }
  if (restarts_) {
    restarts_ = false;
    window_ = total;
    port_busy_ = port_busy;
    return std::nullopt;
  }
  const double busy = total.busy - window_.busy, blocked = total.blocked - window_.blocked;
  const auto bytes = static_cast<double>(total.bytes - window_.bytes);
  const auto messages = static_cast<double>(total.messages - window_.messages);
  if (!(bytes >= kWindowBytes && busy >= kMinSeconds) && busy < kWindowSeconds) return std::nullopt;
  const double at_once = std::max((port_busy - port_busy_) / busy, 1.0);
  window_ = total;
  port_busy_ = port_busy;
  if (blocked > busy / 2) return std::nullopt;  // it says more of the peer
  const double longest = std::max(kMessage, kLatencies * path_.latency * path_.rate);
  // A path that carries nothing at all has a rate, too.
  if (bytes > 0 && bytes < longest * messages) return std::nullopt;
  const double rate = std::max(bytes / (busy - blocked), 1.0);
  // While it was blocked, something may have been sent.
  const bool above = bytes / busy > path_.rate * (1 + kContradicts);
  const double expected = contradicted(rate, above, at_once);
  const int direction = expected == 0 ? 0 : rate < expected ? -1 : 1;
  const bool twice = direction != 0 && direction == direction_;
  direction_ = twice ? 0 : direction;
  if (direction == 0 && expected_ == 0) expected_ = rate;
  if (!twice) return std::nullopt;
  if (!doubted_) doubted_ = expected_;
  above_ |= above;
  expected_ = rate;
  return Change{rate, expected};
}

}  // namespace ringwood
