#include "collectives/planner/plan_checks.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "transports/base/log.h"

namespace ringwood {
namespace {

// Limit of the steps of all ranks for which plans are checked, at about 2 us each.
constexpr size_t kMaxChecked = 2048;

std::string kind_of(const Plan& mine) {
  const CollectiveArgs& args = mine.key.args;
  return fmt::format(
      "{} of {} {}{} from rank {} by {}{} in {} parts, {}, protocol {}{}{}{}",
      to_string(args.collective), to_string(args.type), to_string(args.op),
      args.blocks.empty() ? "" : ", uneven", args.root, mine.form.algorithm,
      mine.form.algorithm == kUserSchedules ? fmt::format(" {:x}", mine.fingerprint.blocks) : "",
      mine.form.segments, to_string(static_cast<WireFormat>(mine.fingerprint.wire)),
      static_cast<int>(mine.protocol), mine.fusions.list.empty() ? "" : ", fused",
      mine.form.published ? ", published" : "", is_early(mine) ? ", early" : "");
}

// Sizes that only a pair of ranks knows are replaced by equal ones for all ranks.
CollectiveArgs args_of(const CollectiveArgs& mine, int rank, int n) {
  CollectiveArgs args = mine;
  if (!has_blocks_of_pairs(mine)) return args;
  const bool all = !has_root(mine.collective) || rank == mine.root;
  const size_t most = *std::ranges::max_element(mine.blocks);
  args.blocks.assign(mine.blocks.size(), all ? most : 0);
  const GroupRank at{rank, n, mine.root};
  if (!all) args.blocks[static_cast<size_t>(own_chunk(mine.collective, at))] = most;
  return args;
}

PlanCheck check_all(PlanMaker& maker, const Plan& mine, const PlanKey& key,
                    const TuningChoice& choice) {
  std::vector<std::shared_ptr<const Plan>> plans;
  for (int r = 0; r < maker.size(); ++r) {
    PlanKey theirs = key;
    theirs.args = args_of(mine.key.args, r, maker.size());
    plans.push_back(maker.make(theirs, maker.choose(theirs), r));
  }
  PlanFacts facts;
  facts.host = maker.group().hosts;
  facts.budget = 2 * kMaxChecked;  // ranks differ
  return check_plans(plans, maker.schedules(mine, choice), facts);
}

}  // namespace

void PlanChecks::check_once(PlanMaker& maker, const Plan& mine, const PlanKey& key,
                            const TuningChoice& choice) {
  const int n = maker.size();
  if (n == 1) return;
  const std::string kind = kind_of(mine);
  {
    const std::lock_guard lock(mutex_);
    if (kinds_.contains(kind)) return;
  }
  PlanCheck check{PlanCheck::Result::too_large, "too many steps to check"};
  if (mine.steps.size() * static_cast<size_t>(n) <= kMaxChecked)
    check = check_all(maker, mine, key, choice);
  if (check.result == PlanCheck::Result::too_large)
    log(LogLevel::debug, "plan", fmt::format("not checked: {}: {}", kind, check.words));
  if (check.result == PlanCheck::Result::faulty)
    throw Error(ErrorCode::internal, fmt::format("wrong plans: {}: {}", kind, check.words));
  const std::lock_guard lock(mutex_);
  kinds_[kind] = check.result == PlanCheck::Result::sound;
}

size_t PlanChecks::sound() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::ranges::count_if(kinds_, [](const auto& kind) { return kind.second; }));
}

}  // namespace ringwood
