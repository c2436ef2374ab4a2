#include "collectives/plan_cache.h"

#include <fmt/format.h>

#include "collectives/algorithms.h"
#include "collectives/compose.h"
#include "collectives/plan/passes.h"
#include "collectives/protocol.h"
#include "collectives/row_sums.h"
#include "collectives/wire_schedule.h"
#include "transports/log.h"

namespace ringwood {
namespace {

// A training step uses a few dozen shapes. Beyond this the sizes do not repeat and keeping them is
// waste.
constexpr size_t kMostPlans = 256, kMostUneven = 32;
// Steps of all ranks whose sums are traced (sums.h), at about 0.3 us and 50 bytes each. Beyond, the
// rows of the table are taken for what they are with fewer ranks: they agree (tests/sums.cc).
constexpr size_t kMostTraced = 4 << 20;

// Steps of all ranks whose plans are checked, at about 2 us each.
constexpr size_t kMostChecked = 2048;

}  // namespace

PlanCache::PlanCache(int rank, int n, const Fabric& fabric, const Options& options, bool slots)
    : rank_(rank),
      n_(n),
      tolerance_(options.tolerance),
      apart_(all_apart(fabric.hosts, n, fabric.loopback)),
      slots_(slots),
      chooser_(fabric, options) {}

size_t PlanCache::Hash::operator()(const Key& key) const {
  const Shape& s = key.shape;
  size_t h = s.count;
  for (size_t field : {static_cast<size_t>(s.collective), static_cast<size_t>(s.type),
                       static_cast<size_t>(s.op), static_cast<size_t>(s.root),
                       static_cast<size_t>(key.lanes), static_cast<size_t>(key.private_source)})
    h = h * 0x9e3779b97f4a7c15u + field;
  for (const size_t block : s.blocks) h = h * 0x9e3779b97f4a7c15u + block;
  return h ^ std::hash<std::string>()(key.algorithm);
}

Question PlanCache::question(const Shape& shape, double tolerance) const {
  Question q;
  q.collective = shape.collective;
  const size_t blocks = std::max<size_t>(1, shape.blocks.size());
  q.bytes = (shape.count + blocks - 1) / blocks * size_of(shape.type);
  q.type = shape.type;
  q.op = shape.op;
  q.n = n_;
  q.uneven = !shape.blocks.empty();
  q.tolerance = tolerance < 0 ? tolerance_ : tolerance;
  return q;
}

Answer PlanCache::answer(const Shape& shape, const std::string& algorithm, int lanes,
                         double tolerance) const {
  return chooser_.choose(question(shape, tolerance), algorithm, lanes);
}

std::vector<Candidate> PlanCache::explain(const Shape& shape) const {
  return chooser_.explain(question(shape, -1));
}

Schedule PlanCache::schedule(const Source& source, int rank, int root) const {
  return source.own ? source.own->schedules()[static_cast<size_t>(rank)]
                    : source.row->build(where(rank, root));
}

Opener PlanCache::opener(const Source& source, const Shape& shape, int lanes) const {
  const size_t bytes = shape.count * size_of(shape.type);
  const bool small = small_for_one_round(limits(), shape.collective, bytes, n_, apart_);
  if (!small || lanes != 1 || !shape.blocks.empty()) return Opener::agreement;
  for (int r = 0; r < n_; ++r)
    if (!fits_one_round(schedule(source, r, shape.root))) return Opener::agreement;
  return Opener::one_round;
}

std::shared_ptr<const Sums> PlanCache::sums(const Source& source, const Shape& shape,
                                            WireFormat wire) const {
  const bool matter =
      scales_operands(shape.type, shape.op) || accumulates_wide(shape.type, shape.op);
  if (!reduces(shape.collective) || !matter || n_ == 1) return nullptr;
  if (source.own) return trace(source, shape, wire);
  std::shared_ptr<const Sums>& found = sums_[{source.row, shape.root, wire}];
  if (!found) found = trace(source, shape, wire);
  return found;
}

std::shared_ptr<const Sums> PlanCache::trace(const Source& source, const Shape& shape,
                                             WireFormat wire) const {
  const size_t mine = schedule(source, rank_, shape.root).steps.size();
  if (mine * static_cast<size_t>(n_) > kMostTraced) {
    if (!scales_operands(shape.type, shape.op)) return nullptr;
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{} of {} ranks by {}: with so many, only SUM and the other operations "
                    "are there; take SUM and divide the result",
                    to_string(shape.op), n_, source.row ? source.row->name : "these schedules"));
  }
  const std::span<const int> hosts = chooser_.fabric().hosts;
  std::vector<Schedule> all;
  for (int r = 0; r < n_; ++r) all.push_back(schedule(source, r, shape.root));
  if (wire != WireFormat::exact)
    for (Schedule& s : all) s = with_roundings(s, shape.collective, hosts);
  return std::make_shared<const Sums>(trace_sums(shape.collective, all));
}

