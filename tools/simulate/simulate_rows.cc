#include "tools/simulate/simulate_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/kernels/types.h"
#include "collectives/tuner/choice/row_profiles.h"
#include "collectives/tuner/cost/cost_model.h"
#include "transports/base/options.h"

namespace ringwood::tools {
namespace {

// Of more messages not all are simulated, unless that is wanted and possible.
constexpr double kManyMessages = 2e6;
// So many are simulated for a table that is to be there at once: one or two seconds. To bind a rank
// costs as much as some of them.
constexpr double kFewMessages = 3e5, kMessagesOfRank = 100;
constexpr size_t kMaxTracedRanks = 32, kMaxIntervals = 100'000;

// One row among the group's ranks: its schedules, bound once and simulated on several networks; all
// messages, or those of smaller groups.
class Simulated {
 public:
  Simulated(const SimulateOptions& options, const SimulatedRow& row, SimulationWork& work)
      : options_(options),
        name_(row.name()),
        work_(work),
        group_(placement_of(without_exceptions(options.machine), options.query.n)),
        shape_(options.shape) {
    // One pod is none: nobody passes its uplinks.
    if (hosts_of_unit(shape_) >= group_->hosts.count() && options.faults.uplinks.empty())
      shape_.pod = shape_.pod_uplinks = 0;
    // A slow host slows down its own ports, and those of others by what they wait for.
    for (const HostException& one : options.machine.net.exceptions)
      if (one.rail < options.shape.rails) slow_hosts_.push_back({one.host, one.rail, one.rate});
    row_.row = find_algorithm(options.query.collective, row.algorithm);
    row_.root = options.query.root;
    row_.segments = row.segments;
    row_.load = {options.query.collective, options.query.bytes, size_of(options.query.type)};
    row_.load.agreement = true;
    row_.load.out_of_place = true;
    row_.load.wire = row.wire;
    row_.load.one_round = row.wire == WireFormat::exact && in_one_round(row.segments);
  }

  // Of all ranks, from those of a few.
  double messages() const {
    // All segments have about as many, and those of many blocks do not fit into memory.
    const int stands_for = many_steps() ? row_.segments : 1;
    const int bound = row_.segments / stands_for;
    const auto sends = [&](int rank) {
      const auto plans = plans_of({build(rank)}, bound, row_.load, group_->machine);
      return stands_for *
             static_cast<double>(std::count_if(
                 plans[0].steps.begin(), plans[0].steps.end(), [](const BoundStep& step) {
                   return step.kind == StepKind::send && step.bytes > 0;
                 }));
    };
    const int n = group_->n;
    if (n == 1) return 0;
    const auto after = [&](int ranks) { return sends((row_.root + ranks) % n); };
    return sends(row_.root) + (n - 1) * std::max({after(1), after(n / 2), after(n - 1)});
  }

  // To bind them takes minutes, also where messages of many blocks are few.
  bool many_steps() const {
    constexpr double kManySteps = 1e7;
    return steps() > kManySteps;
  }

  bool has_empty_chunks() const { return ringwood::has_empty_chunks(row_, *group_); }

  // What one host, which stands for all, takes without faults on a network of which only ports are
  // limited. Nothing where hosts do not do the same. `messages`: its own.
  std::optional<Outcome> one_host(double messages) const {
    work_.begin(messages);
    work_.show(fmt::format("{}: the messages of one host", name_), 0);
    return simulate_one_host(row_, group_);
  }

  // False where no smaller groups resemble this one: not those in which other chunks are empty,
  // where the whole can be simulated. `messages`: the work that this is.
  bool extend(double messages) {
    constexpr double kBoundInAMinute = 1e8;
    if (has_empty_chunks() && steps() < kBoundInAMinute) return false;
    extension_ = Extension::of(row_, group_, shape_, with_slow_hosts(options_.faults), {});
    if (!extension_) return false;
    work_.begin(messages);
    extension_->simulate_clean(in_smaller_groups(""));
    return true;
  }
  std::vector<int> hosts_of_smaller() const { return extension_->hosts(); }

  void bind(double messages) {
    TrafficRequest request;
    request.build = [this](int rank) { return build(rank); };
    request.n = group_->n;
    request.segments = row_.segments;
    request.load = row_.load;
    work_.begin(messages);
    traffic_ = bind_traffic(request, group_->machine, [&](int rank) {
      work_.show(fmt::format("{}: {} of {} ranks are bound", name_, rank, request.n),
                 static_cast<double>(rank) / request.n);
    });
  }
  const Traffic& traffic() const { return traffic_; }

