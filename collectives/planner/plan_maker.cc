#include "collectives/planner/plan_maker.h"

#include <algorithm>

#include <fmt/format.h>

#include "collectives/kernels/accumulate.h"
#include "collectives/plan/passes.h"
#include "collectives/plan/protocol.h"
#include "collectives/plan/wire_schedule.h"
#include "collectives/schedule/compose.h"

namespace ringwood {

PlanMaker::PlanMaker(int rank, int n, std::shared_ptr<const Tuner> tuner, bool slots,
                     uint32_t epoch)
    : rank_(rank),
      n_(n),
      tuner_(std::move(tuner)),
      group_(tuner_->group()),
      apart_(all_apart(group_.hosts, n, group_.loopback)),
      group_size_(group_.size(n)),
      slots_(slots),
      epoch_(epoch),
      hosts_(hosts_of({0, n, 0, group_.hosts})),
      nodes_(hosts_of({0, n, 0, group_.nodes})) {}

TuningQuery PlanMaker::query(const CollectiveArgs& args, double tolerance) const {
  TuningQuery q;
  q.collective = args.collective;
  const size_t blocks = std::max<size_t>(1, args.blocks.size());
  q.bytes = (args.count + blocks - 1) / blocks * size_of(args.type);
  q.type = args.type;
  q.op = args.op;
  q.root = args.root;
  q.n = n_;
  q.uneven = !args.blocks.empty();
  q.tolerance = tolerance;
  return q;
}

TuningChoice PlanMaker::choose(const PlanKey& key) const {
  const PlanRequest& asked = key.request;
  if (!asked.own)
    return tuner_->choose(query(key.args, asked.tolerance), asked.algorithm, asked.segments);
  check_own(key);
  TuningChoice choice{std::string(kUserSchedules), std::max(1, asked.segments)};
  choice.own = asked.own;
  choice.by = ChosenBy::given;
  return choice;
}

PlanMaker::Source PlanMaker::source(const CollectiveArgs& args, const TuningChoice& choice) const {
  if (choice.own) return {nullptr, choice.own.get()};
  return {find_algorithm(args.collective, choice.algorithm), nullptr};
}

Schedule PlanMaker::schedule(const Source& source, int rank, int root) const {
  return source.own ? source.own->schedules()[static_cast<size_t>(rank)]
                    : source.row->build(
                          {rank, n_, root, {group_.hosts, &hosts_}, {group_.nodes, &nodes_}});
}

Protocol PlanMaker::protocol(const Source& source, const CollectiveArgs& args, int segments) const {
  const size_t bytes = args.count * size_of(args.type);
  const bool small = small_for_one_round(group_.limits, args.collective, bytes, n_, apart_);
  if (!small || segments != 1 || !args.blocks.empty()) return Protocol::queued;
  for (int r = 0; r < n_; ++r)
    if (!fits_one_round(schedule(source, r, args.root))) return Protocol::queued;
  return Protocol::one_round;
}

std::shared_ptr<const Sums> PlanMaker::sums(const Source& source, const CollectiveArgs& args,
                                            WireFormat wire) {
  const bool matter = scales_operands(args.type, args.op) || accumulates_wide(args.type, args.op);
  if (!reduces(args.collective) || !matter || n_ == 1) return nullptr;
  if (source.own) return trace(source, args, wire);
  const std::tuple key(source.row, args.root, wire);
  {
    const std::lock_guard lock(sums_mutex_);
    if (const auto it = sums_.find(key); it != sums_.end()) return it->second;
  }
  auto traced = trace(source, args, wire);
  const std::lock_guard lock(sums_mutex_);
  return sums_.emplace(key, std::move(traced)).first->second;
}

std::shared_ptr<const Sums> PlanMaker::trace(const Source& source, const CollectiveArgs& args,
                                             WireFormat wire) const {
  const size_t mine = schedule(source, rank_, args.root).steps.size();
  // Of the choice's rows, which it counts only about, some more.
  const size_t most = source.row ? kMaxTracedSteps + kMaxTracedSteps / 4 : kMaxTracedSteps;
  if (mine * static_cast<size_t>(n_) > most) {
    if (!scales_operands(args.type, args.op)) return nullptr;
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{} of {} ranks by {}: with so many, only SUM and the other operations "
                    "are supported; use SUM and divide the result",
                    to_string(args.op), n_, source.row ? source.row->name : "these schedules"));
  }
  const std::span<const int> hosts = group_.hosts;
  std::vector<Schedule> all;
  for (int r = 0; r < n_; ++r) all.push_back(schedule(source, r, args.root));
  if (wire != WireFormat::exact)
    for (Schedule& s : all) s = with_roundings(s, args.collective, hosts);
  return std::make_shared<const Sums>(trace_sums(args.collective, all));
}

