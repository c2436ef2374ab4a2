#include "collectives/tuner/machine/probe.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "transports/base/error.h"

namespace ringwood {
namespace {

constexpr uint64_t kFirstTransfer = 32 << 10;
// Long enough for a measurement; the length that the next transfer is planned to have; and the time
// after which one result is enough.
constexpr double kLong = 3e-3, kPlanned = 4e-3, kBudget = 20e-3;
constexpr int kResults = 2;
// Between two transfers a round trip is idle, in which a token bucket is filled again: transfers
// are longer by so many latencies, but for the one that does not count, and where that takes time
// one result is enough.
constexpr double kIdle = 6, kSlowLatency = 0.25e-3;
constexpr double kGrowth = 8;  // of one transfer over the one before, at most
constexpr double kShortest = 1e-6;
constexpr double kTurns = 2e-3;            // messages one by one, to measure a core's time for them
constexpr int kStream = 64, kStreams = 3;  // messages, and how often
// For at_once(): seconds, and a part of the first transfer.
constexpr double kMinExpected = 0.2e-3, kMinBurst = 0.2;

uint64_t bytes_in(double seconds, double rate, uint64_t least, uint64_t most) {
  const double bytes = std::clamp(seconds * rate, double(least), double(most));
  return static_cast<uint64_t>(bytes) & ~uint64_t{15};
}

// Bytes of the first transfer, before which the port was idle, that took none of its time at this
// rate. Known only where a rate is so low that what else disturbs so short a time hardly counts.
double at_once(double seconds, double rate, double latency) {
  const double expected = static_cast<double>(kFirstTransfer) / rate;
  if (expected < std::max(kMinExpected, latency)) return 0;
  const double part = 1 - seconds / expected;
  return part > kMinBurst ? part * static_cast<double>(kFirstTransfer) : 0;
}

}  // namespace

double seconds_of_bytes(double whole, double latency) {
  return std::max({whole - 2 * latency, whole / 2, kShortest});
}

ProbeReport Probe::carry_out(const ProbeStep& step) {
  for (const int rank : {step.to, step.from, step.pings})
    if (rank < -1 || rank >= mesh_.size || rank == mesh_.rank)
      throw Error(ErrorCode::internal, "measuring the network: a step names no other rank");
  ProbeReport report;
  if (step.pings >= 0) {
    report.latency = step.first ? talk_.ping(step.pings) : talk_.answer_pings(step.pings);
    (step.stage == ProbeStage::far ? far_latency_ : near_latency_) = report.latency;
  }
  if (step.stage == ProbeStage::alone && step.to >= 0) {
    if (!step.first) receive_transfers(step.to);
    measure_rate(step.to, report);
    if (step.first) receive_transfers(step.to);
  } else if (step.stage == ProbeStage::near || step.stage == ProbeStage::far) {
    report.rate = both_ways(step);
  } else if (step.stage == ProbeStage::busy && step.to >= 0) {
    const bool slept = talk_.sleep_in_waits(true);
    measure_core(step, report);
    talk_.sleep_in_waits(slept);
  }
  return report;
}

int Probe::near_results() const { return near_latency_ > kSlowLatency ? 1 : kResults; }

void Probe::measure_rate(int to, ProbeReport& report) {
  double best = 0, spent = 0, first = 0;
  uint64_t bytes = kFirstTransfer;
  bool warm = false;  // a long transfer is over
  const int wanted = near_results();
  for (int results = 0; results < wanted && (results == 0 || spent < kBudget);) {
    const double whole = talk_.transfer(to, bytes, -1).seconds;
    spent += whole;
    const double seconds = seconds_of_bytes(whole, near_latency_);
    if (first == 0) first = seconds;
    const double rate = static_cast<double>(bytes) / seconds;
    const bool enough = seconds >= kLong || spent >= kBudget || bytes == LinkTalk::kMaxTransfer;
    if (enough && warm) {
      best = std::max(best, rate);
      ++results;
    }
    warm |= enough;
    const double planned = kPlanned + (warm ? kIdle * near_latency_ : 0);
    const double most = std::min(kGrowth * double(bytes), double(LinkTalk::kMaxTransfer));
    bytes = bytes_in(planned, rate, kFirstTransfer, static_cast<uint64_t>(most));
  }
  talk_.transfer(to, 0, -1);  // that was all
  report.rate = best;
  report.burst = at_once(first, best, near_latency_);
}

// What the kernel does for this host on other cores, or for others on this one, is counted where it
// is done: in the median of all hosts nothing is lost.
void Probe::measure_core(const ProbeStep& step, ProbeReport& report) {
  const double round_trip = std::max(2 * near_latency_, kShortest);
  const int times = static_cast<int>(std::clamp(kTurns / round_trip, 2.0, 20.0));
  talk_.take_turns(step.to, 1, step.first);  // the first one wakes the other side
  report.post = talk_.take_turns(step.to, times, step.first) / 2;
  if (mesh_.peers[step.to].transport == "verbs") report.streamed = streamed(step);
  const uint64_t bytes = bytes_in(kLong, step.rate, kFirstTransfer, LinkTalk::kMaxTransfer);
  const LinkTalk::Transfer moved = talk_.transfer(step.to, bytes, step.from);
  report.byte = moved.core / static_cast<double>(bytes + moved.received);
}

// The slower end's time for each of many messages: of two that do not sleep it is a core's.
double Probe::streamed(const ProbeStep& step) {
  const bool slept = talk_.sleep_in_waits(false);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kStreams; ++i) {
    if (!step.first) talk_.receive_stream(step.to, kStream);
    best = std::min(best, talk_.stream(step.to, kStream));
    if (step.first) talk_.receive_stream(step.to, kStream);
  }
  talk_.sleep_in_waits(slept);
  return seconds_of_bytes(best, near_latency_) / kStream;
}

void Probe::receive_transfers(int from) {
  while (talk_.transfer(-1, 0, from).received > 0) continue;
}

double Probe::both_ways(const ProbeStep& step) {
  if (step.to < 0 && step.from < 0) return 0;
  const uint64_t bytes = bytes_in(kLong, step.rate, kFirstTransfer, LinkTalk::kMaxTransfer);
  const bool far = step.stage == ProbeStage::far;
  const double latency = far ? far_latency_ : near_latency_;
  // As many at both ends: these have measured one latency; far away there may be two partners.
  const int wanted = far ? kResults : near_results();
  // All of them count: of two that share a path, each has a transfer now and then that is alone.
  double spent = 0;
  for (int i = 0; i <= wanted; ++i) {
    const double seconds = talk_.transfer(step.to, bytes, step.from).seconds;
    if (i > 0) spent += seconds_of_bytes(seconds, latency);
  }
  return step.to < 0 ? 0 : wanted * static_cast<double>(bytes) / spent;
}

}  // namespace ringwood