  // `messages`: the work that this is.
  Outcome run(const Faults& wanted, uint64_t seed, const std::string& what, double messages,
              std::span<const int> traced = {}) const {
    const Faults faults = with_slow_hosts(wanted);
    NetworkShape shape = shape_;
    shape.seed = seed;
    work_.begin(messages);
    if (extension_) return extension_->run(faults, shape, in_smaller_groups(what));
    const Network network(group_->machine, group_->n, shape, faults);
    EventsRequest events;
    events.faults = &faults;
    events.traced = traced;
    events.most_intervals = kMaxIntervals;
    events.progress = [&](double part) {
      work_.show(fmt::format("{}{}: {:.0f} % of the steps", name_, what, part * 100), part);
    };
    return run_events(traffic_, group_->machine, network, events);
  }

 private:
  static MachineModel without_exceptions(MachineModel machine) {
    machine.net.exceptions.clear();
    return machine;
  }
  Faults with_slow_hosts(Faults faults) const {
    faults.ports.insert(faults.ports.end(), slow_hosts_.begin(), slow_hosts_.end());
    return faults;
  }
  // Of all ranks, about.
  double steps() const { return static_cast<double>(build(0).steps.size()) * group_->n; }
  Schedule build(int rank) const { return build_row(row_, *group_, row_.root, rank); }
  Extension::Progress in_smaller_groups(const std::string& what) const {
    return [this, what](int hosts, double part) {
      work_.show(
          fmt::format("{}{}, {} hosts: {:.0f} % of the steps", name_, what, hosts, part * 100),
          part);
    };
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
      if (!fits_one_round(after_agreement(build(r), q.collective))) return false;
    return true;
  }

