#include "collectives/planner/group_planner.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "collectives/kernels/types.h"
#include "transports/base/log.h"

namespace ringwood {
namespace {

TuningChoice choice_of(const Plan& plan) {
  return {plan.form.algorithm, plan.form.segments, static_cast<WireFormat>(plan.fingerprint.wire)};
}

// Whether the plan of an earlier epoch is what the choice says.
bool remains(const Plan& known, const TuningChoice& choice) {
  if (choice.own)
    return known.fingerprint.blocks == choice.own->hash() &&
           known.form.algorithm == kUserSchedules && known.form.segments == choice.segments;
  return choice_of(known) == choice;
}

}  // namespace

GroupPlanner::GroupPlanner(int rank, int n, std::shared_ptr<const Tuner> tuner, bool slots)
    : rank_(rank),
      n_(n),
      slots_(slots),
      maker_(std::make_shared<PlanMaker>(rank, n, std::move(tuner), slots)) {}

std::shared_ptr<PlanMaker> GroupPlanner::maker() const {
  const std::lock_guard lock(mutex_);
  return maker_;
}

TuningChoice GroupPlanner::choose(const CollectiveArgs& args) const {
  return maker()->choose({args, {}});
}

std::vector<Candidate> GroupPlanner::explain(const CollectiveArgs& args) const {
  const auto now = maker();
  return now->tuner()->explain(now->query(args));
}

std::shared_ptr<const Plan> GroupPlanner::get(const PlanKey& key) {
  std::unique_lock lock(mutex_);
  std::shared_ptr<const Plan> known = plans_.find(key);
  if (known && known->epoch == maker_->epoch()) return known;
  return make_once(lock, key, known.get());
}

std::shared_ptr<const Plan> GroupPlanner::make_once(std::unique_lock<std::mutex>& lock,
                                                    const PlanKey& key, const Plan* known) {
  const std::shared_ptr<PlanMaker> maker = maker_;
  const auto find = [&] {
    const auto it = making_.find(key);
    return it != making_.end() && it->second.epoch == maker->epoch() ? it : making_.end();
  };
  if (const auto it = find(); it != making_.end()) {
    const auto other = it->second.plan;
    lock.unlock();
    return other.get();
  }
  std::promise<std::shared_ptr<const Plan>> promise;
  making_[key] = {maker->epoch(), promise.get_future().share()};
  lock.unlock();
  const auto end = [&] {
    if (const auto it = find(); it != making_.end()) making_.erase(it);
  };
  try {
    std::shared_ptr<const Plan> plan = make(*maker, key, known);
    lock.lock();
    plans_.add(key, plan);
    end();
    promise.set_value(plan);
    return plan;
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    end();
    promise.set_exception(std::current_exception());
    throw;
  }
}

// A plan follows from the choice and from what never changes.
std::shared_ptr<const Plan> GroupPlanner::make(PlanMaker& maker, const PlanKey& key,
                                               const Plan* known) {
  const TuningChoice choice = maker.choose(key);
  if (known && remains(*known, choice)) {
    auto same = std::make_shared<Plan>(*known);
    same->epoch = maker.epoch();
    same->fingerprint.epoch = static_cast<uint8_t>(maker.epoch());
    return same;
  }
  std::shared_ptr<Plan> plan = maker.make(key, choice, rank_);
  if (log_shows(LogLevel::debug)) tell_choice(*plan, key, choice);
  checks_.check_once(maker, *plan, key, choice);
  return plan;
}

void GroupPlanner::tell_choice(const Plan& plan, const PlanKey& key, const TuningChoice& choice) {
  const CollectiveArgs& args = key.args;
  const size_t from = size_class(args.count * plan.element);
  {
    const std::lock_guard lock(mutex_);
    if (!told_.insert({args.collective, from, args.type, plan.form.algorithm, plan.form.segments})
             .second)
      return;
  }
  log(LogLevel::debug, "choice",
      fmt::format("{} of {} {} B and more: {}, {} segments: {}", to_string(args.collective), from,
                  to_string(args.type), plan.form.algorithm, plan.form.segments,
                  key.request.own ? "the call has schedules of its own" : why(choice)));
}

// ---- other parameters ---------------------------------------------------------------------------

void GroupPlanner::prepare(uint32_t epoch, const std::string& parameters) {
  std::shared_ptr<const Tuner> tuner;
  {
    const std::lock_guard lock(mutex_);
    tuner = (next_.empty() ? maker_ : next_.rbegin()->second)->tuner();
  }
  if (!parameters.empty()) tuner = tuner->with(parameters);
  auto maker = std::make_shared<PlanMaker>(rank_, n_, std::move(tuner), slots_, epoch);
  const std::lock_guard lock(mutex_);
  next_[epoch] = std::move(maker);
}

void GroupPlanner::abandon(uint32_t epoch) {
  const std::lock_guard lock(mutex_);
  next_.erase(epoch);
}

std::shared_ptr<const Plan> GroupPlanner::plan_again(const Plan& plan, uint32_t epoch) {
  {
    const std::lock_guard lock(mutex_);
    if (epoch > maker_->epoch()) enter(epoch);
  }
  return get(plan.key);
}

void GroupPlanner::enter(uint32_t epoch) {
  const auto it = next_.find(epoch);
  if (it == next_.end())
    throw Error(ErrorCode::internal, fmt::format("nothing is prepared for epoch {}", epoch));
  maker_ = it->second;
  next_.erase(next_.begin(), std::next(it));
}

TunerInUse GroupPlanner::in_use() const {
  std::vector<std::shared_ptr<const Plan>> plans;
  std::shared_ptr<PlanMaker> now;
  {
    const std::lock_guard lock(mutex_);
    now = maker_;
    plans.reserve(plans_.size());
    plans_.for_each_even([&](const auto& plan) { plans.push_back(plan); });
  }
  TunerInUse used{now->tuner(), {}};
  for (const auto& plan : plans)
    if (plan->epoch == now->epoch() && plan->key.request.algorithm.empty() &&
        !plan->key.request.own)
      used.choices.push_back(
          {now->query(plan->key.args, plan->key.request.tolerance), choice_of(*plan)});
  return used;
}

}  // namespace ringwood
