#include "tools/replay/recorded_calls.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/kernels/reduce.h"
#include "collectives/kernels/types.h"
#include "collectives/recorder/recorder.h"
#include "tools/trace/dumps.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

constexpr uint64_t kMaxCallBytes = uint64_t{1} << 40;

// When the last rank called an operation, and when the last one had its result.
struct Moments {
  double called = kUnknown, ended = kUnknown;
};

// Of the ranks whose clocks are known; none: it has no whole record, or has failed.
std::optional<Moments> moments_of(const TracedGroup& group, const TracedOperation& operation) {
  Moments moments;
  for (const auto& [rank, part] : operation.parts) {
    if (part.failed) return std::nullopt;
    if (!group.ranks.at(rank).aligned) continue;
    moments.called = std::max(moments.called, part.entered);
    moments.ended = std::max(moments.ended, part.ended);
  }
  if (moments.called == kUnknown || moments.ended < moments.called) return std::nullopt;
  return moments;
}

class Reader {
 public:
  Reader(const std::string& source, const TracedGroup& group) : group_(group) {
    run_.source = source;
    run_.group = group.name;
    run_.ranks = group.size;
    run_.machine = group.machine;
    run_.machine.hosts = group.hosts;
    run_.notes = group.remarks;
  }

  RecordedRun read() {
    for (const TracedOperation& operation : group_.operations) add(operation);
    run_.times = times_of(called_, ended_);
    tell();
    return std::move(run_);
  }

 private:
  void add(const TracedOperation& o) {
    const std::optional<Moments> moments = moments_of(group_, o);
    if (!moments) return;
    const size_t blocks = in_blocks(o.collective) ? static_cast<size_t>(group_.size) : 1;
    if (o.bytes > kMaxCallBytes || o.count > kMaxCallBytes)
      refuse(fmt::format("{}: call {} is of {} bytes, which no run has had", run_.source,
                         o.sequence, o.bytes));
    if (reduces(o.collective) && !supports(o.collective, o.type, o.op))
      refuse(fmt::format("{}: call {}: {} cannot be reduced by {}", run_.source, o.sequence,
                         to_string(o.type), to_string(o.op)));
    // Blocks of different sizes have no count; even ones of as many bytes stand for them.
    const size_t bytes = o.count > 0 ? o.count * blocks * size_of(o.type) : o.bytes;
    if (moves_data(o.collective) && bytes == 0) {
      ++unknown_;
      return;
    }
    if (moves_data(o.collective) && o.count == 0) ++uneven_;
    RecordedCall call{o.collective, o.type, o.op, o.root, o.segments, bytes, o.algorithm, o.wire};
    if (!reduces(o.collective)) call.op = ReduceOp::sum;
    if (!moves_data(o.collective)) call.bytes = 0;
    const auto known = std::ranges::find(run_.kinds, call, &CallKind::call);
    run_.calls.push_back(static_cast<size_t>(known - run_.kinds.begin()));
    if (known == run_.kinds.end()) run_.kinds.push_back({std::move(call), 0});
    ++run_.kinds[run_.calls.back()].count;
    called_.push_back(moments->called);
    ended_.push_back(moments->ended);
    first_ = std::min(first_, o.sequence);
    last_ = std::max(last_, o.sequence);
  }

  void tell() {
    if (run_.calls.empty()) return;
    const int64_t made = last_ - first_ + 1;
    const int64_t missing = made - static_cast<int64_t>(run_.calls.size()) - unknown_;
    if (missing > 0)
      run_.notes.push_back(
          fmt::format("{} of {} calls have no whole record, as those that were predicted to take "
                      "less than {:.0f} us, or failed: their time is in the pauses",
                      missing, made, kAlwaysSeconds * 1e6));
    if (uneven_ > 0)
      run_.notes.push_back(fmt::format(
          "{} calls had blocks of different sizes: even ones of as many bytes stand for them",
          uneven_));
    if (unknown_ > 0)
      run_.notes.push_back(
          fmt::format("{} calls were left out, as only pairs of ranks know their sizes", unknown_));
  }

  const TracedGroup& group_;
  RecordedRun run_;
  std::vector<double> called_, ended_;
  int64_t first_ = INT64_MAX, last_ = 0;
  int unknown_ = 0, uneven_ = 0;
};

}  // namespace

std::vector<CallTime> times_of(const std::vector<double>& called,
                               const std::vector<double>& ended) {
  std::vector<CallTime> times;
  double over = called.empty() ? 0 : called.front();  // all calls so far have ended
  for (size_t i = 0; i < called.size(); ++i) {
    CallTime& one = times.emplace_back();
    one.overlaps = called[i] < over;
    one.after_call = i > 0 ? std::max(0.0, called[i] - called[i - 1]) : 0;
    one.pause = std::max(0.0, called[i] - over);
    one.seconds = std::max(0.0, ended[i] - std::max(called[i], over));
    over = std::max(over, ended[i]);
  }
  return times;
}

double run_seconds(const std::vector<CallTime>& times, const std::vector<double>& seconds) {
  double called = 0, over = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    called = times[i].overlaps ? called + times[i].after_call : over + times[i].pause;
    over = std::max(called, over) + seconds[i];
  }
  return over;
}

std::string name_of(const RecordedCall& call) {
  TracedOperation operation;
  operation.collective = call.collective;
  operation.bytes = call.bytes;
  return name_of(operation);
}

namespace {

RecordedRun read_run(const std::string& source, const std::string& group) {
  std::vector<RecordedRun> runs;
  std::vector<std::string> names;
  for (const TracedGroup& traced : read_dumps({source})) {
    RecordedRun run = Reader(source, traced).read();
    if (run.calls.empty()) continue;
    names.push_back(run.group);
    if (group.empty() || group == run.group) runs.push_back(std::move(run));
  }
  if (names.empty())
    refuse(
        fmt::format("{}: no call has a whole record, which those have that are predicted to "
                    "take {:.0f} us or more: record larger ones",
                    source, kAlwaysSeconds * 1e6));
  if (runs.empty())
    refuse(fmt::format("{} has no group {:?}; it has {}", source, group, fmt::join(names, ", ")));
  if (runs.size() > 1)
    refuse(fmt::format("{} has several groups: take one with --group {}", source,
                       fmt::join(names, "|")));
  return std::move(runs.front());
}

}  // namespace

RecordedRun read_recorded_run(const std::string& source, const std::string& group) {
  try {
    return read_run(source, group);
  } catch (const Error& error) {
    refuse("--replay " + error.cause);
  }
}

}  // namespace ringwood::tools
