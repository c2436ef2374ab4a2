#include "collectives/runtime/plan_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "collectives/kernels/types.h"
#include "transports/base/log.h"

namespace ringwood {
namespace {

// A training step uses a few dozen sets of arguments, and a plan has some 140 bytes a step: 9 MiB
// for a ring of 16,384 ranks. Beyond this the sizes do not repeat, and keeping the plans is waste.
constexpr size_t kMaxBytes = 64 << 20, kMaxPlans = 4096;
constexpr size_t kMaxUnevenBytes = 16 << 20, kMaxUneven = 32;

template <class T>
size_t bytes_of_vector(const std::vector<T>& v) {
  return v.capacity() * sizeof(T);
}

TuningChoice choice_of(const Plan& plan) {
  return {plan.algorithm, plan.segments, static_cast<WireFormat>(plan.fingerprint.wire)};
}

}  // namespace

size_t bytes_of(const Plan& plan) {
  const Graph& g = plan.graph;
  size_t bytes = sizeof(Plan) + bytes_of_vector(plan.steps) + bytes_of_vector(plan.schedule.steps) +
                 bytes_of_vector(plan.schedule.scratch) + bytes_of_vector(plan.args.blocks) +
                 bytes_of_vector(plan.peers) + bytes_of_vector(plan.agreement) +
                 bytes_of_vector(plan.sends_by_rank) + bytes_of_vector(plan.receives_by_rank) +
                 bytes_of_vector(plan.fusions) + bytes_of_vector(plan.fusion_of) +
                 bytes_of_vector(plan.uses) + bytes_of_vector(g.predecessors) +
                 bytes_of_vector(g.successor) + bytes_of_vector(g.offset);
  for (const PeerQueue& queue : plan.peers)
    bytes += bytes_of_vector(queue.sends) + bytes_of_vector(queue.receives);
  return bytes;
}

std::shared_ptr<const Plan> PlanCache::Kept::find(const PlanKey& key) {
  const auto at = plans_.find(key);
  if (at == plans_.end()) return nullptr;
  by_use_.splice(by_use_.begin(), by_use_, at->second);
  return at->second->plan;
}

void PlanCache::Kept::add(const PlanKey& key, std::shared_ptr<const Plan> plan) {
  const size_t bytes = bytes_of(*plan);
  if (const auto old = plans_.find(key); old != plans_.end()) {
    bytes_ -= old->second->bytes;
    by_use_.erase(old->second);
    plans_.erase(old);
  }
  while (!by_use_.empty() && (bytes_ + bytes > most_bytes_ || plans_.size() >= most_plans_)) {
    bytes_ -= by_use_.back().bytes;
    plans_.erase(plans_.find(*by_use_.back().key));
    by_use_.pop_back();
  }
  const auto at = plans_.emplace(key, by_use_.end()).first;
  by_use_.push_front({&at->first, std::move(plan), bytes});
  at->second = by_use_.begin();
  bytes_ += bytes;
}

PlanCache::PlanCache(int rank, int n, const MachineModel& machine, const Options& options,
                     bool slots, std::shared_ptr<const TuningFile> tuning)
    : machine_(machine),
      options_(options),
      slots_(slots),
      tuning_(std::move(tuning)),
      maker_(std::make_shared<PlanMaker>(rank, n, machine, options, slots, 0, tuning_)),
      plans_(kMaxBytes, kMaxPlans),
      uneven_(kMaxUnevenBytes, kMaxUneven) {}

size_t PlanCache::Hash::operator()(const PlanKey& key) const {
  const CollectiveArgs& s = key.args;
  size_t h = s.count;
  for (size_t field :
       {static_cast<size_t>(s.collective), static_cast<size_t>(s.type), static_cast<size_t>(s.op),
        static_cast<size_t>(s.root), static_cast<size_t>(key.request.segments),
        static_cast<size_t>(key.request.private_source)})
    h = h * 0x9e3779b97f4a7c15u + field;
  for (const size_t block : s.blocks) h = h * 0x9e3779b97f4a7c15u + block;
  return h ^ std::hash<std::string>()(key.request.algorithm);
}

std::shared_ptr<PlanMaker> PlanCache::maker() const {
  std::lock_guard lock(mutex_);
  return maker_;
}

TuningChoice PlanCache::tuning(const CollectiveArgs& args, const std::string& algorithm,
                               int segments, double tolerance) const {
  return maker()->tuning(args, algorithm, segments, tolerance);
}

std::vector<Candidate> PlanCache::explain(const CollectiveArgs& args) const {
  return maker()->explain(args);
}

std::shared_ptr<const Plan> PlanCache::get(const CollectiveArgs& args, const std::string& algorithm,
                                           int segments, bool private_source, double tolerance,
                                           const std::shared_ptr<const ProvedSchedules>& own) {
  private_source = private_source && args.blocks.empty();
  const PlanKey key{args, {algorithm, segments, tolerance, private_source, own}};
  std::lock_guard lock(mutex_);
  return find(key);
}

std::shared_ptr<const Plan> PlanCache::find(const PlanKey& key) {
  const std::vector<size_t>& blocks = key.args.blocks;
  const bool uneven = !std::ranges::all_of(blocks, [&](size_t b) { return b == blocks[0]; });
  Kept& plans = uneven ? uneven_ : plans_;
  std::shared_ptr<const Plan> known = plans.find(key);
  if (known && known->epoch == maker_->epoch()) return known;
  std::shared_ptr<const Plan> plan = make(key, known.get());
  plans.add(key, plan);
  return plan;
}

// A plan follows from the choice and from what never changes.
std::shared_ptr<const Plan> PlanCache::make(const PlanKey& key, const Plan* known) {
  const PlanRequest& r = key.request;
  if (known && (r.own || choice_of(*known) ==
                             maker_->tuning(key.args, r.algorithm, r.segments, r.tolerance))) {
    auto same = std::make_shared<Plan>(*known);
    same->epoch = maker_->epoch();
    same->fingerprint.epoch = static_cast<uint8_t>(maker_->epoch());
    return same;
  }
  std::shared_ptr<Plan> plan = maker_->make(key, maker_->rank());
  if (log_shows(LogLevel::debug)) tell_choice(*plan, key);
  checks_.check_once(*maker_, *plan, key);
  return plan;
}

void PlanCache::tell_choice(const Plan& plan, const PlanKey& key) {
  const CollectiveArgs& args = key.args;
  const size_t from = size_class(args.count * plan.element);
  if (!told_.insert({args.collective, from, args.type, plan.algorithm, plan.segments}).second)
    return;
  const PlanRequest& asked = key.request;
  std::string why = asked.own ? "the call has schedules of its own" : "the call names it";
  if (!asked.own && asked.algorithm.empty()) {
    const TuningChoice choice = maker_->tuning(args, "", asked.segments, asked.tolerance);
    why = choice.tuned                           ? "the tuning file says so"
          : names_row(options_, args.collective) ? "RINGWOOD_ALGORITHM names it"
          : choice.seconds > 0
              ? fmt::format("the shortest prediction, {:.4g} us", choice.seconds * 1e6)
              : "the only one that can do it";
  }
  log(LogLevel::debug, "choice",
      fmt::format("{} of {} {} B and more: {}, {} segments: {}", to_string(args.collective), from,
                  to_string(args.type), plan.algorithm, plan.segments, why));
}

size_t PlanCache::kept_bytes() const {
  std::lock_guard lock(mutex_);
  return plans_.bytes() + uneven_.bytes();
}

size_t PlanCache::kept() const {
  std::lock_guard lock(mutex_);
  return plans_.size() + uneven_.size();
}

size_t PlanCache::checked() const {
  std::lock_guard lock(mutex_);
  return checks_.sound();
}

// ---- other parameters ---------------------------------------------------------------------------

std::shared_ptr<PlanMaker> PlanCache::make_maker(const NetworkParameters& network,
                                                 uint32_t epoch) const {
  MachineModel machine = machine_;
  machine.net = network;
  const auto now = maker();
  return std::make_shared<PlanMaker>(now->rank(), now->size(), machine, options_, slots_, epoch,
                                     alike(network, machine_.net) ? tuning_ : nullptr);
}

void PlanCache::prepare(uint32_t epoch, const std::string& parameters) {
  NetworkParameters network;
  if (parameters.empty()) {
    std::lock_guard lock(mutex_);
    network = (next_.empty() ? maker_ : next_.rbegin()->second)->machine().net;
  } else {
    network = parse_machine_model(parameters).net;
  }
  auto maker = make_maker(network, epoch);
  std::lock_guard lock(mutex_);
  next_[epoch] = std::move(maker);
}

void PlanCache::abandon(uint32_t epoch) {
  std::lock_guard lock(mutex_);
  next_.erase(epoch);
}

std::shared_ptr<const Plan> PlanCache::plan_again(const Plan& plan, uint32_t epoch) {
  std::lock_guard lock(mutex_);
  if (epoch > maker_->epoch()) enter(epoch);
  return find({plan.args, plan.request});
}

void PlanCache::enter(uint32_t epoch) {
  const auto it = next_.find(epoch);
  if (it == next_.end())
    throw Error(ErrorCode::internal, fmt::format("nothing is prepared for epoch {}", epoch));
  maker_ = it->second;
  next_.erase(next_.begin(), std::next(it));
}

Proposal PlanCache::proposal(const MachineModel& machine) const {
  return proposal(machine.net, row_changes(machine.net));
}

Proposal PlanCache::proposal(const NetworkParameters& network,
                             const std::vector<RowChange>& rows) const {
  const std::string why = print_difference(maker()->machine().net, network);
  if (why.empty()) return {};
  const std::string words = print(rows);
  MachineModel machine = machine_;
  machine.net = network;
  machine.hosts = machine.nodes = {};  // every rank knows them
  return {print(machine), why + (words.empty() ? "" : ": ") + words};
}

Proposal PlanCache::weigh(const NetworkParameters& measured) const {
  if (alike(measured, machine_.net)) return proposal(machine_.net, row_changes(machine_.net));
  const std::vector<RowChange> rows = row_changes(measured);
  return worthwhile(rows) ? proposal(measured, rows) : Proposal{};
}

std::vector<RowChange> PlanCache::row_changes(const NetworkParameters& network) const {
  const auto other = make_maker(network, 0);
  struct Used {
    CollectiveArgs args;
    TuningChoice choice;
  };
  std::map<std::pair<Collective, size_t>, Used> used;
  {
    std::lock_guard lock(mutex_);
    plans_.for_each([&](const PlanKey& key, const Plan& plan) {
      if (plan.epoch == maker_->epoch() && key.request.algorithm.empty() && !key.request.own)
        used[{key.args.collective, size_class(key.args.count * plan.element)}] = {plan.args,
                                                                                  choice_of(plan)};
    });
  }
  std::vector<RowChange> changes;
  for (const auto& [what, one] : used)
    changes.push_back(row_change(what.first, what.second, one.choice, other->explain(one.args)));
  return changes;
}

}  // namespace ringwood
