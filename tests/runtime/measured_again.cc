// The network measured again in the middle of a program: every call has the right result, all ranks
// do it at the same operation, and the group ends as ever where one of them gives up meanwhile.
#include <atomic>
#include <barrier>
#include <functional>
#include <list>
#include <memory>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/epochs/epochs.h"
#include "collectives/runtime/plan_cache.h"
#include "collectives/runtime/progress_engine.h"
#include "tests/support/ranks.h"
#include "tests/support/seeds.h"

namespace ringwood::testing {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kMeasurements = 1, kAborts = 2;
#else
constexpr int kMeasurements = 2, kAborts = 6;
#endif

// Notes what was measured, and changes nothing.
class NotingPlanner final : public Planner {
 public:
  explicit NotingPlanner(std::shared_ptr<PlanCache> plans) : plans_(std::move(plans)) {}
  void prepare(uint32_t epoch, const std::string& text) override { plans_->prepare(epoch, text); }
  void abandon(uint32_t epoch) override { plans_->abandon(epoch); }
  std::shared_ptr<const Plan> plan_again(const Plan& plan, uint32_t epoch) override {
    return plans_->plan_again(plan, epoch);
  }
  Proposal weigh(const NetworkParameters& measured) const override {
    EXPECT_GT(measured.nic, 0);
    ++weighed;
    return {};
  }
  mutable std::atomic<int> weighed{0};

 private:
  const std::shared_ptr<PlanCache> plans_;
};

Options options_of(int rank) {
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
      : engine(ProgressEngine::create(std::move(store), rank, n, options_of(rank))),
        plans_(std::make_shared<PlanCache>(rank, n, MachineModel{}, Options{})),
        planner(std::make_shared<NotingPlanner>(plans_)) {
    engine->use(planner);
  }
  ~MeasuringRank() { (void)engine->shutdown(std::chrono::seconds(10)); }

  // Calls with the numbers of a common generator, some of them not waited for at once.
  Status call(std::mt19937_64& common) {
    const size_t count = common() % 4 == 0 ? 40000 : 1;
    const bool synchronous = common() % 2;
    auto& one = open_.emplace_back();
    one.data.assign(count, engine->mesh().rank + 1);
    one.state = std::make_shared<CollectiveState>(engine, "all_reduce", std::chrono::seconds(60));
    one.state->use(plans_->get(
        {Collective::all_reduce, DataType::int32, ReduceOp::sum, 0, count, {}}, "", 0, false));
    one.state->buffers = {one.data.data()};
    one.state->priority = common() % 3 ? Priority::normal : Priority::high;
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
    return plans_->get({Collective::all_reduce, DataType::int32, ReduceOp::sum, 0, 1, {}}, "", 0,
                       false);
  }

  std::shared_ptr<ProgressEngine> engine;

 private:
  struct Sum {
    std::vector<int32_t> data;
    std::shared_ptr<CollectiveState> state;
  };
  const std::shared_ptr<PlanCache> plans_;
  std::list<Sum> open_;

 public:
  const std::shared_ptr<NotingPlanner> planner;
};

void with_ranks(int n, const std::function<void(MeasuringRank&, int)>& body) {
  auto store = memory_store();
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      MeasuringRank rank(store, r, n);
      body(rank, r);
    });
  for (auto& thread : threads) thread.join();
}

class MeasuredAgain : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, MeasuredAgain, ::testing::Values(3, 4, 6));

TEST_P(MeasuredAgain, EveryCallIsRight) {
  for_seeds(1, [&](uint64_t seed) {
    SCOPED_TRACE(seed);
    std::atomic<int> done{0};
    with_ranks(GetParam(), [&](MeasuringRank& rank, int r) {
      std::mt19937_64 common(seed);
      ASSERT_TRUE(rank.call(common)) << "from here on all ranks can change";
      ASSERT_TRUE(rank.finish());
      for (int i = 0; i < kMeasurements; ++i) {
        if (r == 0) rank.engine->mesh().control->propose({std::string(kMeasureAgain), "a test"});
        // All ranks stop at the same call: rank 0 tells them in a sum.
        for (int32_t more = 1; more > 0;) {
          for (int k = 0; k < 20; ++k) {
            const Status s = rank.call(common);
            ASSERT_TRUE(s) << s.error().message();
          }
          const Status s = rank.finish();
          ASSERT_TRUE(s) << s.error().message();
          more = r == 0 && rank.planner->weighed <= i;
          auto state = std::make_shared<CollectiveState>(rank.engine, "all_reduce",
                                                         std::chrono::seconds(60));
          state->use(rank.plan_of_one());
          state->buffers = {&more};
          const Status told = rank.engine->call(state);
          ASSERT_TRUE(told) << told.error().message();
        }
      }
      ++done;
      if (r != 0) EXPECT_EQ(rank.planner->weighed, 0) << "that is rank 0's";
    });
    EXPECT_EQ(done, GetParam());
  });
}

// One rank ends the group before, in or after the measurement: nobody hangs.
TEST_P(MeasuredAgain, AnAbortEndsIt) {
  std::mt19937_64 random(GetParam());
  for (int i = 0; i < kAborts; ++i) {
    const auto pause = std::chrono::microseconds(random() % 100000);
    const int who = static_cast<int>(random() % static_cast<unsigned>(GetParam()));
    std::barrier all_have_called(GetParam());
    with_ranks(GetParam(), [&](MeasuringRank& rank, int r) {
      std::mt19937_64 common(7);
      EXPECT_TRUE(rank.call(common) && rank.finish());
      all_have_called.arrive_and_wait();
      if (r == 0) rank.engine->mesh().control->propose({std::string(kMeasureAgain), "a test"});
      std::thread other([&] {
        std::this_thread::sleep_for(pause);
        if (r == who) rank.engine->abort("enough");
      });
      Status s;
      for (const Deadline limit = Deadline::after(std::chrono::seconds(30)); s && !limit.passed();)
        s = rank.call(common);
      EXPECT_FALSE(s);
      if (!s)  // a rank that hears of the abort late may see its links end first
        EXPECT_TRUE(s.error().code == ErrorCode::aborted || s.error().code == ErrorCode::peer_lost)
            << s.error().message();
      other.join();
      (void)rank.finish();
      all_have_called.arrive_and_wait();  // whoever leaves earlier is lost to the others
    });
  }
}

}  // namespace
}  // namespace ringwood::testing
