#include "tools/simulation/extension.h"

#include <algorithm>
#include <utility>

#include "collectives/plan/wire_schedule.h"
#include "collectives/tuner/choice/siblings.h"
#include "collectives/tuner/cost/cost_model.h"

namespace ringwood {
namespace {

// Leaves, or hosts, of the larger of the smaller groups: at least so many if that has few messages.
constexpr int kSomeUnits = 8, kFewUnits = 4;
// Seeds of a smaller group for one of the whole.
constexpr int kMaxDraws = 4;
constexpr uint64_t kNextDraw = 1'000'003;

// Only ports are limited.
NetworkShape clean(NetworkShape shape) {
  shape.leaf = shape.uplinks = shape.pod = shape.pod_uplinks = 0;
  shape.pair = 0;
  return shape;
}

std::vector<int> some_ranks(int n, int root) {
  std::vector<int> ranks = {root};
  for (const int after : {1, n / 2, n - 1}) ranks.push_back((root + after) % n);
  return ranks;
}

}  // namespace

Schedule build_row(const RowRequest& request, const Placement& on, int root, int rank) {
  Where where = on.where(rank);
  where.root = root;
  Schedule schedule = request.row->build(where);
  return request.load.wire == WireFormat::exact
             ? schedule
             : with_roundings(schedule, request.row->collective, on.machine.hosts);
}

bool has_empty_chunks(const RowRequest& request, const Placement& group) {
  const Load& load = request.load;
  if (!moves_data(load.collective)) return false;
  if (!cut_from_one_buffer(load.collective)) return load.bytes == 0;
  return load.bytes / load.element <
         static_cast<size_t>(build_row(request, group, request.root, 0).chunks) *
             static_cast<size_t>(request.segments);
}

std::optional<Outcome> simulate_one_host(const RowRequest& request, const SharedPlacement& group) {
  if (!group->regular() || group->hosts.count() == 1 || has_empty_chunks(request, *group))
    return {};
  std::vector<Schedule> first;
  const auto build = [&](int rank) { return build_row(request, *group, request.root, rank); };
  for (const int rank : group->hosts.ranks[0]) first.push_back(build(rank));
  const std::optional<HostSymmetry> symmetry = symmetry_of(group, first, build);
  if (!symmetry) return {};
  const MachineModel& machine = group->machine;
  const CostModel model = model_of(plans_of(first, request.segments, request.load, machine),
                                   request.load, machine, &*symmetry);
  Outcome outcome;
  outcome.seconds = predict(model, request.load, machine).seconds;
  outcome.busiest.add(bounds_of(model, machine).busy);
  return outcome;
}

// ---- smaller groups

size_t Extension::messages_of_a_rank(const Placement& on, int root) const {
  size_t most = 0;
  for (const int rank : some_ranks(on.n, root)) {
    const Schedule s = build_row(request_, on, root, rank);
    most = std::max(most, static_cast<size_t>(std::ranges::count_if(
                              s.steps, [](const Step& t) { return t.kind == StepKind::send; })));
  }
  return most;
}

// As RowProfile has it.
bool Extension::grows_as_hosts(const SmallerGroup& smaller) const {
  constexpr double kMoreThanLogarithmic = 1.2;
  const int root = smaller.rank(request_.root);
  const auto before = static_cast<double>(messages_of_a_rank(*smaller.placement(), root)),
             after = static_cast<double>(messages_of_a_rank(*group_, request_.root));
  return after * after > before * before * group_->n / smaller.n() * kMoreThanLogarithmic;
}

// As the samples of a choice have it (RowProfile): blocks and messages are cut as the group's.
Load Extension::load_of(const SmallerGroup& smaller) const {
  const Placement& on = *smaller.placement();
  const int root = smaller.rank(request_.root);
  const Load& whole = request_.load;
  Load load = whole;
  load.of_group = group_->machine.size(group_->n);
  if (!moves_data(whole.collective)) return load;
  const double times = static_cast<double>(group_->n) / on.n;
  const auto scaled = [&](double by, size_t least) {
    const size_t elements = whole.bytes / whole.element;
    return std::max(static_cast<size_t>(static_cast<double>(elements) * by), least) * whole.element;
  };
  if (cut_from_one_buffer(whole.collective)) {
    load.of_bytes = whole.bytes;
    if (!affine_) return load;
    const int chunks = build_row(request_, on, root, root).chunks;
    const int of_group = build_row(request_, *group_, request_.root, request_.root).chunks;
    load.bytes = scaled(static_cast<double>(chunks) / of_group, static_cast<size_t>(chunks));
    return load;
  }
  const bool gathers =
      whole.collective == Collective::all_gather || whole.collective == Collective::reduce_scatter;
  const double by = affine_ ? 1 : gathers ? (group_->n - 1.0) / (on.n - 1.0) : times;
  load.bytes = scaled(by, 1);
  load.of_bytes = static_cast<size_t>(static_cast<double>(whole.bytes) * times);
  load.of_blocks = times;
  load.of_block_bytes = 1 / by;
  return load;
}

std::optional<Extension> Extension::of(const RowRequest& request, const SharedPlacement& group,
                                       const NetworkShape& shape, const Faults& faults,
                                       const Limits& limits) {
  if (!group->regular()) return {};
  const int unit = hosts_of_unit(shape), units = group->hosts.count() / unit;
  Extension made(request, group);
  made.clean_shape_ = clean(shape);
  const auto found = [&](int most, double messages) {
    const int longer = most * unit;
    for (const auto& hosts : {std::vector{longer / 4, longer / 2, longer}, {longer / 2, longer}})
      if (made.sample(hosts, shape, faults, messages)) return true;
    return false;
  };
  for (int shift = 1; (units >> shift) >= kSomeUnits; ++shift)
    if (found((units >> shift) & ~3, limits.messages)) return made;
  for (const int few : {kSomeUnits, kFewUnits})
    if (few < units && found(few, limits.messages_of_few)) return made;
  return {};
}

bool Extension::sample(const std::vector<int>& hosts, const NetworkShape& shape,
                       const Faults& faults, double most_messages) {
  samples_.clear();
  for (const int h : hosts) {
    std::optional<SmallerGroup> smaller =
        SmallerGroup::of(*group_, h, shape, faults, request_.root);
    if (!smaller) return false;
    Where where = smaller->placement()->where(0);
    where.root = smaller->rank(request_.root);
    if (!request_.row->accepts(where)) return false;
    samples_.push_back({std::move(*smaller), {}, {}, 0});
  }
  const SmallerGroup& largest = samples_.back().group;
  const auto each =
      static_cast<double>(messages_of_a_rank(*largest.placement(), largest.rank(request_.root)));
  if (each * largest.n() * request_.segments > most_messages) return false;
  affine_ = grows_as_hosts(largest);
  for (Sample& s : samples_) {
    TrafficRequest request;
    request.build = [&, root = s.group.rank(request_.root)](int rank) {
      return build_row(request_, *s.group.placement(), root, rank);
    };
    request.n = s.group.n();
    request.segments = request_.segments;
    request.load = s.load = load_of(s.group);
    s.traffic = bind_traffic(request, s.group.machine());
  }
  return true;
}

std::vector<int> Extension::hosts() const {
  std::vector<int> hosts;
  for (const Sample& s : samples_) hosts.push_back(s.group.hosts());
  return hosts;
}

// ---- simulations

Outcome Extension::simulate(const Sample& sample, const NetworkShape& shape, const Faults& faults,
                            const Progress& progress) const {
  const MachineModel& machine = sample.group.machine();
  const Faults here = sample.group.faults(faults);
  const Network network(machine, sample.group.n(), shape, here);
  EventsRequest request;
  request.faults = &here;
  if (progress) request.progress = [&](double part) { progress(sample.group.hosts(), part); };
  return run_events(sample.traffic, machine, network, request);
}

Outcome Extension::slowest(const Sample& sample, const NetworkShape& shape, const Faults& faults,
                           const Progress& progress) const {
  const bool hashed = shape.uplinks > 1 && !shape.adaptive;
  const int draws = hashed ? std::min(kMaxDraws, group_->hosts.count() / sample.group.hosts()) : 1;
  Outcome slowest;
  NetworkShape drawn = shape;
  for (int i = 0; i < draws; ++i, drawn.seed += kNextDraw) {
    Outcome outcome = simulate(sample, drawn, faults, progress);
    if (outcome.seconds > slowest.seconds) slowest = std::move(outcome);
  }
  return slowest;
}

// A line through the last two, in the number of hosts or its logarithm.
double Extension::extended(double shorter, double longer) const {
  const auto place = [&](int hosts) { return affine_ ? hosts : doublings(hosts); };
  const double a = place(samples_.end()[-2].group.hosts()),
               b = place(samples_.back().group.hosts()), whole = place(group_->hosts.count());
  return longer + (longer - shorter) * (whole - b) / (b - a);
}

double Extension::added(double shorter, double longer) const {
  if (longer <= 0) return longer;
  const int hosts = samples_.back().group.hosts(), whole = group_->hosts.count();
  const double times =
      affine_ ? static_cast<double>(whole) / hosts : doublings(whole) / doublings(hosts);
  return std::clamp(extended(shorter, longer), longer, longer * times);
}

void Extension::simulate_clean(const Progress& progress) {
  if (const std::optional<Outcome> one = simulate_one_host(request_, group_)) {
    clean_ = one->seconds;
    for (Sample& s : samples_) {
      RowRequest request = request_;
      request.root = s.group.rank(request_.root);
      request.load = s.load;
      const std::optional<Outcome> there = simulate_one_host(request, s.group.placement());
      if (!there) break;
      s.clean = there->seconds;
    }
    if (samples_.back().clean > 0) return;
  }
  std::vector<double> seconds;
  for (Sample& s : samples_)
    seconds.push_back(s.clean = simulate(s, clean_shape_, {}, progress).seconds);
  // Of steps that wait for each other from host to host, each doubling adds twice as much.
  constexpr double kMoreThanLogarithmic = 1.5;
  if (seconds.size() > 2)
    affine_ |= seconds[2] - seconds[1] > kMoreThanLogarithmic * (seconds[1] - seconds[0]);
  clean_ = extended(seconds.end()[-2], seconds.back());
  // And a tree whose root sends to as many as it has levels takes longer by more at each doubling.
  if (seconds.size() < 3 || affine_) return;
  const double more = seconds[2] - 2 * seconds[1] + seconds[0];
  const double left = doublings(group_->hosts.count()) - doublings(samples_.back().group.hosts());
  clean_ += std::max(0.0, more) * left * (left + 1) / 2;
}

Outcome Extension::run(const Faults& faults, const NetworkShape& shape,
                       const Progress& progress) const {
  const Sample &shorter = samples_.end()[-2], &longer = samples_.back();
  const Outcome less = slowest(shorter, shape, faults, progress);
  Outcome more = slowest(longer, shape, faults, progress);
  const double seconds = clean_ + added(less.seconds - shorter.clean, more.seconds - longer.clean);
  return of_group(std::move(more), seconds, shape, faults);
}

// Of the larger sample, as long as the group takes.
Outcome Extension::of_group(Outcome outcome, double seconds, const NetworkShape& shape,
                            const Faults& faults) const {
  const SmallerGroup& small = samples_.back().group;
  const Network there(group_->machine, group_->n, shape, faults),
      here(small.machine(), small.n(), shape, small.faults(faults));
  const double times = seconds / outcome.seconds;
  Outcome whole;
  whole.seconds = seconds;
  whole.busiest = {outcome.busiest.resource, outcome.busiest.seconds * times};
  for (const LinkUse& use : outcome.links)
    if (const int32_t link = small.link_of_group(here, use.link, there); link >= 0)
      whole.links.push_back({link, use.busy * times});
  for (int r = 0; r < group_->n; ++r) whole.finish.push_back(outcome.finish[small.rank(r)] * times);
  return whole;
}

}  // namespace ringwood
