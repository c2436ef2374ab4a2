#include "collectives/runtime/plan_maker.h"

#include <algorithm>

#include <fmt/format.h>

#include "collectives/kernels/row_sums.h"
#include "collectives/plan/passes.h"
#include "collectives/plan/protocol.h"
#include "collectives/plan/wire_schedule.h"
#include "collectives/schedule/compose.h"

namespace ringwood {
namespace {

// Steps of all ranks whose sums are traced (sums.h), at about 0.3 us and 50 bytes each. Beyond, the
// rows of the table are taken for what they are with fewer ranks: they agree (tests/plan/sums.cc).
constexpr size_t kMostTraced = 4 << 20;

}  // namespace

PlanMaker::PlanMaker(int rank, int n, const Fabric& fabric, const Options& options, bool slots)
    : rank_(rank),
      n_(n),
      tolerance_(options.tolerance),
      apart_(all_apart(fabric.hosts, n, fabric.loopback)),
      slots_(slots),
      chooser_(fabric, options) {}

Question PlanMaker::question(const Shape& shape, double tolerance) const {
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

Answer PlanMaker::answer(const Shape& shape, const std::string& algorithm, int lanes,
                         double tolerance) const {
  return chooser_.choose(question(shape, tolerance), algorithm, lanes);
}

std::vector<Candidate> PlanMaker::explain(const Shape& shape) const {
  return chooser_.explain(question(shape, -1));
}

Schedule PlanMaker::schedule(const Source& source, int rank, int root) const {
  return source.own ? source.own->schedules()[static_cast<size_t>(rank)]
                    : source.row->build({rank, n_, root, fabric().hosts, fabric().nodes});
}

Opener PlanMaker::opener(const Source& source, const Shape& shape, int lanes) const {
  const size_t bytes = shape.count * size_of(shape.type);
  const bool small = small_for_one_round(fabric().limits, shape.collective, bytes, n_, apart_);
  if (!small || lanes != 1 || !shape.blocks.empty()) return Opener::agreement;
  for (int r = 0; r < n_; ++r)
    if (!fits_one_round(schedule(source, r, shape.root))) return Opener::agreement;
  return Opener::one_round;
}

std::shared_ptr<const Sums> PlanMaker::sums(const Source& source, const Shape& shape,
                                            WireFormat wire) {
  const bool matter =
      scales_operands(shape.type, shape.op) || accumulates_wide(shape.type, shape.op);
  if (!reduces(shape.collective) || !matter || n_ == 1) return nullptr;
  if (source.own) return trace(source, shape, wire);
  std::shared_ptr<const Sums>& found = sums_[{source.row, shape.root, wire}];
  if (!found) found = trace(source, shape, wire);
  return found;
}

std::shared_ptr<const Sums> PlanMaker::trace(const Source& source, const Shape& shape,
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
  const std::span<const int> hosts = fabric().hosts;
  std::vector<Schedule> all;
  for (int r = 0; r < n_; ++r) all.push_back(schedule(source, r, shape.root));
  if (wire != WireFormat::exact)
    for (Schedule& s : all) s = with_roundings(s, shape.collective, hosts);
  return std::make_shared<const Sums>(trace_sums(shape.collective, all));
}

std::shared_ptr<Plan> PlanMaker::make_exact(const Source& source, const PlanKey& key,
                                            const Answer& a, int rank) {
  const Shape& shape = key.shape;
  const std::shared_ptr<const Sums> sums = this->sums(source, shape, WireFormat::exact);
  Schedule mine = schedule(source, rank, shape.root);
  const bool apart = sums && sums->apart;
  if (apart) mine = with_roundings(mine, shape.collective, {});
  const Opener way = apart ? Opener::agreement : opener(source, shape, a.lanes);
  const bool published = key.private_source && way != Opener::one_round;
  auto plan = make_plan(published ? publish(mine, shape.collective) : mine, shape, a.algorithm,
                        a.lanes, way, {}, sums.get(), fabric().limits);
  plan->published = published;
  return plan;
}

std::shared_ptr<Plan> PlanMaker::make(const PlanKey& key, int rank) {
  auto plan = key.own ? make_own(key, rank) : make_chosen(key, rank);
  if (slots_) *plan = add_slots(std::move(*plan));
  return plan;
}

std::shared_ptr<Plan> PlanMaker::make_chosen(const PlanKey& key, int rank) {
  const Shape& shape = key.shape;
  const Answer a = answer(shape, key.algorithm, key.lanes, key.tolerance);
  const Source source{find_algorithm(shape.collective, a.algorithm), nullptr};
  if (a.wire == WireFormat::exact) return make_exact(source, key, a, rank);
  const std::span<const int> hosts = fabric().hosts;
  const Schedule mine = with_roundings(schedule(source, rank, shape.root), shape.collective, hosts);
  return make_plan(mine, shape, a.algorithm, a.lanes, Opener::agreement, {a.wire, hosts},
                   sums(source, shape, a.wire).get(), fabric().limits);
}

std::shared_ptr<Plan> PlanMaker::make_own(const PlanKey& key, int rank) {
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

std::vector<Schedule> PlanMaker::schedules(const Plan& mine, const PlanKey& key) {
  const Shape& shape = mine.shape;
  const Source source{key.own ? nullptr : find_algorithm(shape.collective, mine.algorithm),
                      key.own.get()};
  const auto wire = static_cast<WireFormat>(mine.fingerprint.wire);
  const std::shared_ptr<const Sums> sums = this->sums(source, shape, wire);
  std::vector<Schedule> all;
  for (int r = 0; r < n_; ++r) {
    all.push_back(schedule(source, r, shape.root));
    if (sums && sums->apart) all.back() = with_roundings(all.back(), shape.collective, {});
  }
  return all;
}

}  // namespace ringwood