std::shared_ptr<Plan> PlanCache::make_exact(const Source& source, const Key& key, const Answer& a,
                                            int rank) const {
  const Shape& shape = key.shape;
  const std::shared_ptr<const Sums> sums = this->sums(source, shape, WireFormat::exact);
  Schedule mine = schedule(source, rank, shape.root);
  const bool apart = sums && sums->apart;
  if (apart) mine = with_roundings(mine, shape.collective, {});
  const Opener way = apart ? Opener::agreement : opener(source, shape, a.lanes);
  const bool published = key.private_source && way != Opener::one_round;
  auto plan = make_plan(published ? publish(mine, shape.collective) : mine, shape, a.algorithm,
                        a.lanes, way, {}, sums.get(), limits());
  plan->published = published;
  return plan;
}

std::shared_ptr<Plan> PlanCache::make(const Key& key, int rank) const {
  auto plan = key.own ? make_own(key, rank) : make_chosen(key, rank);
  if (slots_) *plan = add_slots(std::move(*plan));
  return plan;
}

std::shared_ptr<Plan> PlanCache::make_chosen(const Key& key, int rank) const {
  const Shape& shape = key.shape;
  const Answer a = answer(shape, key.algorithm, key.lanes, key.tolerance);
  const Source source{find_algorithm(shape.collective, a.algorithm), nullptr};
  if (a.wire == WireFormat::exact) return make_exact(source, key, a, rank);
  const std::span<const int> hosts = chooser_.fabric().hosts;
  const Schedule mine = with_roundings(schedule(source, rank, shape.root), shape.collective, hosts);
  return make_plan(mine, shape, a.algorithm, a.lanes, Opener::agreement, {a.wire, hosts},
                   sums(source, shape, a.wire).get(), limits());
}

std::shared_ptr<Plan> PlanCache::make_own(const Key& key, int rank) const {
  const ProvedSchedules& own = *key.own;
  const Shape& shape = key.shape;
  const bool rooted = has_root(shape.collective) && n_ > 1;
  if (own.collective() != shape.collective || own.size() != n_ ||
      (rooted && own.root() != shape.root) || !shape.blocks.empty() || !key.algorithm.empty())
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} with schedules of the user's: they are for {} of {} ranks{}, blocks of one "
                    "size, and no algorithm beside",
                    to_string(shape.collective), to_string(own.collective()), own.size(),
                    rooted ? fmt::format(" with root {}", own.root()) : ""));
  const Answer answer{std::string(kUserSchedules), std::max(1, key.lanes), WireFormat::exact};
  auto plan = make_exact({nullptr, &own}, key, answer, rank);
  plan->fingerprint.blocks = own.hash();
  return plan;
}

