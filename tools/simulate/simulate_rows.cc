#include "tools/simulate/simulate_rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/kernels/types.h"
#include "collectives/plan/wire_schedule.h"
#include "collectives/tuner/cost/cost_model.h"
#include "transports/base/options.h"

namespace ringwood::tools {
namespace {

// Sensible rows: estimated to take at most this many times the best one, and so many of them.
constexpr double kSensible = 4;
constexpr size_t kMaxSensible = 6;
// Of more messages those of one host stand for all, where all hosts do the same.
constexpr double kManyMessages = 2e6;
constexpr size_t kMaxTracedRanks = 32, kMaxIntervals = 100'000;

// One row among the group's ranks: its schedules, bound once and simulated on several networks; all
// messages, or those of one host.
class Simulated {
 public:
  Simulated(const SimulateOptions& options, const SimulatedRow& row, const Progress& progress)
      : options_(options),
        name_(row.algorithm),
        progress_(progress),
        row_(*find_algorithm(options.query.collective, row.algorithm)),
        machine_(options.machine) {
    // A slow host slows down its own ports, and those of others by what they wait for.
    for (const HostException& one : machine_.net.exceptions)
      if (one.rail < options.shape.rails) slow_hosts_.push_back({one.host, one.rail, one.rate});
    machine_.net.exceptions.clear();
    request_.build = [this, wire = row.wire](int rank) {
      Schedule schedule = row_.build(where(rank));
      return wire == WireFormat::exact
                 ? schedule
                 : with_roundings(schedule, options_.query.collective, machine_.hosts);
    };
    request_.n = options.query.n;
    request_.segments = row.segments;
    request_.load = {options.query.collective, options.query.bytes, size_of(options.query.type)};
    request_.load.agreement = true;
    request_.load.out_of_place = true;
    request_.load.wire = row.wire;
    request_.load.one_round = row.wire == WireFormat::exact && in_one_round(row.segments);
  }

  // Of all ranks, from those of a few.
  double messages() const {
    const auto sends = [&](int rank) {
      const auto plans =
          plans_of({request_.build(rank)}, request_.segments, request_.load, machine_);
      return static_cast<double>(std::count_if(
          plans[0].steps.begin(), plans[0].steps.end(),
          [](const BoundStep& step) { return step.kind == StepKind::send && step.bytes > 0; }));
    };
    const int n = request_.n;
    if (n == 1) return 0;
    const int root = options_.query.root;
    const auto after = [&](int ranks) { return sends((root + ranks) % n); };
    return sends(root) + (n - 1) * std::max({after(1), after(n / 2), after(n - 1)});
  }

  // To bind them takes minutes, also where messages of many blocks are few.
  bool many_steps() const {
    constexpr double kManySteps = 1e7;
    return static_cast<double>(row_.build(where(0)).steps.size()) * options_.query.n > kManySteps;
  }

  // False where hosts do not do the same.
  bool bind_host() {
    const Network network(machine_, request_.n, options_.shape, {});
    progress_(fmt::format("{}: the messages of one host", name_));
    host_ = bind_host_traffic(request_, machine_, network);
    if (!host_) return false;
    host_run_ = run_host(*host_, machine_, [this](double part) {
      progress_(fmt::format("{}, one host: {:.0f} % of the steps", name_, part * 100));
    });
    return true;
  }

  void bind() {
    const Network network(machine_, request_.n, options_.shape, {});
    traffic_ = bind_traffic(request_, machine_, network, [this](int rank) {
      progress_(fmt::format("{}: {} of {} ranks are bound", name_, rank, request_.n));
    });
  }
  const Traffic& traffic() const { return traffic_; }

  Outcome run(Faults faults, uint64_t seed, const std::string& what,
              std::span<const int> traced = {}) const {
    faults.ports.insert(faults.ports.end(), slow_hosts_.begin(), slow_hosts_.end());
    NetworkShape shape = options_.shape;
    shape.seed = seed;
    const Network network(machine_, request_.n, shape, faults);
    const auto progress = [&](double part) {
      progress_(fmt::format("{}{}: {:.0f} % of the steps", name_, what, part * 100));
    };
    if (host_) return run_waves(*host_, host_run_, network, {&faults, progress});
    EventsRequest events;
    events.faults = &faults;
    events.traced = traced;
    events.most_intervals = kMaxIntervals;
    events.progress = progress;
    return run_events(traffic_, machine_, network, events);
  }

 private:
  Where where(int rank) const {
    return {rank, options_.query.n, options_.query.root, machine_.hosts, machine_.nodes};
  }
  bool in_one_round(int segments) const {
    const ModelQuery& q = options_.query;
    const MachineModel& machine = options_.machine;
    const bool apart = all_apart(machine.hosts, q.n, machine.loopback);
    if (segments > 1 || !small_for_one_round(machine.limits, q.collective, q.bytes, q.n, apart))
      return false;
    // Of many steps only those of one host: all do the same, or too much to be simulated.
    const int ranks = many_steps() ? options_.ranks_per_host : q.n;
    for (int r = 0; r < ranks; ++r)
      if (!fits_one_round(after_agreement(row_.build(where(r)), q.collective))) return false;
    return true;
  }

