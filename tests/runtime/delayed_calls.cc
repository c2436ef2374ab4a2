// Epochs: all ranks plan the same operations by the same parameters, whatever the order of
// messages and calls; and what a call does that a change delays.
#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "collectives/epochs/epochs.h"
#include "collectives/planner/group_planner.h"
#include "collectives/runtime/progress_engine.h"
#include "collectives/tuner/machine/machine_model.h"
#include "collectives/tuner/model_tuner.h"
#include "tests/support/ranks.h"
#include "tests/support/seeds.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

// ---- the numbers --------------------------------------------------------------------------------

struct Said {
  enum class What { prepare, commit, abandon } what;
  uint32_t epoch = 0;
  uint64_t from = 0;
};

struct Rank {
  Epochs epochs;
  std::vector<uint32_t> planned;  // by number: the epoch
  std::deque<Said> heard;         // by rank 0, in order

  uint64_t next() const { return planned.size(); }
  // False: delayed.
  bool submit() {
    if (!epochs.open(next())) return false;
    const uint32_t before = planned.empty() ? 0 : planned.back();
    if (!epochs.admit(next(), before)) {
      EXPECT_NE(epochs.enter(next()), before);
      EXPECT_TRUE(epochs.admit(next(), epochs.current()));
    }
    planned.push_back(epochs.current());
    return true;
  }
};

// Rank 0's part: changes one after the other, some of which it gives up.
class Changes {
 public:
  Changes(std::vector<Rank>& ranks, std::mt19937_64& random) : ranks_(ranks), random_(random) {}

  void begin() {
    if (asked_ > 0) return;
    ++epoch_;
    from_ = 0;
    asked_ = ranks_.size();
    tell({Said::What::prepare, epoch_});
  }
  void give_up() {
    if (asked_ == 0) return;
    asked_ = 0;
    tell({Said::What::abandon, epoch_});
  }
  // The rank hears the next message, and answers.
  void deliver(Rank& rank) {
    if (rank.heard.empty()) return;
    const Said said = rank.heard.front();
    rank.heard.pop_front();
    if (said.what != Said::What::prepare) {
      const bool commits = said.what == Said::What::commit;
      EXPECT_TRUE(commits ? rank.epochs.commit(said.epoch, said.from)
                          : rank.epochs.abandon(said.epoch));
      return;
    }
    const uint64_t first = rank.epochs.prepare(said.epoch, rank.next(), random_() % 20);
    EXPECT_GE(first, rank.next());
    if (asked_ == 0 || said.epoch != epoch_) return;  // too late
    from_ = std::max(from_, first);
    if (--asked_ == 0) tell({Said::What::commit, epoch_, from_});
  }
  uint32_t epoch() const { return epoch_; }

 private:
  void tell(const Said& said) {
    for (Rank& rank : ranks_) rank.heard.push_back(said);
  }

  std::vector<Rank>& ranks_;
  std::mt19937_64& random_;
  uint32_t epoch_ = 0;
  uint64_t from_ = 0;
  size_t asked_ = 0;  // ranks that have not answered; 0: no change is under way
};

TEST(Epochs, AllRanksPlanEveryOperationAlike) {
  for_seeds(500, [](uint64_t seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<Rank> ranks(2 + random() % 7);
    std::vector<unsigned> speed;
    for (size_t r = 0; r < ranks.size(); ++r) speed.push_back(1 + random() % 10);
    Changes changes(ranks, random);
    for (int step = 0; step < 5000; ++step) {
      const size_t r = random() % ranks.size();
      // A rank is at most so far ahead of another, as in flight.
      const auto least = std::ranges::min_element(ranks, {}, &Rank::next)->next();
      if (random() % 10 < speed[r] && ranks[r].next() < least + 100) ranks[r].submit();
      if (random() % 20 == 0) changes.deliver(ranks[random() % ranks.size()]);
      if (random() % 300 == 0) changes.begin();
      if (random() % 1000 == 0) changes.give_up();
    }
    changes.give_up();
    for (Rank& rank : ranks)
      while (!rank.heard.empty()) changes.deliver(rank);
    const uint64_t end = std::ranges::max_element(ranks, {}, &Rank::next)->next() + 200;
    for (Rank& rank : ranks)
      while (rank.next() < end) ASSERT_TRUE(rank.submit());
    for (const Rank& rank : ranks) EXPECT_EQ(rank.planned, ranks[0].planned);
    EXPECT_GT(changes.epoch(), 0u);
    EXPECT_TRUE(std::ranges::is_sorted(ranks[0].planned));
  });
}