std::shared_ptr<const Plan> PlanCache::get(const Shape& shape, const std::string& algorithm,
                                           int lanes, bool private_source, double tolerance,
                                           const std::shared_ptr<const ProvedSchedules>& own) {
  const bool uneven =
      !std::ranges::all_of(shape.blocks, [&](size_t b) { return b == shape.blocks[0]; });
  private_source = private_source && shape.blocks.empty();
  Key key{shape, algorithm, lanes, tolerance, private_source, own};
  std::lock_guard lock(mutex_);
  Plans& plans = uneven ? uneven_ : plans_;
  auto it = plans.find(key);
  if (it != plans.end()) return it->second;
  if (plans.size() >= (uneven ? kMostUneven : kMostPlans)) plans.clear();
  std::shared_ptr<Plan> plan = make(key, rank_);
  check_once(*plan, key);
  return plans.emplace(std::move(key), std::move(plan)).first->second;
}

// Of sizes that only pairs know, equal ones stand for those of all ranks.
Shape PlanCache::shape_of(const Shape& mine, int rank) const {
  Shape shape = mine;
  if (!has_blocks_of_pairs(mine)) return shape;
  const bool all = mine.collective == Collective::all_to_all || rank == mine.root;
  const size_t most = *std::ranges::max_element(mine.blocks);
  shape.blocks.assign(mine.blocks.size(), all ? most : 0);
  if (!all)
    shape.blocks[static_cast<size_t>(mine.collective == Collective::scatter ? n_ : rank)] = most;
  return shape;
}

void PlanCache::check_once(const Plan& mine, const Key& key) {
  const Shape& shape = mine.shape;
  const std::string kind = fmt::format(
      "{} of {} {}{} from rank {} by {}{} in {} parts, {}, protocol {}{}{}",
      to_string(shape.collective), to_string(shape.type), to_string(shape.op),
      shape.blocks.empty() ? "" : ", uneven", shape.root, mine.algorithm,
      key.own ? fmt::format(" {:x}", key.own->hash()) : "", mine.lanes,
      to_string(static_cast<WireFormat>(mine.fingerprint.wire)), static_cast<int>(mine.protocol),
      mine.fusions.empty() ? "" : ", fused", mine.published ? ", published" : "");
  if (n_ == 1 || checked_.contains(kind)) return;
  PlanCheck check{PlanCheck::Result::too_large, "more steps than are worth the time"};
  if (mine.steps.size() * static_cast<size_t>(n_) <= kMostChecked) check = check_all(mine, key);
  if (check.result == PlanCheck::Result::too_large)
    log(LogLevel::debug, "plan", fmt::format("not checked: {}: {}", kind, check.words));
  if (check.result == PlanCheck::Result::faulty)
    throw Error(ErrorCode::internal, fmt::format("wrong plans: {}: {}", kind, check.words));
  checked_[kind] = check.result == PlanCheck::Result::sound;
}

PlanCheck PlanCache::check_all(const Plan& mine, const Key& key) const {
  const Shape& shape = mine.shape;
  const Source source{key.own ? nullptr : find_algorithm(shape.collective, mine.algorithm),
                      key.own.get()};
  const auto wire = static_cast<WireFormat>(mine.fingerprint.wire);
  const std::shared_ptr<const Sums> sums = this->sums(source, shape, wire);
  std::vector<std::shared_ptr<const Plan>> plans;
  std::vector<Schedule> proved;
  for (int r = 0; r < n_; ++r) {
    Key theirs = key;
    theirs.shape = shape_of(shape, r);
    plans.push_back(make(theirs, r));
    proved.push_back(schedule(source, r, shape.root));
    if (sums && sums->apart) proved.back() = with_roundings(proved.back(), shape.collective, {});
  }
  PlanFacts facts;
  facts.host = chooser_.fabric().hosts;
  facts.budget = 2 * kMostChecked;  // ranks differ
  return check_plans(plans, proved, facts);
}

size_t PlanCache::checked() const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::ranges::count_if(checked_, [](const auto& kind) { return kind.second; }));
}

}  // namespace ringwood
