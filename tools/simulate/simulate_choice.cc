#include "tools/simulate/simulate_choice.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "collectives/tuner/choice/row_profiles.h"
#include "collectives/tuner/model_tuner.h"
#include "collectives/tuner/plugin/plugin_tuner.h"
#include "tools/prediction.h"

namespace ringwood::tools {
namespace {

// Sensible rows: estimated to take at most this many times the best one, and so many of them.
constexpr double kSensible = 4;
constexpr size_t kMaxSensible = 6;

// What a group has measured of this network: what lies between far hosts, too.
MachineModel known_of(const SimulateOptions& options) {
  MachineModel machine = options.machine;
  if (options.shape.leaf > 0) machine.net.far = far_path(machine.net, options.shape);
  return machine;
}

ModelQuery query_of(const SimulateOptions& options, const MachineModel& machine) {
  ModelQuery query = options.query;
  query.machine = &machine;
  query.tolerance = options.knobs.tolerance;
  return query;
}

// What a communicator with these knobs takes on the query's machine.
TuningChoice choice_with(const Options& knobs, const ModelQuery& query, int segments) try {
  std::shared_ptr<const Tuner> tuner = std::make_shared<ModelTuner>(*query.machine, knobs, nullptr);
  if (const ringwood_tuner* const plugin = load_plugin(knobs))
    tuner = with_plugin(std::move(tuner), *plugin, query.n, knobs);
  return tuner->choose(query, "", segments);
} catch (const Error& error) {
  if (knobs.algorithm.empty()) throw;
  throw Error(error.code, fmt::format("RINGWOOD_ALGORITHM={}: {}", knobs.algorithm, error.cause));
}

// All of them, not only that which the knobs name.
std::vector<Candidate> candidates_of(const SimulateOptions& options, const ModelQuery& query) {
  Options knobs = options.knobs;
  knobs.algorithm.clear();
  RowProfiles profiles(*query.machine, query.n);
  std::vector<Candidate> candidates = explain(query, knobs, "", options.segments, &profiles);
  const TuningChoice choice = choice_with(options.knobs, query, options.segments);
  const auto missing = [&] { return predict_choice(query, options.knobs, choice, profiles); };
  if (choice.algorithm.empty() || query.n == 1) return candidates;
  choose_instead(candidates, choice, missing, why(choice), "the knobs name another one");
  return candidates;
}

// Of a candidate, not simulated yet.
SimulatedRow row_of(const Candidate& c) {
  SimulatedRow row;
  row.algorithm = c.algorithm;
  row.segments = c.segments;
  row.wire = c.wire;
  row.chosen = c.chosen;
  row.estimate = c.seconds;
  return row;
}

// What would be taken if slow ports were known, among the others; estimated without them.
void add_for_slow_ports(const SimulateOptions& options, const ModelQuery& query,
                        std::vector<SimulatedRow>& rows) {
  MachineModel machine = *query.machine;
  if (!machine.net.exceptions.empty()) return;  // some are known
  machine.net.exceptions = exceptions_of(options.faults.ports);
  if (machine.net.exceptions.empty() || machine.net.exceptions.size() > kMaxExceptions) return;
  ModelQuery known = query;
  known.machine = &machine;
  Options knobs = options.knobs;
  knobs.algorithm.clear();
  const TuningChoice choice = choice_with(knobs, known, options.segments);
  if (choice.algorithm.empty()) return;  // one rank
  RowProfiles profiles(*query.machine, query.n);
  SimulatedRow row = row_of(predict_choice(query, knobs, choice, profiles));
  row.chosen = false;  // on that machine only
  const auto same = std::ranges::find(rows, row.name(), &SimulatedRow::name);
  if (same == rows.end())
    rows.push_back(std::move(row));
  else if (!same->chosen)
    *same = std::move(row);
}

}  // namespace

std::vector<SimulatedRow> rows_of(const SimulateOptions& options) {
  const bool named = !options.algorithm.empty() && options.algorithm != "all";
  const MachineModel machine = known_of(options);
  const ModelQuery query = query_of(options, machine);
  if (named) choose(query, Options{}, options.algorithm);  // refuses what cannot be
  std::map<std::string, SimulatedRow> best;  // of each row: the segments that take least
  double least = INFINITY;
  for (const Candidate& c : candidates_of(options, query)) {
    if (std::isinf(c.seconds)) continue;
    least = std::min(least, c.seconds);
    SimulatedRow& row = best[name_of(c.algorithm, c.wire)];
    const bool better =
        row.algorithm.empty() || c.chosen || (!row.chosen && c.seconds < row.estimate);
    if (!better) continue;
    row = row_of(c);
  }
  std::vector<SimulatedRow> rows;
  for (auto& [name, row] : best)
    if (!named || row.algorithm == options.algorithm) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.chosen != b.chosen ? a.chosen : a.estimate < b.estimate;
  });
  if (!options.algorithm.empty()) return rows;
  std::erase_if(rows, [&](const SimulatedRow& row) {
    return !row.chosen && row.estimate > least * kSensible;
  });
  rows.resize(std::min(rows.size(), kMaxSensible));
  add_for_slow_ports(options, query, rows);
  return rows;
}

}  // namespace ringwood::tools
