#include "tools/simulate/simulate_trace.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace ringwood::tools {
namespace {

// "send 65536 B to rank9"
std::string name_of(const Traffic& traffic, const Interval& interval) {
  const int32_t item =
      traffic.items[traffic.ranks[interval.rank].first_item + static_cast<uint32_t>(interval.step)];
  const StepKind kind = traffic.shape(interval.rank).kinds[interval.step];
  if (item < 0) return kind == StepKind::copy ? "copy" : "reduce";
  const TrafficMessage& m = traffic.messages[item];
  const double bytes = traffic.prices[m.price].bytes;
  if (kind == StepKind::send) return fmt::format("send {:.0f} B to rank{}", bytes, m.to);
  return fmt::format("{} {:.0f} B from rank{}", kind == StepKind::recv ? "recv" : "recv_reduce",
                     bytes, m.from);
}

class Tracks {
 public:
  // The first track of the rank on which nothing runs any more at `begin`.
  size_t take(const Interval& interval) {
    std::vector<double>& ends = ends_[interval.rank];
    size_t track = 0;
    while (track < ends.size() && ends[track] > interval.begin) ++track;
    if (track == ends.size()) ends.push_back(0);
    ends[track] = interval.end;
    return track;
  }
  const std::map<int, std::vector<double>>& all() const { return ends_; }

 private:
  std::map<int, std::vector<double>> ends_;  // by rank and track
};

// Threads are numbered in the whole process table.
size_t thread_id(int rank, size_t track) { return static_cast<size_t>(rank) * 4096 + track; }

std::string metadata(const char* what, int host, size_t thread, const std::string& name) {
  return fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}})", what,
                     host, thread, name);
}

}  // namespace

std::string print_trace(const SimulateOptions& options, const Trace& trace) {
  std::vector<Interval> intervals = trace.outcome.timeline;
  std::stable_sort(intervals.begin(), intervals.end(),
                   [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Tracks tracks;
  std::vector<std::string> events;
  for (const Interval& i : intervals)
    events.push_back(fmt::format(
        R"({{"name":"{}","cat":"{}","ph":"X","ts":{:.4f},"dur":{:.4f},"pid":{},"tid":{},)"
        R"("args":{{"rank":{},"step":{}}}}})",
        name_of(trace.traffic, i), trace.algorithm, i.begin * 1e6, (i.end - i.begin) * 1e6,
        options.machine.host_of(i.rank), thread_id(i.rank, tracks.take(i)), i.rank, i.step));
  for (const auto& [rank, ends] : tracks.all()) {
    const int host = options.machine.host_of(rank);
    events.push_back(metadata("process_name", host, 0, fmt::format("host{}", host)));
    for (size_t track = 0; track < ends.size(); ++track)
      events.push_back(
          metadata("thread_name", host, thread_id(rank, track), fmt::format("rank{}", rank)));
  }
  return fmt::format("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n",
                     fmt::join(events, ",\n"));
}

}  // namespace ringwood::tools
