#include "collectives/status/window.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "collectives/recorder/recorder.h"

namespace ringwood {
namespace {

struct Interval {
  int64_t begin, end;
};

int64_t begin_of(const OperationRecord& record) {
  if (record.entered_ns != 0) return record.entered_ns;
  return record.begun_ns != 0 ? record.begun_ns : record.waiting_ns;
}

int64_t end_of(const OperationRecord& record, int64_t now_ns) {
  return record.end == RecordedEnd::running ? now_ns : record.ended_ns;
}

int64_t agreed_of(const OperationRecord& record, int64_t now_ns) {
  return record.agreed_ns != 0 ? record.agreed_ns : end_of(record, now_ns);
}

// What they cover together.
int64_t covered(std::vector<Interval>& intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin);
  int64_t total = 0, until = 0;
  for (const Interval& one : intervals) {
    if (one.end <= until) continue;
    total += one.end - std::max(one.begin, until);
    until = one.end;
  }
  return total;
}

bool well_timed(const OperationRecord& record) {
  return record.entered_ns != 0 && record.predicted_seconds >= kAlwaysSeconds &&
         record.end == RecordedEnd::done;
}

int64_t ns_of(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

}  // namespace

WindowReport window_of(std::span<const OperationRecord> records, int64_t now_ns,
                       int64_t complete_ns) {
  WindowReport window;
  const int64_t start = std::max(now_ns - kWindowNs, complete_ns);
  window.window_ns = std::max<int64_t>(0, now_ns - start);
  std::vector<Interval> inside, waited;
  for (const OperationRecord& record : records) {
    const int64_t begin = std::max(start, begin_of(record));
    const int64_t end = end_of(record, now_ns), agreed = agreed_of(record, now_ns);
    if (end <= start || begin > now_ns) continue;
    // It may have ended after the report was begun.
    inside.push_back({begin, std::min(end, now_ns)});
    if (agreed > begin) waited.push_back({begin, std::min(agreed, now_ns)});
    if (agreed - begin > kNotable.count()) ++window.waits;
    if (!well_timed(record)) continue;
    ++window.whole;
    window.moving_ns += end - agreed;
    window.predicted_ns += ns_of(record.predicted_seconds);
  }
  window.inside_ns = covered(inside);
  window.waited_ns = covered(waited);
  return window;
}

int64_t complete_since(std::span<const OperationRecord> latest, uint64_t written, int64_t begun_ns,
                       int64_t now_ns) {
  if (written <= latest.size()) return begun_ns;
  return latest.empty() ? now_ns : latest.front().ended_ns;
}

std::vector<KindReport> kinds_of(std::span<const OperationRecord> records, int64_t since_ns) {
  using Key = std::tuple<uint8_t, uint64_t, uint8_t>;
  struct Sum {
    uint32_t operations = 0;
    int64_t ns = 0, predicted_ns = 0;
    Fingerprint call;
  };
  std::map<Key, Sum> sums;
  for (const OperationRecord& record : records) {
    if (record.entered_ns == 0 || record.end != RecordedEnd::done || record.ended_ns < since_ns)
      continue;
    Sum& sum = sums[{record.call.collective, record.bytes, record.call.algorithm}];
    ++sum.operations;
    sum.ns += record.ended_ns - record.entered_ns;
    sum.predicted_ns += ns_of(record.predicted_seconds);
    sum.call = record.call;
  }
  std::vector<KindReport> kinds;
  for (const auto& [key, sum] : sums)
    kinds.push_back({std::get<0>(key), std::get<1>(key), algorithm_of(sum.call), sum.operations,
                     sum.ns / sum.operations, sum.predicted_ns / sum.operations});
  std::ranges::sort(kinds, std::ranges::greater(),
                    [](const KindReport& k) { return k.mean_ns * k.operations; });
  if (kinds.size() > kMaxKinds) kinds.resize(kMaxKinds);
  return kinds;
}

}  // namespace ringwood
