#include "tools/simulate/simulate_replay.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "collectives/algorithms/algorithms.h"
#include "tools/counted.h"
#include "tools/simulate/simulate_choice.h"

namespace ringwood::tools {
namespace {

// A kind of call with what carries it out.
struct KindRow {
  SimulateOptions options;
  SimulatedRow row;
};

std::string why_not_row(const SimulateOptions& options, const RecordedCall& call) {
  if (options.query.n < 2) return "one rank alone has nothing to send";
  if (!find_algorithm(call.collective, call.algorithm))
    return fmt::format("{} is no row of the table of algorithms", call.algorithm);
  return "";
}

KindRow row_for(const SimulateOptions& options, const RecordedCall& call, bool placed) {
  KindRow kind{with_call(options, call.collective, call.type, call.bytes), {}};
  kind.options.query.op = call.op;
  kind.options.query.root = call.root < options.query.n ? call.root : 0;
  const bool named = find_algorithm(call.collective, options.algorithm) != nullptr;
  if (!named) kind.options.algorithm.clear();
  if (placed && !named) {
    kind.row.algorithm = call.algorithm;
    kind.row.segments = call.segments;
    kind.row.wire = call.wire;
    kind.row.why_not = why_not_row(options, call);
    return kind;
  }
  const std::vector<SimulatedRow> rows = rows_of(kind.options);
  if (rows.empty())
    kind.row.why_not = "no row can be simulated";
  else
    kind.row = rows.front();  // the choice, or the best estimate
  return kind;
}

// A row that the group does not accept is refused by the simulation: one call less.
void simulate_kind(KindRow& kind, const Progress& progress) try {
  if (kind.row.why_not.empty()) simulate(kind.options, kind.row, progress);
} catch (const Error& error) {
  kind.row.why_not = error.what();
}

void require_row(const SimulateOptions& options, const RecordedRun& run) {
  const auto knows = [&](const CallKind& kind) {
    return find_algorithm(kind.call.collective, options.algorithm) != nullptr;
  };
  if (!options.algorithm.empty() && std::ranges::none_of(run.kinds, knows))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("no recorded collective has an algorithm {:?}: see ringwood algorithms",
                            options.algorithm));
}

}  // namespace

LikeCluster cluster_of(const RecordedRun& run) {
  LikeCluster cluster;
  cluster.machine = run.machine;
  cluster.machine.hosts.clear();
  cluster.machine.nodes.clear();
  cluster.machine.net.exceptions.clear();
  cluster.hosts = 1 + *std::ranges::max_element(run.machine.hosts);
  const int most = run.ranks / cluster.hosts;
  bool in_turn = run.ranks % cluster.hosts == 0;
  for (int rank = 0; rank < run.ranks; ++rank)
    in_turn = in_turn && run.machine.hosts[static_cast<size_t>(rank)] == rank / most;
  cluster.ranks_per_host = in_turn ? most : 0;
  return cluster;
}

ReplayReport simulate_replay(const SimulateOptions& options, const RecordedRun& run, bool placed,
                             const Progress& progress) {
  require_row(options, run);
  ReplayReport report;
  report.command = "simulate";
  report.run = &run;
  report.place =
      fmt::format("{} on {}", counted(options.query.n, "rank"), counted(options.hosts, "host"));
  report.faults = options.fault_texts;
  if (options.query.n != run.ranks)
    report.notes.push_back(
        fmt::format("recorded with {}, simulated with {}: whole buffers keep their sizes",
                    counted(run.ranks, "rank"), options.query.n));
  std::vector<KindRow> kinds;
  for (const CallKind& kind : run.kinds) {
    KindRow& one = kinds.emplace_back(row_for(options, kind.call, placed));
    simulate_kind(one, [&](const std::string& text) {
      progress(fmt::format("{} of {}: {}", kinds.size(), run.kinds.size(), text));
    });
    report.algorithms.push_back(one.row.name());
    report.segments.push_back(one.row.segments);
    report.why_not.push_back(one.row.why_not);
  }
  std::vector<double> healthy, faulty;
  for (const size_t kind : run.calls) {
    const SimulatedRow& row = kinds[kind].row;
    const bool known = row.why_not.empty();
    healthy.push_back(known ? row.healthy.seconds : std::nan(""));
    faulty.push_back(known ? row.outcome().seconds : std::nan(""));
  }
  report.columns = {recorded_column(run), column_of(run, "predicted", healthy)};
  if (options.faults.any()) report.columns.push_back(column_of(run, "with faults", faulty));
  return report;
}

}  // namespace ringwood::tools
