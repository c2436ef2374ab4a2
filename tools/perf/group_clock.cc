#include "tools/perf/group_clock.h"

#include <algorithm>
#include <limits>

#include "tools/perf/perf_operations.h"
#include "transports/base/clock.h"

namespace ringwood::tools {
namespace {

constexpr int kExchanges = 15;
constexpr uint64_t kTag = 0x636c6f636b;

double own_now_s() { return seconds_in(Clock::now().time_since_epoch()); }

}  // namespace

GroupClock::GroupClock(Communicator& group, const std::vector<HostRanks>& hosts)
    : group_(group), hosts_(hosts) {
  align();
}

double GroupClock::now_s() const { return own_now_s() - ahead_s_; }

// How far that host's clock is ahead; widens error_s_.
double GroupClock::exchange_as_first(int peer) {
  double least = std::numeric_limits<double>::infinity(), ahead = 0;
  for (int i = 0; i < kExchanges; ++i) {
    double answer = 0;
    const double sent = own_now_s();
    finish(group_.send(&sent, 1, DataType::float64, peer, kTag, synchronous_call()));
    finish(group_.recv(&answer, 1, DataType::float64, peer, kTag, synchronous_call()));
    const double came = own_now_s();
    if (came - sent >= least) continue;
    least = came - sent;
    ahead = answer - (sent + came) / 2;
  }
  error_s_ = std::max(error_s_, least);
  return ahead;
}

void GroupClock::align() {
  if (hosts_.size() < 2) return;
  error_s_ = 0;
  std::vector<double> told(hosts_.size() + 1, 0);
  for (size_t host = 1; host < hosts_.size(); ++host) {
    const int peer = hosts_[host].ranks.front();
    if (group_.rank() == 0) told[host] = exchange_as_first(peer);
    for (int i = 0; i < kExchanges && group_.rank() == peer; ++i) {
      double answer = 0;
      finish(group_.recv(&answer, 1, DataType::float64, 0, kTag, synchronous_call()));
      answer = own_now_s();
      finish(group_.send(&answer, 1, DataType::float64, 0, kTag, synchronous_call()));
    }
  }
  told.back() = error_s_;
  finish(group_.broadcast(told.data(), told.size(), DataType::float64, 0, synchronous_call()));
  error_s_ = told.back();
  for (size_t host = 0; host < hosts_.size(); ++host) {
    if (std::ranges::count(hosts_[host].ranks, group_.rank()) > 0) ahead_s_ = told[host];
  }
}

}  // namespace ringwood::tools
