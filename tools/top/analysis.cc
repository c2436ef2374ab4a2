#include "tools/top/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "collectives/schedule/collective.h"

namespace ringwood::tools {
namespace {

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// The last operation that it has begun, or null.
const TrackReport* newest(const RankReport& report) {
  const auto found = std::ranges::max_element(report.tracks, {}, &TrackReport::sequence);
  return found == report.tracks.end() ? nullptr : &*found;
}

// The first that is under way, or else the newest; null: none has begun.
const TrackReport* present(const RankReport& report) {
  const TrackReport* first = nullptr;
  for (const TrackReport& track : report.tracks)
    if (track.inside && (!first || track.sequence < first->sequence)) first = &track;
  return first ? first : newest(report);
}

double waiting_s(const RankReport& report, const TrackReport& track) {
  if (!track.inside || track.since_ns == 0) return 0;
  return std::max(0.0, seconds(report.now_ns - track.since_ns));
}

bool has_window(const RankView& rank) {
  return rank.state == RankState::reported && rank.report && rank.report->error.empty() &&
         rank.report->window.window_ns > 0;
}

// Shares of the window: the last second, or less where the recorder has no more.
struct Share {
  double inside = 0, waited = 0;
  double waits_per_s = 0;
};

// By process, inside any operation: while it waits in another group, it is not late in this one.
using Insides = std::map<std::pair<std::string, int>, double>;

Insides insides_of(const JobView& job) {
  Insides insides;
  for (const GroupView& group : job.groups)
    for (const RankView& rank : group.ranks)
      if (has_window(rank))
        insides[{rank.host, rank.pid}] +=
            seconds(rank.report->window.inside_ns) / seconds(rank.report->window.window_ns);
  return insides;
}

Share share_of(const RankView& rank, const Insides& insides) {
  const WindowReport& window = rank.report->window;
  const double all = seconds(window.window_ns);
  return {std::min(1.0, insides.at({rank.host, rank.pid})),
          std::min(1.0, seconds(window.waited_ns) / all), window.waits / all};
}

double at(std::vector<double> values, size_t index) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(index));
  return values[index];
}

void judge_lateness(const GroupView& group, const JobView& job, GroupLines& lines) {
  std::vector<double> outside, waited;
  std::vector<size_t> judged;
  double waits_per_s = 0;
  const Insides insides = insides_of(job);
  for (size_t rank = 0; rank < group.ranks.size(); ++rank) {
    if (!has_window(group.ranks[rank])) continue;
    const Share share = share_of(group.ranks[rank], insides);
    judged.push_back(rank);
    outside.push_back(1 - share.inside);
    waited.push_back(share.waited);
    waits_per_s = std::max(waits_per_s, share.waits_per_s);
    lines.ranks[rank].inside = share.inside;
    lines.ranks[rank].waited = share.waited;
  }
  // Without a wait that is long enough to be counted, nobody is late.
  if (judged.size() < 2 || waits_per_s == 0) return;
  const double usual_outside = at(outside, (judged.size() - 1) / 2);
  const double usual_waited = at(waited, judged.size() / 2);
  for (size_t i = 0; i < judged.size(); ++i) {
    RankLine& line = lines.ranks[judged[i]];
    const double late = std::min(usual_waited - waited[i], outside[i] - usual_outside);
    line.late_s = std::max(0.0, late / waits_per_s);
    if (late < kLateShare || line.late_s < kLateSeconds || is_trouble(line.condition)) continue;
    line.condition = Condition::late;
    line.why =
        fmt::format("comes {:.1f} ms after the others; they wait for it {:.0f} % of the time",
                    line.late_s * 1e3, late * 100);
  }
}

// The longest wait for an operation that not all ranks have called, and for how long.
struct Hang {
  int64_t sequence = -1;
  double seconds = 0;
  std::string operation;
};

Hang find_hang(const GroupView& group) {
  Hang hang;
  for (const RankView& rank : group.ranks) {
    if (rank.state != RankState::reported || !rank.report) continue;
    for (const TrackReport& track : rank.report->tracks) {
      const double so_far = waiting_s(*rank.report, track);
      if (so_far <= hang.seconds || track.agreed) continue;
      hang = {track.sequence, so_far, track.text};
    }
  }
  return hang;
}

void judge_hang(const GroupView& group, GroupLines& lines) {
  const Hang hang = find_hang(group);
  if (hang.seconds < kHangSeconds) return;
  for (const RankView& rank : group.ranks) {
    RankLine& line = lines.ranks[static_cast<size_t>(rank.rank)];
    if (!rank.report || rank.state != RankState::reported) continue;
    const TrackReport* const last = newest(*rank.report);
    if ((last ? last->sequence : -1) >= hang.sequence) continue;
    line.condition = Condition::behind;
    line.why = fmt::format("has not called {}; others have waited for {:.1f} s", hang.operation,
                           hang.seconds);
  }
}

