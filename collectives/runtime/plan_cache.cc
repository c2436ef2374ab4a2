#include "collectives/runtime/plan_cache.h"

#include <algorithm>
#include <utility>

namespace ringwood {
namespace {

// A training step uses a few dozen shapes. Beyond this the sizes do not repeat and keeping them is
// waste.
constexpr size_t kMostPlans = 256, kMostUneven = 32;

}  // namespace

PlanCache::PlanCache(int rank, int n, const Fabric& fabric, const Options& options, bool slots)
    : maker_(rank, n, fabric, options, slots) {}

size_t PlanCache::Hash::operator()(const PlanKey& key) const {
  const Shape& s = key.shape;
  size_t h = s.count;
  for (size_t field : {static_cast<size_t>(s.collective), static_cast<size_t>(s.type),
                       static_cast<size_t>(s.op), static_cast<size_t>(s.root),
                       static_cast<size_t>(key.lanes), static_cast<size_t>(key.private_source)})
    h = h * 0x9e3779b97f4a7c15u + field;
  for (const size_t block : s.blocks) h = h * 0x9e3779b97f4a7c15u + block;
  return h ^ std::hash<std::string>()(key.algorithm);
}

Answer PlanCache::answer(const Shape& shape, const std::string& algorithm, int lanes,
                         double tolerance) const {
  return maker_.answer(shape, algorithm, lanes, tolerance);
}

std::vector<Candidate> PlanCache::explain(const Shape& shape) const {
  return maker_.explain(shape);
}

std::shared_ptr<const Plan> PlanCache::get(const Shape& shape, const std::string& algorithm,
                                           int lanes, bool private_source, double tolerance,
                                           const std::shared_ptr<const ProvedSchedules>& own) {
  const bool uneven =
      !std::ranges::all_of(shape.blocks, [&](size_t b) { return b == shape.blocks[0]; });
  private_source = private_source && shape.blocks.empty();
  PlanKey key{shape, algorithm, lanes, tolerance, private_source, own};
  std::lock_guard lock(mutex_);
  Plans& plans = uneven ? uneven_ : plans_;
  auto it = plans.find(key);
  if (it != plans.end()) return it->second;
  if (plans.size() >= (uneven ? kMostUneven : kMostPlans)) plans.clear();
  std::shared_ptr<Plan> plan = maker_.make(key, maker_.rank());
  checks_.check_once(maker_, *plan, key);
  return plans.emplace(std::move(key), std::move(plan)).first->second;
}

size_t PlanCache::checked() const {
  std::lock_guard lock(mutex_);
  return checks_.sound();
}

}  // namespace ringwood
