#include "collectives/runtime/plan_checks.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "transports/base/log.h"

namespace ringwood {
namespace {

// Steps of all ranks whose plans are checked, at about 2 us each.
constexpr size_t kMostChecked = 2048;

std::string kind_of(const Plan& mine, const PlanKey& key) {
  const Shape& shape = mine.shape;
  return fmt::format("{} of {} {}{} from rank {} by {}{} in {} parts, {}, protocol {}{}{}",
                     to_string(shape.collective), to_string(shape.type), to_string(shape.op),
                     shape.blocks.empty() ? "" : ", uneven", shape.root, mine.algorithm,
                     key.own ? fmt::format(" {:x}", key.own->hash()) : "", mine.lanes,
                     to_string(static_cast<WireFormat>(mine.fingerprint.wire)),
                     static_cast<int>(mine.protocol), mine.fusions.empty() ? "" : ", fused",
                     mine.published ? ", published" : "");
}

// Of sizes that only pairs know, equal ones stand for those of all ranks.
Shape shape_of(const Shape& mine, int rank, int n) {
  Shape shape = mine;
  if (!has_blocks_of_pairs(mine)) return shape;
  const bool all = mine.collective == Collective::all_to_all || rank == mine.root;
  const size_t most = *std::ranges::max_element(mine.blocks);
  shape.blocks.assign(mine.blocks.size(), all ? most : 0);
  if (!all)
    shape.blocks[static_cast<size_t>(mine.collective == Collective::scatter ? n : rank)] = most;
  return shape;
}

PlanCheck check_all(PlanMaker& maker, const Plan& mine, const PlanKey& key) {
  std::vector<std::shared_ptr<const Plan>> plans;
  for (int r = 0; r < maker.size(); ++r) {
    PlanKey theirs = key;
    theirs.shape = shape_of(mine.shape, r, maker.size());
    plans.push_back(maker.make(theirs, r));
  }
  PlanFacts facts;
  facts.host = maker.fabric().hosts;
  facts.budget = 2 * kMostChecked;  // ranks differ
  return check_plans(plans, maker.schedules(mine, key), facts);
}

}  // namespace

void PlanChecks::check_once(PlanMaker& maker, const Plan& mine, const PlanKey& key) {
  const int n = maker.size();
  const std::string kind = kind_of(mine, key);
  if (n == 1 || kinds_.contains(kind)) return;
  PlanCheck check{PlanCheck::Result::too_large, "more steps than are worth the time"};
  if (mine.steps.size() * static_cast<size_t>(n) <= kMostChecked)
    check = check_all(maker, mine, key);
  if (check.result == PlanCheck::Result::too_large)
    log(LogLevel::debug, "plan", fmt::format("not checked: {}: {}", kind, check.words));
  if (check.result == PlanCheck::Result::faulty)
    throw Error(ErrorCode::internal, fmt::format("wrong plans: {}: {}", kind, check.words));
  kinds_[kind] = check.result == PlanCheck::Result::sound;
}

size_t PlanChecks::sound() const {
  return static_cast<size_t>(
      std::ranges::count_if(kinds_, [](const auto& kind) { return kind.second; }));
}

}  // namespace ringwood
