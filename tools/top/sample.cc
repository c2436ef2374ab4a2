#include "tools/top/sample.h"

#include <fmt/format.h>

#include <set>

namespace ringwood::tools {
namespace {

// Operations take too long in so many consecutive samples before it is an alarm.
constexpr int kAlarms = 3;
// A rank was late in so many consecutive samples before it is named: others had bad luck once.
constexpr int kLates = 2;

EventKind kind_of(Condition condition, Condition before) {
  switch (condition) {
    case Condition::late: return EventKind::late;
    case Condition::behind: return EventKind::behind;
    case Condition::stopped: return EventKind::stopped;
    case Condition::lost: return EventKind::lost;
    case Condition::left: return EventKind::left;
    case Condition::failed: return EventKind::failed;
    default:
      return before == Condition::late || before == Condition::behind ? EventKind::caught_up
                                                                      : EventKind::recovered;
  }
}

std::string words_of(const RankLine& line) {
  switch (line.condition) {
    case Condition::lost: return "is lost: its connection has ended";
    case Condition::left: return "has left";
    case Condition::failed: return "has failed: " + line.why;
    case Condition::late:
    case Condition::behind:
    case Condition::stopped: return line.why;
    default: return "is well again";
  }
}

JobEvent event_of(const Sample& sample, const GroupLines& group, const RankLine& line,
                  Condition before) {
  return {.time = sample.time,
          .kind = kind_of(line.condition, before),
          .group = group.name,
          .rank = line.rank,
          .pid = line.pid,
          .host = line.host,
          .text = words_of(line)};
}

}  // namespace

std::string name_of(const GroupLines& group, const RankLine& rank) {
  std::string name = fmt::format("rank {}", rank.rank);
  if (!group.name.empty()) name += " of " + group.name;
  if (rank.pid != 0) name += fmt::format(" ({}, pid {})", rank.host, rank.pid);
  return name;
}

std::optional<Sample> Sampler::next() {
  auto view = watcher_.look();
  if (!view) return std::nullopt;
  Sample sample{.time = std::time(nullptr),
                .view = std::move(*view),
                .groups = {},
                .trouble = {},
                .fresh = {}};
  for (const GroupView& group : sample.view.groups) {
    GroupLines lines = analyse(group, sample.view);
    judge(lines, sample);
    collect_told(group, sample);
    sample.groups.push_back(std::move(lines));
  }
  forget_others(sample.view);
  for (const JobEvent& event : sample.fresh) events_.push_back(event);
  while (events_.size() > kMaxEvents) events_.pop_front();
  return sample;
}

// What is known of groups that are gone, and of processes that were last seen in them.
void Sampler::forget_others(const JobView& view) {
  std::set<uint64_t> groups;
  for (const GroupView& group : view.groups) groups.insert(group.id);
  std::erase_if(known_, [&](const auto& one) { return !groups.contains(one.first.first); });
  std::erase_if(told_, [&](const auto& one) { return !groups.contains(one.second.group); });
}

void Sampler::judge(RankLine& line, Known& known) const {
  known.late = line.condition == Condition::late ? known.late + 1 : 0;
  if (known.late == 0 || known.late >= kLates) return;
  line.condition = Condition::computing;
  line.why.clear();
}

void Sampler::judge(GroupLines& group, Sample& sample) {
  for (RankLine& line : group.ranks) {
    Known& known = known_[{group.id, line.rank}];
    judge(line, known);
    if (is_trouble(line.condition))
      sample.trouble.push_back(name_of(group, line) + " " + words_of(line));
    const bool news = is_trouble(line.condition) || line.condition == Condition::left
                          ? line.condition != known.condition
                          : is_trouble(known.condition) && line.condition != Condition::unknown;
    if (news) sample.fresh.push_back(event_of(sample, group, line, known.condition));
    if (line.condition != Condition::unknown) known.condition = line.condition;
  }
  Known& known = known_[{group.id, -1}];
  known.alarms = group.alarm ? known.alarms + 1 : 0;
  group.alarm = known.alarms >= kAlarms;
  if (!group.alarm) return;
  sample.trouble.push_back(fmt::format("group {}: {}", group.name, group.alarm_text));
  if (known.alarms == kAlarms)
    sample.fresh.push_back({.time = sample.time,
                            .kind = EventKind::alarm,
                            .group = group.name,
                            .host = {},
                            .text = group.alarm_text});
}

// The log is the process's, so each of its groups reports the same lines.
void Sampler::collect_told(const GroupView& group, Sample& sample) {
  for (const RankView& rank : group.ranks) {
    if (!rank.report) continue;
    const std::pair process(rank.host, rank.pid);
    Told& all = told_[process];
    all.group = group.id;
    const int64_t before = all.until_ns;
    for (const EventReport& told : rank.report->events) {
      const int64_t at = rank.report->now_ns - told.ago_ns;
      // The age of a line is taken a moment after the time of the report.
      if (at <= before + 1'000'000) continue;
      all.until_ns = std::max(all.until_ns, at);
      sample.fresh.push_back({.time = sample.time - told.ago_ns / 1'000'000'000,
                              .kind = EventKind::told,
                              .group = group.name,
                              .rank = rank.rank,
                              .pid = rank.pid,
                              .host = rank.host,
                              .text = told.text});
    }
  }
}

}  // namespace ringwood::tools