TEST(Epochs, RefuseWhatWasNotPrepared) {
  Epochs epochs;
  EXPECT_FALSE(epochs.commit(1, 10));
  EXPECT_FALSE(epochs.abandon(0));
  EXPECT_EQ(epochs.prepare(1, 5, 3), 8u);
  EXPECT_FALSE(epochs.commit(2, 10));
  EXPECT_FALSE(epochs.commit(1, 7)) << "it may have been submitted";
  EXPECT_FALSE(epochs.open(8));
  EXPECT_TRUE(epochs.commit(1, 8));
  EXPECT_FALSE(epochs.commit(1, 8)) << "twice";
  EXPECT_TRUE(epochs.open(8));
}

// ---- delayed ------------------------------------------------------------------------------------

// When rank 1 answers.
struct Answer {
  Duration late{};                           // after it was asked,
  std::promise<void> allowed{};              // and not before this
  std::chrono::milliseconds heartbeat{250};  // rank 0 waits 4 times as long for it
  std::once_flag once{};
  void allow() {
    std::call_once(once, [this] { allowed.set_value(); });
  }
};

class LatePlanner final : public Planner {
 public:
  LatePlanner(std::shared_ptr<GroupPlanner> plans, int rank, Answer& answer)
      : plans_(std::move(plans)), rank_(rank), answer_(answer) {}
  void prepare(uint32_t epoch, const std::string& parameters) override {
    if (rank_ == 1) {
      std::this_thread::sleep_for(answer_.late);
      answer_.allowed.get_future().wait();
    }
    plans_->prepare(epoch, parameters);
  }
  void abandon(uint32_t epoch) override {
    plans_->abandon(epoch);
    if (rank_ == 0) answer_.allow();
  }
  std::shared_ptr<const Plan> plan_again(const Plan& plan, uint32_t epoch) override {
    return plans_->plan_again(plan, epoch);
  }
  TunerInUse in_use() const override { return {}; }

 private:
  const std::shared_ptr<GroupPlanner> plans_;
  const int rank_;
  Answer& answer_;
};

Options late_options(int rank, const Answer& answer) {
  Options options = options_for("tcp", rank);
  options.heartbeat = answer.heartbeat;
  return options;
}

class LateRank {
 public:
  LateRank(std::shared_ptr<Store> store, int rank, int n, Answer& answer)
      : engine(ProgressEngine::create(std::move(store), rank, n, late_options(rank, answer))),
        plans_(std::make_shared<GroupPlanner>(
            rank, n, std::make_shared<ModelTuner>(MachineModel{}, Options{}))) {
    engine->use(std::make_shared<LatePlanner>(plans_, rank, answer));
  }
  ~LateRank() { (void)engine->shutdown(std::chrono::seconds(10)); }
  // The epoch of the sum.
  Result<uint32_t> sum(Duration timeout, bool synchronous) {
    int32_t x = engine->mesh().rank + 1;
    auto state = std::make_shared<CollectiveState>(engine, "all_reduce", timeout);
    state->draft().plan =
        plans_->get({{Collective::all_reduce, DataType::int32, ReduceOp::sum, 0, 1, {}}, {}});
    state->draft().buffers = {&x};
    Status s = synchronous ? engine->call(state) : engine->submit(state, false);
    if (s) s = state->wait(std::chrono::milliseconds(0));
    if (!s) return s.error();
    const int n = engine->mesh().size;
    EXPECT_EQ(x, n * (n + 1) / 2);
    return state->call().plan->epoch;
  }

