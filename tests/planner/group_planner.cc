// Plans are made outside the planner's lock, once for all threads that need one, and for the epoch
// in which they are asked for.
#include "collectives/planner/group_planner.h"

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/tuner/model_tuner.h"

namespace ringwood {
namespace {

// Answers calls of `slow` bytes when it is allowed to; counts what it is asked.
class SlowTuner final : public Tuner {
 public:
  explicit SlowTuner(size_t slow) : slow_(slow), allowed_(allow_.get_future().share()) {}
  TuningChoice choose(const TuningQuery& query, const std::string& algorithm,
                      int segments) const override {
    if (query.bytes == slow_) {
      ++asked;
      allowed_.wait();
      if (fails) throw Error(ErrorCode::invalid_argument, "no");
    }
    return inner_->choose(query, algorithm, segments);
  }
  std::vector<Candidate> explain(const TuningQuery& query) const override {
    return inner_->explain(query);
  }
  const GroupFacts& group() const override { return inner_->group(); }
  std::shared_ptr<const Tuner> with(const std::string& parameters) const override {
    return inner_->with(parameters);
  }
  Proposal weigh(const NetworkParameters& measured, const std::vector<UsedChoice>& used,
                 const std::atomic<bool>& stop) const override {
    return inner_->weigh(measured, used, stop);
  }
  void allow() { allow_.set_value(); }
  void await_question() const {
    while (asked == 0) std::this_thread::yield();
  }

  std::atomic<bool> fails{false};
  mutable std::atomic<int> asked{0};

 private:
  const size_t slow_;
  std::promise<void> allow_;
  std::shared_future<void> allowed_;
  const std::shared_ptr<const Tuner> inner_ =
      std::make_shared<ModelTuner>(MachineModel{}, Options{});
};

PlanKey sum(size_t count) {
  return {{Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, count, {}}, {}};
}

class GroupPlanners : public ::testing::Test {
 protected:
  std::future<std::shared_ptr<const Plan>> get(size_t count) {
    return std::async(std::launch::async, [this, count] { return planner_.get(sum(count)); });
  }

  const std::shared_ptr<SlowTuner> tuner_ = std::make_shared<SlowTuner>(4096);
  GroupPlanner planner_{0, 4, tuner_};
};

TEST_F(GroupPlanners, ACallDoesNotWaitForThePlanOfAnother) {
  auto slow = get(1024);
  tuner_->await_question();
  EXPECT_EQ(planner_.get(sum(2))->key.args.count, 2u);
  EXPECT_EQ(planner_.get(sum(2)), planner_.get(sum(2)));
  EXPECT_EQ(planner_.in_use().choices.size(), 1u);
  tuner_->allow();
  EXPECT_EQ(slow.get()->key.args.count, 1024u);
}

TEST_F(GroupPlanners, OnePlanIsMadeForAllThatNeedIt) {
  std::vector<std::future<std::shared_ptr<const Plan>>> all;
  for (int i = 0; i < 4; ++i) all.push_back(get(1024));
  tuner_->await_question();
  tuner_->allow();
  const auto first = all[0].get();
  for (size_t i = 1; i < all.size(); ++i) EXPECT_EQ(all[i].get(), first);
  // Once for the plan, and once for each rank that it is checked against.
  EXPECT_EQ(tuner_->asked, 1 + 4);
  EXPECT_EQ(get(1024).get(), first);
  EXPECT_EQ(tuner_->asked, 1 + 4) << "it is kept";
}

TEST_F(GroupPlanners, AFailureIsEverybodysAndIsNotKept) {
  tuner_->fails = true;
  auto one = get(1024), other = get(1024);
  tuner_->await_question();
  tuner_->allow();
  EXPECT_THROW((void)one.get(), Error);
  EXPECT_THROW((void)other.get(), Error);
  tuner_->fails = false;
  EXPECT_EQ(planner_.get(sum(1024))->key.args.count, 1024u);
}

// The thread that makes a plan of the epoch before does not replace that of the present one.
TEST_F(GroupPlanners, APlanThatComesLateDoesNotReplaceANewerOne) {
  auto late = get(1024);
  tuner_->await_question();
  planner_.prepare(1, print(MachineModel{}));
  Plan like;
  like.key.args = sum(1024).args;
  const auto now = planner_.plan_again(like, 1);
  EXPECT_EQ(now->epoch, 1u);
  tuner_->allow();
  EXPECT_EQ(late.get()->epoch, 0u);
  EXPECT_EQ(planner_.get(sum(1024)), now);
}

}  // namespace
}  // namespace ringwood
