#include "tools/perf/perf_limits.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "transports/base/clock.h"

namespace ringwood::tools {
namespace {

constexpr size_t kMinBytes = 16 << 10;
constexpr size_t kMessage = 4 << 20;
constexpr uint64_t kTag = 0x6c696d6974;
constexpr int kRounds = 5, kCopyRounds = 15;  // a busy machine rarely lets all ranks copy at once

double slowest(Communicator& group, double seconds) {
  finish(group.all_reduce(&seconds, 1, DataType::float64, ReduceOp::max, synchronous_call()));
  return seconds;
}

void meet(Communicator& group) { finish(group.barrier(synchronous_call())); }

// Of the bytes that are reported, the part that a rank of a host with so many ranks has to copy.
double copied_part(const OperationRow& row, double here) {
  if (!row.collective) return 1;
  switch (*row.collective) {
    case Collective::reduce:
    case Collective::reduce_scatter: return (here + 1) / (2 * here);  // reads all, writes a part
    case Collective::broadcast: return (here - 1) / here;
    case Collective::gather:
    case Collective::scatter: return 1 / here;
    case Collective::barrier: return 0;
    case Collective::all_reduce:
    case Collective::all_gather:
    case Collective::all_to_all: break;
  }
  return 1;
}

// Of the bytes that are reported, the part that has to enter or leave the host with the most to
// send. Of the hosts' numbers of ranks, which may differ.
double sent_part(const OperationRow& row, const std::vector<double>& hosts) {
  const double all = std::accumulate(hosts.begin(), hosts.end(), 0.0);
  const auto [fewest, most] = std::ranges::minmax(hosts);
  if (!row.collective) return 1;  // the last rank of a host sends to the next host
  switch (*row.collective) {
    // As between as many ranks: a host's ranks add up among themselves.
    case Collective::all_reduce: return row.bus_factor(static_cast<double>(hosts.size()));
    case Collective::all_to_all: {
      double sent = 0;
      for (const double here : hosts) sent = std::max(sent, here * (all - here) / all);
      return sent;
    }
    case Collective::all_gather: return (all - fewest) / all;
    case Collective::reduce_scatter: return std::max(all - fewest, most) / all;
    case Collective::gather:
    case Collective::scatter: return (all - most) / all;  // wherever the root is
    case Collective::reduce:
    case Collective::broadcast: return 1;
    case Collective::barrier: break;
  }
  return 0;
}

}  // namespace

double Limits::copy_rate(size_t bytes) {
  if (const auto known = copy_rates_.find(bytes); known != copy_rates_.end()) return known->second;
  const Buffer from(bytes, BufferKind::ordinary), to(bytes, BufferKind::ordinary);
  std::memset(from.data(), 1, bytes);
  std::memset(to.data(), 1, bytes);
  const auto times = std::max<size_t>(1, (size_t{4} << 20) / bytes);
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kCopyRounds; ++round) {
    meet(group_);
    const auto start = Clock::now();
    for (size_t i = 0; i < times; ++i) {
      std::memcpy(to.data(), from.data(), bytes);
      asm volatile("" : : "r"(to.data()) : "memory");  // all copies are made
    }
    best = std::min(best, slowest(group_, seconds_since(start)));
  }
  return copy_rates_[bytes] = static_cast<double>(bytes * times) / best;
}

double Limits::round_seconds(const std::vector<std::byte>& out, std::vector<std::byte>& in,
                             int next, int previous) {
  meet(group_);
  const auto start = Clock::now();
  if (next >= 0) {
    const OperationPtr received =
        group_.recv(in.data(), in.size(), DataType::uint8, previous, kTag, {});
    const OperationPtr sent = group_.send(out.data(), out.size(), DataType::uint8, next, kTag, {});
    finish(sent);
    finish(received);
  }
  return slowest(group_, seconds_since(start));
}

double Limits::link_rate() {
  if (link_rate_) return *link_rate_;
  if (hosts_.size() < 2) return *(link_rate_ = 0);
  size_t fewest = hosts_.front().ranks.size();
  for (const HostRanks& host : hosts_) fewest = std::min(fewest, host.ranks.size());
  int next = -1, previous = -1;  // none where a host has more ranks than another
  for (size_t host = 0; host < hosts_.size(); ++host) {
    const auto& ranks = hosts_[host].ranks;
    const auto mine = static_cast<size_t>(std::ranges::find(ranks, group_.rank()) - ranks.begin());
    if (mine >= fewest) continue;
    next = hosts_[(host + 1) % hosts_.size()].ranks[mine];
    previous = hosts_[(host + hosts_.size() - 1) % hosts_.size()].ranks[mine];
  }
  const size_t bytes = std::max(kMessage / fewest, kMessage / 8);
  const std::vector<std::byte> out(bytes);
  std::vector<std::byte> in(bytes);
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round)
    best = std::min(best, round_seconds(out, in, next, previous));
  link_rate_ = static_cast<double>(bytes * fewest) / best;
  return *link_rate_;
}

std::optional<double> Limits::min_us(const OperationRow& row, size_t bytes) {
  if (group_.size() == 1 || bytes < kMinBytes || !row.moves_data()) return std::nullopt;
  std::vector<double> ranks;
  for (const HostRanks& host : hosts_) ranks.push_back(static_cast<double>(host.ranks.size()));
  const auto size = static_cast<double>(bytes);
  double seconds = copied_part(row, std::ranges::max(ranks)) * size / copy_rate(bytes);
  if (const double rate = link_rate(); rate > 0)
    seconds = std::max(seconds, sent_part(row, ranks) * size / rate);
  return seconds * 1e6;
}

}  // namespace ringwood::tools
