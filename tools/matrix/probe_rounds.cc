#include "tools/matrix/probe_rounds.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "tools/perf/perf_operations.h"
#include "transports/base/clock.h"

namespace ringwood::tools {
namespace {

// A transfer is so many chunks, or for comparison few.
constexpr int kLong = 1024, kShort = kLong / 4;
constexpr size_t kFirstBytes = 256 << 10, kMinBytes = 64 << 10;
constexpr int kPings = 40, kFewPings = 8;
// Where each repetition of the few was interrupted, they took longer than the many: once more.
constexpr int kPingTurns = 4;
constexpr size_t kPingBytes = 8;

double at(std::vector<double> values, size_t place) {
  if (values.empty()) return 0;
  const auto found = values.begin() + static_cast<ptrdiff_t>(place);
  std::nth_element(values.begin(), found, values.end());
  return *found;
}

// The upper median, and the lower one.
double middle(const std::vector<double>& values) { return at(values, values.size() / 2); }
double lower_middle(const std::vector<double>& values) {
  return at(values, (std::max<size_t>(values.size(), 1) - 1) / 2);
}

// The rates of transfers whose bytes are as kLong to kShort. What is the same for both lengths is
// about the same for all flows. So what a flow's two times say of it counts only near that of the
// median flow: a single interruption is a large part of a short time. Such interruptions make a
// rate too large, so of two flows the smaller one says what is usual. Where little is left for the
// transfer, it was not measured.
std::vector<double> rates_of(double bytes, const std::vector<double>& longer,
                             const std::vector<double>& shorter) {
  constexpr double kPart = static_cast<double>(kShort) / kLong, kNear = 0.05, kMinPart = 0.2;
  std::vector<double> fixed, rates;
  for (size_t i = 0; i < longer.size(); ++i)
    fixed.push_back((shorter[i] - longer[i] * kPart) / (1 - kPart));
  const double usual = lower_middle(fixed);
  for (size_t i = 0; i < longer.size(); ++i) {
    const double near = kNear * longer[i];
    const double seconds = longer[i] - std::clamp(fixed[i], usual - near, usual + near);
    // Both: a short transfer that took as long as the long one says nothing.
    const double own = longer[i] - fixed[i];
    const bool measured = std::min(seconds, own) > kMinPart * longer[i] && std::isfinite(seconds);
    rates.push_back(measured ? bytes / seconds : 0);
  }
  return rates;
}

}  // namespace

// Of each length the schedules and, of this rank, the best time.
struct ProbeRounds::Round {
  std::vector<Flow> flows;
  Schedules longer, shorter;
  double longer_s = INFINITY, shorter_s = INFINITY;
  bool measured = false;  // no more repetitions
};

FlowValues ProbeRounds::by_round(const std::vector<Round>& rounds,
                                 const std::vector<double>& flat) {
  FlowValues values;
  auto at = flat.begin();
  for (const Round& round : rounds) {
    const auto end = at + static_cast<ptrdiff_t>(round.flows.size());
    values.emplace_back(at, end);
    at = end;
  }
  return values;
}

ProbeRounds::ProbeRounds(Communicator& group, const Limits& limits,
                         std::function<void(const std::string&)> progress)
    : group_(group), limits_(limits), progress_(std::move(progress)) {}

void ProbeRounds::show(const std::string& text) const {
  if (progress_ && group_.rank() == 0) progress_(text);
}

void ProbeRounds::gather(std::vector<double>& values) {
  if (values.empty()) return;
  finish(group_.all_reduce(values.data(), values.size(), DataType::float64, ReduceOp::max,
                           synchronous_call()));
}

void ProbeRounds::run(const Schedules& schedules, size_t chunk_bytes, double& best) {
  CallOptions call = synchronous_call();
  call.schedules = schedules;
  chunk_.resize(std::max(chunk_.size(), chunk_bytes), std::byte{1});
  finish(group_.barrier(synchronous_call()));
  const auto begin = Clock::now();
  finish(group_.broadcast(chunk_.data(), chunk_bytes, DataType::uint8, 0, call));
  best = std::min(best, seconds_since(begin));
}

void ProbeRounds::repeat(const std::string& what, std::vector<Round>& rounds, size_t chunk_bytes,
                         int repeats) {
  size_t done = 0;
  for (int i = 0; i < repeats; ++i) {
    for (Round& round : rounds) {
      show(fmt::format("{}: {} of {}", what, ++done, rounds.size() * static_cast<size_t>(repeats)));
      if (round.measured) continue;
      run(round.longer, chunk_bytes, round.longer_s);
      run(round.shorter, chunk_bytes, round.shorter_s);
    }
  }
}

// Such that a long transfer takes about as long as it should: the median flow of all rounds.
size_t ProbeRounds::fitting_chunk(const std::string& what, std::vector<Round>& rounds) {
  size_t bytes = kFirstBytes;
  while (true) {
    for (Round& round : rounds) round.longer_s = round.shorter_s = INFINITY;
    repeat(what + ", how long", rounds, bytes / kLong, 2);
    std::vector<double> seconds;
    for (const Round& round : rounds)
      for (const Flow& flow : round.flows)
        seconds.push_back(flow.to == group_.rank() ? round.longer_s : 0);
    gather(seconds);
    const double factor = limits_.transfer_s / std::max(middle(seconds), 1e-9);
    if (factor < 2 || bytes >= limits_.max_bytes) return bytes / kLong;
    const auto times = std::bit_floor(static_cast<size_t>(std::min(factor, 16.0)));
    bytes = std::min(bytes * times, std::bit_floor(limits_.max_bytes));
  }
}

FlowValues ProbeRounds::rates(const std::string& what, const std::vector<std::vector<Flow>>& all) {
  std::vector<Round> rounds;
  for (const auto& flows : all)
    rounds.push_back({flows, transfer_round(group_.size(), flows, kLong, kLong),
                      transfer_round(group_.size(), flows, kShort, kLong)});
  const size_t chunk = fitting_chunk(what, rounds);
  repeat(what, rounds, chunk, limits_.repeats);
  std::vector<double> longer, shorter;
  for (const Round& round : rounds) {
    for (const Flow& flow : round.flows) {
      const bool own = flow.to == group_.rank();
      longer.push_back(own ? round.longer_s : 0);
      shorter.push_back(own ? round.shorter_s : 0);
    }
  }
  gather(longer);
  gather(shorter);
  return by_round(rounds, rates_of(static_cast<double>(chunk) * kLong, longer, shorter));
}

FlowValues ProbeRounds::latencies(const std::string& what,
                                  const std::vector<std::vector<Flow>>& all) {
  std::vector<Round> rounds;
  for (const auto& flows : all)
    rounds.push_back({flows, ping_round(group_.size(), flows, kPings),
                      ping_round(group_.size(), flows, kFewPings)});
  std::vector<double> seconds;
  for (int turn = 0; turn < kPingTurns; ++turn) {
    repeat(what, rounds, kPingBytes, 2 * limits_.repeats);
    seconds.clear();
    for (const Round& round : rounds)
      for (const Flow& flow : round.flows)
        seconds.push_back(flow.from == group_.rank()
                              ? std::max(0.0, round.longer_s - round.shorter_s) /
                                    (2 * (kPings - kFewPings))
                              : 0);
    gather(seconds);
    auto value = seconds.cbegin();
    bool all = true;
    for (Round& round : rounds) {
      const auto end = value + static_cast<ptrdiff_t>(round.flows.size());
      round.measured = std::all_of(value, end, [](double one) { return one > 0; });
      all = all && round.measured;
      value = end;
    }
    if (all) break;
  }
  return by_round(rounds, seconds);
}

// Messages between users, because an operation has one end and here every flow has its own.
void ProbeRounds::run_at_once(const std::vector<Flow>& flows, size_t bytes,
                              std::vector<double>& best) {
  std::vector<size_t> incoming;
  for (size_t i = 0; i < flows.size(); ++i)
    if (flows[i].to == group_.rank()) incoming.push_back(i);
  in_.resize(std::max(in_.size(), bytes * incoming.size()));
  out_.resize(std::max(out_.size(), bytes), std::byte{1});
  finish(group_.barrier(synchronous_call()));
  const auto begin = Clock::now();
  std::vector<OperationPtr> operations;
  for (size_t k = 0; k < incoming.size(); ++k) {
    double& seconds = best[incoming[k]];
    operations.push_back(group_.recv(in_.data() + k * bytes, bytes, DataType::uint8,
                                     flows[incoming[k]].from, incoming[k]));
    operations.back()->on_done([&seconds, begin](const Error* error) {
      if (!error) seconds = std::min(seconds, seconds_since(begin));
    });
  }
  for (size_t i = 0; i < flows.size(); ++i)
    if (flows[i].from == group_.rank())
      operations.push_back(group_.send(out_.data(), bytes, DataType::uint8, flows[i].to, i));
  for (const OperationPtr& operation : operations) finish(operation);
}

std::vector<double> ProbeRounds::rates_at_once(const std::string& what,
                                               const std::vector<Flow>& flows) {
  // As long as a transfer should take, by as many as a rank receives.
  size_t most = 1;
  for (const Flow& flow : flows)
    most = std::max(most, static_cast<size_t>(std::ranges::count_if(
                              flows, [&](const Flow& other) { return other.to == flow.to; })));
  const size_t limit = std::max(kMinBytes, std::bit_floor(limits_.max_bytes / most));
  size_t bytes = kMinBytes;
  std::vector<double> longer, shorter;
  while (true) {
    longer.assign(flows.size(), INFINITY);
    shorter = longer;
    for (int i = 0; i < limits_.repeats; ++i) {
      show(fmt::format("{}: {} of {}", what, i + 1, limits_.repeats));
      run_at_once(flows, bytes, longer);
      run_at_once(flows, bytes / 4, shorter);
    }
    for (size_t i = 0; i < flows.size(); ++i)
      if (flows[i].to != group_.rank()) longer[i] = shorter[i] = 0;
    gather(longer);
    gather(shorter);
    const double factor = 2 * limits_.transfer_s / std::max(middle(longer), 1e-9);
    if (factor < 2 || bytes >= limit) break;
    bytes = std::min(limit, bytes * std::bit_floor(static_cast<size_t>(std::min(factor, 64.0))));
  }
  return rates_of(static_cast<double>(bytes), longer, shorter);
}

}  // namespace ringwood::tools
