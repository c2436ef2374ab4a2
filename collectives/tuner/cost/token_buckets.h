// What the ports of a network let through at once after they were idle, in a simulation (cost.h): a
// token bucket each, which is how providers and switches limit a rate. Pure; not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ringwood {

class TokenBuckets final {
 public:
  // `burst`: bytes of a full bucket; all are full at first.
  explicit TokenBuckets(double burst) : burst_(burst) {}

  // No operation of many alike is faster, whatever a bucket had at first: it is filled again.
  double busiest() const { return busiest_; }

  // Sends these bytes through port `port` from `now` on, which is never before that of earlier
  // calls; the port is filled at `rate` bytes/s. Returns how many of them take no time. What others
  // send meanwhile finds the bucket empty.
  double take(size_t port, double now, double bytes, double rate) {
    if (burst_ <= 0) return 0;
    if (port >= ports_.size()) ports_.resize(port + 1);
    double& full = ports_[port].full;
    const double missing = std::max(0.0, full - now) * rate;
    full = std::max(now, full) + bytes / rate;
    ports_[port].busy += bytes / rate;
    busiest_ = std::max(busiest_, ports_[port].busy);
    return std::clamp(burst_ - missing, 0.0, bytes);
  }

 private:
  struct Port {
    double full = 0;  // when its bucket is full again
    double busy = 0;  // seconds for all bytes at its rate
  };

  const double burst_;
  double busiest_ = 0;
  std::vector<Port> ports_;
};

}  // namespace ringwood
