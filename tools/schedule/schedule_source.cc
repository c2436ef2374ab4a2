#include "tools/schedule/schedule_source.h"

#include <fmt/format.h>

#include "tools/command/text_files.h"
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

Schedules from_table(const TypedSchedule& typed, Collective collective) {
  std::vector<int> hosts;
  if (!typed.hosts.empty()) hosts = places_of({typed.hosts, typed.ranks}, kDrawnRanks);
  const int n = !hosts.empty()    ? static_cast<int>(hosts.size())
                : typed.ranks > 0 ? typed.ranks
                                  : kDrawnRanks;
  const Where where{0, n, typed.root, hosts};
  if (typed.root >= n) refuse(fmt::format("root {} is not one of {} ranks", typed.root, n));
  const AlgorithmRow* row = find_algorithm(collective, typed.algorithm);
  if (!row || !row->accepts(where)) {
    refuse(fmt::format("no algorithm '{}' for {} of {} ranks{}; there are: {}", typed.algorithm,
                       to_string(collective), n, hosts.empty() ? "" : " on these hosts",
                       names(collective, where)));
  }
  return {collective, build_all(*row, where), std::move(hosts), row};
}

Schedules from_text(const TypedSchedule& typed, Collective collective) {
  Schedules found{collective, parse_schedules(read_all("", typed.file)), {}, nullptr};
  if (typed.ranks > 0) require_ranks(found.n(), typed.ranks);
  if (!typed.hosts.empty()) found.hosts = places_of({typed.hosts, found.n()});
  return found;
}

}  // namespace

Schedules read_schedules(const TypedSchedule& typed) {
  const Collective collective = parse_collective(typed.collective);
  if (typed.file.empty() == typed.algorithm.empty())
    refuse("give either an algorithm (see ringwood algorithms) or --file with a schedule's text");
  return typed.file.empty() ? from_table(typed, collective) : from_text(typed, collective);
}

}  // namespace ringwood::tools