  const SimulateOptions& options_;
  const std::string name_;
  const Progress& progress_;
  const AlgorithmRow& row_;
  MachineModel machine_;  // without the hosts that are not like the others
  std::vector<PortFault> slow_hosts_;
  TrafficRequest request_;
  Traffic traffic_;
  std::optional<HostTraffic> host_;
  HostRun host_run_;  // with host_
};

std::vector<int> traced_ranks(const Outcome& outcome) {
  std::vector<int> ranks(outcome.finish.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  if (ranks.size() <= kMaxTracedRanks) return ranks;
  const auto slower = [&](int a, int b) {
    return outcome.finish[a] != outcome.finish[b] ? outcome.finish[a] > outcome.finish[b] : a < b;
  };
  const auto half = static_cast<ptrdiff_t>(kMaxTracedRanks / 2);
  std::partial_sort(ranks.begin(), ranks.begin() + half, ranks.end(), slower);
  std::set<int> chosen(ranks.begin(), ranks.begin() + half);
  for (int r = 0; chosen.size() < kMaxTracedRanks; ++r) chosen.insert(r);
  return {chosen.begin(), chosen.end()};
}

}  // namespace

SimulateOptions with_call(SimulateOptions options, Collective collective, DataType type,
                          size_t bytes) {
  ModelQuery& query = options.query;
  query.collective = collective;
  query.type = type;
  options.bytes = query.bytes = moves_data(collective) ? bytes : 0;
  if (in_blocks(collective)) {
    query.bytes =
        std::max<size_t>(1, bytes / size_of(type) / static_cast<size_t>(query.n)) * size_of(type);
    options.bytes = query.bytes * static_cast<size_t>(query.n);
  }
  return options;
}

std::vector<SimulatedRow> rows_of(const SimulateOptions& options) {
  const bool named = !options.algorithm.empty() && options.algorithm != "all";
  ModelQuery query = options.query;
  query.machine = &options.machine;
  if (named) choose(query, Options{}, options.algorithm);  // refuses what cannot be
  std::map<std::string, SimulatedRow> best;  // of each row: the segments that take least
  double least = INFINITY;
  for (const Candidate& c : explain(query, Options{}, "", options.segments)) {
    if (c.wire != WireFormat::exact || std::isinf(c.seconds)) continue;
    least = std::min(least, c.seconds);
    SimulatedRow& row = best[c.algorithm];
    const bool better =
        row.algorithm.empty() || c.chosen || (!row.chosen && c.seconds < row.estimate);
    if (better) row = {c.algorithm, c.segments, c.chosen, c.seconds, 0, "", false, {}, {}, {}};
  }
  std::vector<SimulatedRow> rows;
  for (auto& [name, row] : best)
    if (!named || name == options.algorithm) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.chosen != b.chosen ? a.chosen : a.estimate < b.estimate;
  });
  if (!options.algorithm.empty()) return rows;
  std::erase_if(rows, [&](const SimulatedRow& row) {
    return !row.chosen && row.estimate > least * kSensible;
  });
  rows.resize(std::min(rows.size(), kMaxSensible));
  return rows;
}

void simulate(const SimulateOptions& options, SimulatedRow& row, const Progress& progress) {
  Simulated simulated(options, row, progress);
  row.messages = simulated.messages();
  const bool many = row.messages > kManyMessages || simulated.many_steps();
  // Links of pairs of hosts are not among those that waves.h knows.
  const bool pairs = options.shape.pair > 0 || !options.faults.links.empty();
  row.one_host = many && !pairs && simulated.bind_host();
  if (!row.one_host && row.messages > static_cast<double>(kMaxMessages)) {
    row.why_not = fmt::format(
        "{:.0f} million messages are more than the {} million that are simulated where hosts do "
        "not all do the same; the choice estimates {:.1f} us without faults",
        row.messages / 1e6, kMaxMessages / 1'000'000, row.estimate * 1e6);
    return;
  }
  if (!row.one_host) {
    simulated.bind();
    row.messages = static_cast<double>(simulated.traffic().messages.size());
  }
  const uint64_t seed = options.shape.seed;
  row.healthy = simulated.run({}, seed, "");
  if (options.faults.any()) row.faulty = simulated.run(options.faults, seed, ", with the faults");
  row.by_seed.push_back(row.outcome().seconds);
  for (int i = 1; i < options.seeds; ++i)
    row.by_seed.push_back(simulated
                              .run(options.faults, seed + static_cast<uint64_t>(i),
                                   fmt::format(", seed {} of {}", i + 1, options.seeds))
                              .seconds);
  std::sort(row.by_seed.begin(), row.by_seed.end());
}

Trace trace(const SimulateOptions& options, const SimulatedRow& row, const Progress& progress) {
  if (row.one_host)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--trace: {} has {:.0f} million messages; take fewer hosts, or another "
                            "row with -a",
                            row.algorithm, row.messages / 1e6));
  Simulated simulated(options, row, progress);
  simulated.bind();
  Outcome outcome =
      simulated.run(options.faults, options.shape.seed, ", traced", traced_ranks(row.outcome()));
  return {row.algorithm, simulated.traffic(), std::move(outcome)};
}

}  // namespace ringwood::tools