  std::shared_ptr<ProgressEngine> engine;

 private:
  const std::shared_ptr<GroupPlanner> plans_;
};

constexpr Duration kLong = kPatience;

// Both ranks call, and the change begins. Where it is not abandoned before, rank 1 may answer when
// the body of rank 0 has ended.
void with_late_answer(Answer& answer, const std::function<void(LateRank&)>& body) {
  auto store = memory_store();
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      LateRank rank(store, r, 2, answer);
      EXPECT_TRUE(rank.sum(kLong, true).ok());
      if (r == 0) rank.engine->mesh().control->propose({print(MachineModel{}), "nothing"});
      body(rank);
      if (r == 0) answer.allow();
    });
  for (auto& thread : threads) thread.join();
}

class DelayedCalls : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Calls, DelayedCalls, ::testing::Bool(), [](const auto& info) {
  return info.param ? "synchronous" : "asynchronous";
});

TEST_P(DelayedCalls, GoesOnInTheNewEpoch) {
  std::atomic<uint64_t> from[2] = {};
  Answer answer{.late = std::chrono::milliseconds(300), .heartbeat = kUnhurried};
  answer.allow();
  with_late_answer(answer, [&](LateRank& rank) {
    for (uint64_t calls = 1;; ++calls) {
      auto epoch = rank.sum(kLong, GetParam());
      ASSERT_TRUE(epoch.ok()) << epoch.error().message();
      if (*epoch == 0) continue;
      from[rank.engine->mesh().rank] = calls;
      return;
    }
  });
  EXPECT_EQ(from[0], from[1]);
  // At most 1,024 after the change was heard of, which takes as long as a control thread takes to
  // wake: 2,900 in all on a quiet machine of 10 us a call. Not delayed, there would be 30,000.
  EXPECT_LE(from[0], 10000u) << "not delayed";
}

TEST_P(DelayedCalls, GoesOnWhereTheChangeIsAbandoned) {
  Answer answer;  // when rank 0 waits no longer
  with_late_answer(answer, [&](LateRank& rank) {
    for (int i = 0; i < 1500; ++i) {
      auto epoch = rank.sum(kLong, GetParam());
      ASSERT_TRUE(epoch.ok()) << epoch.error().message();
      EXPECT_EQ(*epoch, 0u);
    }
  });
}

// 16 s are enough for a deadline of 0.2 s; rank 1 has 1 s to say what it does, and says nothing.
constexpr std::chrono::milliseconds kNotAbandoned{4000};

// The first that does not go on.
Error first_error(LateRank& rank, Duration timeout, bool synchronous) {
  for (int i = 0; i < 100000; ++i)
    if (auto epoch = rank.sum(timeout, synchronous); !epoch.ok()) return epoch.error();
  return {};
}

TEST_P(DelayedCalls, HasADeadline) {
  Answer answer{.heartbeat = kNotAbandoned};
  with_late_answer(answer, [&](LateRank& rank) {
    const Error error = first_error(rank, std::chrono::milliseconds(200), GetParam());
    EXPECT_EQ(error.code, ErrorCode::timeout) << error.message();
  });
}

TEST_P(DelayedCalls, EndsWithTheGroup) {
  Answer answer{.heartbeat = kUnhurried};
  with_late_answer(answer, [&](LateRank& rank) {
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      if (rank.engine->mesh().rank == 0) rank.engine->abort("enough");
    });
    const Error error = first_error(rank, kLong, GetParam());
    EXPECT_EQ(error.code, ErrorCode::aborted) << error.message();
    other.join();
  });
}

TEST_P(DelayedCalls, EndsAtShutdown) {
  Answer answer{.heartbeat = kUnhurried};
  with_late_answer(answer, [&](LateRank& rank) {
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      if (rank.engine->mesh().rank == 0)
        (void)rank.engine->shutdown(std::chrono::milliseconds(100));
    });
    const Error error = first_error(rank, kLong, GetParam());
    EXPECT_NE(error.message(), "");
    other.join();
  });
}

}  // namespace
}  // namespace ringwood::testing