std::shared_ptr<Plan> PlanMaker::make_exact(const Source& source, const PlanKey& key,
                                            const TuningChoice& a, int rank) {
  const CollectiveArgs& args = key.args;
  const std::shared_ptr<const Sums> sums = this->sums(source, args, WireFormat::exact);
  Schedule mine = schedule(source, rank, args.root);
  const bool apart = sums && sums->apart;
  if (apart) mine = with_roundings(mine, args.collective, {});
  const bool device = key.request.memory == MemoryKind::device;
  const Protocol way = apart || device ? Protocol::queued : protocol(source, args, a.segments);
  const bool published = key.request.private_source && !device && way != Protocol::one_round;
  auto plan =
      make_plan(published ? publish(mine, args.collective) : mine, args, a.algorithm, a.segments,
                way, wire_of(WireFormat::exact), sums.get(), group_.limits, key.request.memory);
  plan->form.published = published;
  *plan = add_recording(std::move(*plan), a.seconds);
  return plan;
}

std::shared_ptr<Plan> PlanMaker::make_encoded(const Source& source, const PlanKey& key,
                                              const TuningChoice& a, int rank) {
  const CollectiveArgs& args = key.args;
  const std::span<const int> hosts = group_.hosts;
  const Schedule mine = with_roundings(schedule(source, rank, args.root), args.collective, hosts);
  auto plan = make_plan(mine, args, a.algorithm, a.segments, Protocol::queued, wire_of(a.wire),
                        sums(source, args, a.wire).get(), group_.limits, key.request.memory);
  *plan = add_recording(std::move(*plan), a.seconds);
  return plan;
}

std::shared_ptr<Plan> PlanMaker::make(const PlanKey& key, const TuningChoice& choice, int rank) {
  const Source source = this->source(key.args, choice);
  auto plan = choice.wire == WireFormat::exact ? make_exact(source, key, choice, rank)
                                               : make_encoded(source, key, choice, rank);
  if (choice.own) plan->fingerprint.blocks = choice.own->hash();
  if (slots_) *plan = add_slots(std::move(*plan));
  plan->key.request = key.request;
  plan->epoch = epoch_;
  plan->fingerprint.epoch = static_cast<uint8_t>(epoch_);
  return plan;
}

void PlanMaker::check_own(const PlanKey& key) const {
  const ProvedSchedules& own = *key.request.own;
  const CollectiveArgs& args = key.args;
  const bool rooted = has_root(args.collective) && n_ > 1;
  if (own.collective() != args.collective || own.size() != n_ ||
      (rooted && own.root() != args.root) || !args.blocks.empty() || !key.request.algorithm.empty())
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} with the user's schedules: they are for {} of {} ranks{}, blocks of one "
                    "size, and exclude an algorithm",
                    to_string(args.collective), to_string(own.collective()), own.size(),
                    rooted ? fmt::format(" with root {}", own.root()) : ""));
  if (key.request.segments > Fingerprint::kMaxSegments)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} with the user's schedules in {} segments: at most {} are possible",
                    to_string(args.collective), key.request.segments, Fingerprint::kMaxSegments));
}

std::vector<Schedule> PlanMaker::schedules(const Plan& mine, const TuningChoice& choice) {
  const CollectiveArgs& args = mine.key.args;
  const Source source = this->source(args, choice);
  const std::shared_ptr<const Sums> sums = this->sums(source, args, choice.wire);
  std::vector<Schedule> all;
  for (int r = 0; r < n_; ++r) {
    all.push_back(schedule(source, r, args.root));
    if (sums && sums->apart) all.back() = with_roundings(all.back(), args.collective, {});
  }
  return all;
}

}  // namespace ringwood
