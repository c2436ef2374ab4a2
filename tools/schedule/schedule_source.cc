#include "tools/schedule/schedule_source.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "collectives/verify/verify.h"
#include "tools/command/text_files.h"
#include "tools/counted.h"
#include "tools/launch.h"
#include "tools/prediction.h"

namespace ringwood::tools {
namespace {

// Of a table's row, when nothing says how many.
constexpr int kDrawnRanks = 4;

std::string names(Collective collective, const Where& where) {
  std::string result;
  for (const AlgorithmRow& row : algorithm_table()) {
    if (row.collective != collective || !row.accepts(where)) continue;
    result += fmt::format("{}{}", result.empty() ? "" : ", ", row.name);
  }
  return result;
}

struct Chosen {
  const AlgorithmRow* row;
  std::vector<int> hosts;
  int n, root;
  Where where(int rank) const { return {rank, n, root, hosts}; }
};

void require_root(int root, int n) {
  if (root >= n) refuse(fmt::format("root {} is not one of {}", root, counted(n, "rank")));
}

// Whether the row needs several hosts, and would be right on two.
bool lacks_hosts(const Chosen& chosen) {
  if (!chosen.row || !chosen.hosts.empty() || chosen.n % 2 != 0) return false;
  Chosen on_two = chosen;
  for (int r = 0; r < chosen.n; ++r) on_two.hosts.push_back(2 * r / chosen.n);
  return chosen.row->accepts(on_two.where(0));
}

Chosen choose(const TypedSchedule& typed, Collective collective) {
  Chosen chosen{find_algorithm(collective, typed.algorithm), {}, kDrawnRanks, typed.root};
  if (!typed.hosts.empty()) chosen.hosts = places_of({typed.hosts, typed.ranks}, kDrawnRanks);
  const int n = !chosen.hosts.empty() ? static_cast<int>(chosen.hosts.size())
                : typed.ranks > 0     ? typed.ranks
                                      : kDrawnRanks;
  chosen.n = n;
  require_root(typed.root, n);
  if (!chosen.row || !chosen.row->accepts(chosen.where(0))) {
    refuse(fmt::format("no algorithm '{}' for {} of {}{}; there are: {}", typed.algorithm,
                       to_string(collective), counted(n, "rank"),
                       lacks_hosts(chosen)    ? " on one host (--hosts 2 would do)"
                       : chosen.hosts.empty() ? ""
                                              : " on these hosts",
                       names(collective, chosen.where(0))));
  }
  return chosen;
}

Schedules from_table(const TypedSchedule& typed, Collective collective) {
  Chosen chosen = choose(typed, collective);
  std::vector<Schedule> all = build_all(*chosen.row, chosen.where(0));
  return {collective, std::move(all), std::move(chosen.hosts), chosen.row};
}

Schedules from_text(const TypedSchedule& typed, Collective collective) {
  Schedules found{collective, parse_schedules(read_all("", typed.file)), {}, nullptr};
  if (typed.ranks > 0) require_ranks(found.n(), typed.ranks);
  require_root(typed.root, found.n());
  if (typed.hosts.empty()) return found;
  found.hosts = places_of({typed.hosts, 0}, found.n());
  if (static_cast<int>(found.hosts.size()) != found.n())
    refuse(fmt::format("--hosts {} places {}, and the text is of {}", typed.hosts,
                       counted(found.hosts.size(), "rank"), counted(found.n(), "rank")));
  return found;
}

Collective collective_of(const TypedSchedule& typed) {
  const Collective collective = parse_collective(typed.collective);
  if (typed.file.empty() == typed.algorithm.empty())
    refuse("give either an algorithm (see ringwood algorithms) or --file with a schedule's text");
  return collective;
}

}  // namespace

Schedules read_schedules(const TypedSchedule& typed) {
  const Collective collective = collective_of(typed);
  return typed.file.empty() ? from_table(typed, collective) : from_text(typed, collective);
}

void require_few_steps(const TypedSchedule& typed, size_t most, const std::string& remedy) {
  const Collective collective = collective_of(typed);
  if (!typed.file.empty()) return;
  const Chosen chosen = choose(typed, collective);
  size_t steps = 0;
  for (int rank = 0; rank < chosen.n; ++rank) {
    steps +=
        chosen.row->build(chosen.where(rank)).steps.size() * static_cast<size_t>(typed.segments);
    if (steps > most)
      refuse(fmt::format("all ranks together have more than {} million steps: {}", most / 1'000'000,
                         remedy));
  }
}

ManySchedules read_many_schedules(const TypedSchedule& typed) {
  const Collective collective = collective_of(typed);
  ManySchedules found{collective, SharedSchedules(collective), nullptr};
  const auto add = [&](int n, const std::function<Schedule(int)>& build) {
    if (const auto flaw = add_in_segments(found.all, n, typed.segments, build)) refuse(*flaw);
  };
  if (!typed.file.empty()) {
    const Schedules text = from_text(typed, collective);
    add(text.n(), [&](int rank) { return text.all[rank]; });
    return found;
  }
  const Chosen chosen = choose(typed, collective);
  found.row = chosen.row;
  add(chosen.n, [&](int rank) { return chosen.row->build(chosen.where(rank)); });
  return found;
}

}  // namespace ringwood::tools
