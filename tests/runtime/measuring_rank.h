// A rank whose network is measured again while it calls sums; what was measured changes nothing
// unless a test says what shall.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/planner/group_planner.h"
#include "collectives/runtime/progress_engine.h"
#include "collectives/tuner/model_tuner.h"
#include "tests/support/ranks.h"

namespace ringwood::testing {

// Notes what was measured, and changes nothing.
class NotingPlanner final : public Planner {
 public:
  NotingPlanner(int ranks, std::shared_ptr<GroupPlanner> plans)
      : ranks_(ranks), plans_(std::move(plans)) {}
  void prepare(uint32_t epoch, const std::string& text) override {
    plans_->prepare(epoch, text);
    if (on_prepare) on_prepare(epoch);
  }
  void abandon(uint32_t epoch) override { plans_->abandon(epoch); }
  std::shared_ptr<const Plan> plan_again(const Plan& plan, uint32_t epoch) override {
    return plans_->plan_again(plan, epoch);
  }
  // Asked once for each measurement. Where it shall change something, a row is in use that no tuner
  // would choose.
  TunerInUse in_use() const override {
    ++weighed;
    TunerInUse used = plans_->in_use();
    used.choices.clear();
    if (changes) used.choices.push_back({{.bytes = 1 << 20, .n = ranks_}, {"no row"}});
    return used;
  }
  mutable std::atomic<int> weighed{0};
  // To be set before the first change.
  std::function<void(uint32_t epoch)> on_prepare;
  bool changes = false;

 private:
  const int ranks_;
  const std::shared_ptr<GroupPlanner> plans_;
};

inline Options measuring_options(int rank) {
  Options o = options_for("tcp", rank);
  o.host_id = fmt::format("host-{}", rank / 2);  // of two ranks each
  o.in_flight = 3;
  o.calibration = "keep";
  o.heartbeat = std::chrono::milliseconds(20);
  return o;
}

class MeasuringRank {
 public:
  MeasuringRank(std::shared_ptr<Store> store, int rank, int n)
      : engine(ProgressEngine::create(std::move(store), rank, n, measuring_options(rank))),
        plans_(std::make_shared<GroupPlanner>(
            rank, n, std::make_shared<ModelTuner>(MachineModel{}, Options{}))),
        planner(std::make_shared<NotingPlanner>(n, plans_)) {
    engine->use(planner);
  }
  ~MeasuringRank() { (void)engine->shutdown(std::chrono::seconds(10)); }

  // Calls with the numbers of a common generator, some of them not waited for at once.
  Status call(std::mt19937_64& common) {
    const size_t count = common() % 4 == 0 ? 40000 : 1;
    const bool synchronous = common() % 2;
    auto& one = open_.emplace_back();
    one.data.assign(count, engine->mesh().rank + 1);
    one.state = std::make_shared<CollectiveState>(engine, "all_reduce", kPatience);
    one.state->draft().plan =
        plans_->get({{Collective::all_reduce, DataType::int32, ReduceOp::sum, 0, count, {}}, {}});
    one.state->draft().buffers = {one.data.data()};
    one.state->draft().priority = common() % 3 ? Priority::normal : Priority::high;
    Status s = synchronous ? engine->call(one.state) : engine->submit(one.state, false);
    if (!s) {
      open_.pop_back();  // it was refused, and is never completed
      return s;
    }
    return open_.size() > 8 ? finish() : Status();
  }
  Status finish() {
    const int n = engine->mesh().size;
    Status result;
    for (Sum& one : open_) {
      if (Status s = one.state->wait(std::chrono::milliseconds(0)); !s)
        result = std::move(s);
      else
        for (const int32_t x : one.data) EXPECT_EQ(x, n * (n + 1) / 2);
    }
    open_.clear();
    return result;
  }

  std::shared_ptr<const Plan> plan_of_one() {
    return plans_->get({{Collective::all_reduce, DataType::int32, ReduceOp::sum, 0, 1, {}}, {}});
  }

  std::shared_ptr<ProgressEngine> engine;

 private:
  struct Sum {
    std::vector<int32_t> data;
    std::shared_ptr<CollectiveState> state;
  };
  const std::shared_ptr<GroupPlanner> plans_;
  std::list<Sum> open_;

 public:
  const std::shared_ptr<NotingPlanner> planner;
};

}  // namespace ringwood::testing