void add_rates(const RankView& view, RankLine& line) {
  const RankReport& now = *view.report;
  const double elapsed = view.before ? seconds(now.now_ns - view.before->now_ns) : 0;
  const auto rate = [&](uint64_t later, uint64_t earlier) {
    return later > earlier && elapsed > 0 ? static_cast<double>(later - earlier) / elapsed : 0;
  };
  for (const CallCount& count : now.counts) {
    CallCount old;
    if (view.before)
      for (const CallCount& one : view.before->counts)
        if (one.collective == count.collective) old = one;
    line.operations_per_s += rate(count.operations, old.operations);
    line.bus_bytes_per_s +=
        rate(count.bytes, old.bytes) * kCollectiveTraits[count.collective].bus_factor(now.size);
  }
  for (const PathOfRank& path : now.paths) {
    PathRate one{.path = path};
    if (view.before)
      for (const PathOfRank& old : view.before->paths)
        if (old.transport == path.transport && old.port == path.port) {
          one.bytes_per_s = rate(path.bytes, old.bytes);
          one.retransmissions_per_s = rate(path.retransmissions, old.retransmissions);
        }
    line.retransmissions_per_s += one.retransmissions_per_s;
    line.paths.push_back(std::move(one));
  }
}

void describe_operation(const RankReport& report, RankLine& line) {
  const TrackReport* const track = present(report);
  line.condition = Condition::computing;
  if (!track) return;
  line.operation = track->text;
  line.algorithm = track->algorithm;
  for (const KindReport& kind : report.kinds)
    if (line.algorithm.empty() && kind.collective == track->collective)
      line.algorithm = kind.algorithm;
  if (!track->inside) return;
  line.condition = track->agreed ? Condition::moving : Condition::waiting;
  if (track->steps > 0) line.progress = std::min(1.0, double(track->done) / track->steps);
  line.waits_s = waiting_s(report, *track);
  line.waits_for = track->waits_for;
}

RankLine line_of(const RankView& view) {
  RankLine line;
  line.rank = view.rank;
  line.pid = view.pid;
  line.host = view.host;
  if (view.report) {
    const RankReport& report = *view.report;
    describe_operation(report, line);
    add_rates(view, line);
    const WindowReport& window = report.window;
    if (window.whole >= kAlarmOperations && window.predicted_ns > 0)
      line.ratio = seconds(window.moving_ns) / seconds(window.predicted_ns);
    if (!report.error.empty()) {
      line.condition = Condition::failed;
      line.why = report.error;
    }
  }
  if (view.state == RankState::reported) return line;
  line.operations_per_s = line.bus_bytes_per_s = line.retransmissions_per_s = line.ratio = 0;
  line.condition = Condition::unknown;
  if (view.state == RankState::departed) line.condition = Condition::left;
  if (view.state == RankState::lost) line.condition = Condition::lost;
  if (view.state == RankState::silent && view.known && view.silent_s >= kStoppedSeconds) {
    line.condition = Condition::stopped;
    line.why = fmt::format("has not answered for {:.1f} s: stopped, or starved of the processor",
                           view.silent_s);
  }
  return line;
}

void judge_times(GroupLines& lines) {
  std::vector<double> ratios;
  for (const RankLine& line : lines.ranks)
    if (line.ratio > 0) ratios.push_back(line.ratio);
  if (ratios.empty()) return;
  lines.ratio = at(ratios, ratios.size() / 2);
  lines.alarm = lines.ratio >= kAlarmRatio;
  if (lines.alarm)
    lines.alarm_text = fmt::format("operations take {:.1f} times what is predicted", lines.ratio);
}

}  // namespace

const char* to_string(Condition condition) {
  constexpr std::array kNames = {"unknown", "computing", "moving", "waiting", "late",
                                 "behind",  "stopped",   "left",   "lost",    "failed"};
  return kNames[static_cast<size_t>(condition)];
}

bool is_trouble(Condition condition) {
  return condition == Condition::late || condition == Condition::behind ||
         condition == Condition::stopped || condition == Condition::lost ||
         condition == Condition::failed;
}

GroupLines analyse(const GroupView& group, const JobView& job) {
  GroupLines lines{
      .id = group.id, .name = group.name, .relayed = group.relayed, .ranks = {}, .alarm_text = {}};
  for (const RankView& rank : group.ranks) lines.ranks.push_back(line_of(rank));
  judge_hang(group, lines);
  judge_lateness(group, job, lines);
  judge_times(lines);
  return lines;
}

}  // namespace ringwood::tools