  const SimulateOptions& options_;
  const std::string name_;
  SimulationWork& work_;
  const SharedPlacement group_;  // without the hosts that are not like the others
  NetworkShape shape_;
  std::vector<PortFault> slow_hosts_;
  RowRequest row_;
  Traffic traffic_;
  std::optional<Extension> extension_;
};

// How a row's time is found: by all messages; by those of one host, or, where hosts do not do the
// same, as the choice predicts it; by those of smaller groups; or as the choice predicts it.
enum class Way : uint8_t { whole, one_host_or_predicted, extended, predicted };

// The choice's model has a host's rails in one where messages are striped, also for small ones,
// which are not cut.
bool one_port(const NetworkShape& shape) {
  return shape.rails == 1 || shape.use == RailUse::by_rank;
}

// Whether all hosts are alike, and nothing but their ports limits the network.
bool only_ports(const SimulateOptions& o) {
  return !o.faults.any() && o.machine.net.exceptions.empty() && o.shape.leaf == 0 &&
         o.shape.pair <= 0 && one_port(o.shape);
}

// Whether nothing is simulated that the choice's model does not know, and a table is wanted that is
// there at once.
bool choice_knows(const SimulateOptions& o) {
  const NetworkShape& shape = o.shape;
  const bool table = o.algorithm.empty() || o.algorithm == "all";
  return table && !o.every_message && !o.faults.any() && o.seeds == 1 && o.trace.empty() &&
         shape.leaf == 0 && shape.pair <= 0 && one_port(shape);
}

// The work of simulating smaller groups once, about, in messages.
constexpr double kExtension = 4e5;

double of_one_host(const SimulateOptions& options, const SimulatedRow& row) {
  return row.messages / options.hosts;
}

// Sets how many messages the row has. `left`: of those that are simulated at once; null: all are.
Way way_of(const SimulateOptions& options, SimulatedRow& row, SimulationWork& work, double* left) {
  const Simulated simulated(options, row, work);
  row.messages = simulated.messages();
  if (!left) {
    const bool all = options.every_message && row.messages <= static_cast<double>(kMaxMessages);
    const bool many = row.messages > kManyMessages || simulated.many_steps();
    return many && !all ? Way::extended : Way::whole;
  }
  const auto fits = [&](double messages, int ranks) {
    const double work = messages + kMessagesOfRank * ranks;
    if (work > *left) return false;
    *left -= work;
    return true;
  };
  if (!simulated.many_steps() && fits(row.messages, options.query.n)) return Way::whole;
  if (options.hosts > 1 && !simulated.has_empty_chunks() &&
      fits(of_one_host(options, row), options.ranks_per_host))
    return Way::one_host_or_predicted;
  return Way::predicted;
}

double work_of(const SimulateOptions& options, const SimulatedRow& row, Way way) {
  const int faulty = options.faults.any() + options.seeds - 1;
  switch (way) {
    case Way::whole: return row.messages * (2 + faulty);
    case Way::one_host_or_predicted: return of_one_host(options, row);
    case Way::extended: return kExtension * (1 + faulty);
    case Way::predicted: break;
  }
  return 0;
}

void take_prediction(const SimulateOptions& options, SimulatedRow& row, RowProfiles& profiles,
                     SimulationWork& work) {
  ModelQuery query = options.query;
  query.machine = &options.machine;
  const TuningChoice choice{row.algorithm, row.segments, row.wire};
  const Candidate c = predict_choice(query, options.knobs, choice, profiles);
  // Of many segments two stand for all; and where chunks would be empty, the choice has larger ones
  // in their place.
  row.one_host =
      c.simulated && row.segments <= 2 && !Simulated(options, row, work).has_empty_chunks();
  row.estimated = !row.one_host;
  row.healthy.seconds = c.seconds;
  row.healthy.busiest = c.busiest;
  row.by_seed = {c.seconds};
}

// Whether the row takes what one host does, which stands for all.
bool as_one_host(const SimulateOptions& options, const Simulated& simulated, SimulatedRow& row) {
  std::optional<Outcome> outcome = simulated.one_host(of_one_host(options, row));
  if (!outcome) return false;
  row.one_host = true;
  row.healthy = std::move(*outcome);
  row.by_seed = {row.healthy.seconds};
  return true;
}

const char* why_not_smaller(const SimulateOptions& options, const Simulated& simulated) {
  if (simulated.has_empty_chunks()) return "some chunks are empty";
  if (options.shape.pod > 0) return "no smaller groups of whole pods resemble this one";
  if (options.shape.leaf > 0) return "no smaller groups of whole leaves resemble this one";
  return "no smaller groups of equal hosts resemble this one";
}

// Binds the row's messages, or those of smaller groups. False if it cannot be simulated.
bool bind(const SimulateOptions& options, Simulated& simulated, SimulatedRow& row, Way way) {
  if (way == Way::extended && simulated.extend(kExtension)) {
    row.extended_from = simulated.hosts_of_smaller();
    return true;
  }
  if (row.messages > static_cast<double>(kMaxMessages)) {
    row.why_not = fmt::format(
        "{:.0f} million messages are more than the {} million that are simulated where {}; the "
        "choice estimates {:.1f} us without faults",
        row.messages / 1e6, kMaxMessages / 1'000'000, why_not_smaller(options, simulated),
        row.estimate * 1e6);
    return false;
  }
  simulated.bind(row.messages);
  row.messages = static_cast<double>(simulated.traffic().messages.size());
  return true;
}

// Returns false if the row's time is to be predicted.
bool simulate(const SimulateOptions& options, SimulatedRow& row, Way way, SimulationWork& work) {
  if (way == Way::predicted) return false;
  Simulated simulated(options, row, work);
  if (way == Way::one_host_or_predicted) return as_one_host(options, simulated, row);
  if (way == Way::extended && only_ports(options) && as_one_host(options, simulated, row))
    return true;
  if (!bind(options, simulated, row, way)) return true;
  const uint64_t seed = options.shape.seed;
  const double each = row.extended_from.empty() ? row.messages : kExtension;
  row.healthy = simulated.run({}, seed, "", each);
  if (options.faults.any())
    row.faulty = simulated.run(options.faults, seed, ", with the faults", each);
  row.by_seed.push_back(row.outcome().seconds);
  for (int i = 1; i < options.seeds; ++i)
    row.by_seed.push_back(simulated
                              .run(options.faults, seed + static_cast<uint64_t>(i),
                                   fmt::format(", seed {} of {}", i + 1, options.seeds), each)
                              .seconds);
  std::sort(row.by_seed.begin(), row.by_seed.end());
  return true;
}

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

void simulate(const SimulateOptions& options, SimulatedRow& row, const Progress& progress) {
  SimulationWork work(progress);
  const Way way = way_of(options, row, work, nullptr);
  work.expect(work_of(options, row, way));
  simulate(options, row, way, work);
}

void simulate(const SimulateOptions& options, std::vector<SimulatedRow>& rows,
              const Progress& progress) {
  SimulationWork work(progress);
  const bool quick = choice_knows(options);
  double left = kFewMessages;
  std::vector<Way> ways;
  for (SimulatedRow& row : rows) {
    ways.push_back(way_of(options, row, work, quick ? &left : nullptr));
    work.expect(work_of(options, row, ways.back()));
  }
  RowProfiles profiles(options.machine, options.query.n);
  for (size_t i = 0; i < rows.size(); ++i)
    if (!simulate(options, rows[i], ways[i], work))
      take_prediction(options, rows[i], profiles, work);
}

Trace trace(const SimulateOptions& options, const SimulatedRow& row, const Progress& progress) {
  if (row.one_host || !row.extended_from.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--trace: {} has {:.0f} million messages; take fewer hosts, or another "
                            "row with -a",
                            row.name(), row.messages / 1e6));
  SimulationWork work(progress);
  work.expect(2 * row.messages);
  Simulated simulated(options, row, work);
  simulated.bind(row.messages);
  Outcome outcome = simulated.run(options.faults, options.shape.seed, ", traced", row.messages,
                                  traced_ranks(row.outcome()));
  return {row.name(), simulated.traffic(), std::move(outcome)};
}

}  // namespace ringwood::tools
