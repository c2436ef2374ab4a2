#include "collectives/runtime/plan_cache.h"

#include <algorithm>
#include <utility>

namespace ringwood {
namespace {

// A training step uses a few dozen sets of arguments. Beyond this the sizes do not repeat, and
// keeping the plans is waste.
constexpr size_t kMaxPlans = 256, kMaxUneven = 32;

}  // namespace

PlanCache::PlanCache(int rank, int n, const MachineModel& machine, const Options& options,
                     bool slots)
    : maker_(rank, n, machine, options, slots) {}

size_t PlanCache::Hash::operator()(const PlanKey& key) const {
  const CollectiveArgs& s = key.args;
  size_t h = s.count;
  for (size_t field : {static_cast<size_t>(s.collective), static_cast<size_t>(s.type),
                       static_cast<size_t>(s.op), static_cast<size_t>(s.root),
                       static_cast<size_t>(key.segments), static_cast<size_t>(key.private_source)})
    h = h * 0x9e3779b97f4a7c15u + field;
  for (const size_t block : s.blocks) h = h * 0x9e3779b97f4a7c15u + block;
  return h ^ std::hash<std::string>()(key.algorithm);
}

TuningChoice PlanCache::tuning(const CollectiveArgs& args, const std::string& algorithm,
                               int segments, double tolerance) const {
  return maker_.tuning(args, algorithm, segments, tolerance);
}

std::vector<Candidate> PlanCache::explain(const CollectiveArgs& args) const {
  return maker_.explain(args);
}

std::shared_ptr<const Plan> PlanCache::get(const CollectiveArgs& args, const std::string& algorithm,
                                           int segments, bool private_source, double tolerance,
                                           const std::shared_ptr<const ProvedSchedules>& own) {
  const bool uneven =
      !std::ranges::all_of(args.blocks, [&](size_t b) { return b == args.blocks[0]; });
  private_source = private_source && args.blocks.empty();
  PlanKey key{args, algorithm, segments, tolerance, private_source, own};
  std::lock_guard lock(mutex_);
  Plans& plans = uneven ? uneven_ : plans_;
  auto it = plans.find(key);
  if (it != plans.end()) return it->second;
  if (plans.size() >= (uneven ? kMaxUneven : kMaxPlans)) plans.clear();
  std::shared_ptr<Plan> plan = maker_.make(key, maker_.rank());
  checks_.check_once(maker_, *plan, key);
  return plans.emplace(std::move(key), std::move(plan)).first->second;
}

size_t PlanCache::checked() const {
  std::lock_guard lock(mutex_);
  return checks_.sound();
}

}  // namespace ringwood
