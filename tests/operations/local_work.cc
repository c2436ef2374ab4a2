// The local work of an operation is done in slices, and small operations of high priority pass
// between them.
#include "collectives/operations/local_work.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/planner/group_planner.h"
#include "collectives/runtime/progress_engine.h"
#include "collectives/tuner/model_tuner.h"
#include "tests/support/ranks.h"

namespace ringwood::testing {
namespace {

constexpr size_t kSlice = LocalWork::kSliceBytes;

// How many steps it takes from there on.
int steps_of(const LocalWork& work, LocalWork::Progress progress = {},
             std::span<void* const> buffers = {}) {
  int steps = 0;
  for (; !work.done(progress); ++steps) work.step(progress, buffers);
  return steps;
}

TEST(LocalWork, CopiesAndScalesInSlices) {
  const size_t count = (2 * kSlice + 100) / sizeof(float);
  std::vector<float> from(count, 3), to(count), scaled(count), here(count, 5);
  void* const buffers[] = {nullptr, here.data()};
  LocalWork work;
  EXPECT_TRUE(work.empty() && work.done({}));
  work.copy(to.data(), from.data(), count * sizeof(float));
  EXPECT_EQ(steps_of(work), 3);
  EXPECT_EQ(to, from);
  work.copy_scaled(scaled.data(), from.data(), count, DataType::float32, 2);
  work.scale(1, count, DataType::float32, 0.5);
  work.copy(nullptr, nullptr, 0);
  EXPECT_EQ(steps_of(work, {.item = 1, .bytes = 0}, buffers), 6) << "what is left";
  EXPECT_EQ(scaled, std::vector<float>(count, 6));
  EXPECT_EQ(here, std::vector<float>(count, 2.5));
  EXPECT_EQ(work.copied_to(), to.data());
  EXPECT_EQ(steps_of(work, {}, buffers), 9) << "as often as one likes";
  work.clear();
  EXPECT_TRUE(work.empty() && work.done({}));
}

TEST(LocalWork, KeepsTheOrder) {
  std::string said;
  char from[] = "abc", to[] = "xyz";
  LocalWork work;
  work.copy(to, from, 3);
  work.call([&] { said += std::string("last ") + to; });
  work.call_first([&] { said += std::string("first ") + to + " "; });
  EXPECT_EQ(steps_of(work), 3);
  EXPECT_EQ(said, "first xyz last abc");
}

TEST(LocalWork, OverlappingPlacesAreCopiedAtOnce) {
  std::vector<char> data(2 * kSlice + 10), expected;
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7);
  expected.assign(data.begin(), data.end() - 10);
  LocalWork work;
  work.copy(data.data() + 10, data.data(), expected.size());
  EXPECT_EQ(steps_of(work), 1);
  EXPECT_EQ(std::memcmp(data.data() + 10, expected.data(), expected.size()), 0);
}

// ---- in the engine ------------------------------------------------------------------------------

class LargeWork : public ::testing::Test {
 protected:
  ~LargeWork() override { (void)engine_->shutdown(std::chrono::seconds(10)); }
  std::shared_ptr<CollectiveState> sum(float* data, Priority priority) {
    auto state = std::make_shared<CollectiveState>(engine_, "all_reduce", kPatience);
    state->draft().plan =
        planner_.get({{Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, 1, {}}, {}});
    state->draft().buffers = {data};
    state->draft().priority = priority;
    return state;
  }
  // The large operation's work: it waits until the small one has been called, copies, and then
  // looks whether the small one is done.
  void add(LocalWork& work) {
    work.call([this] {
      reached_ = true;
      while (!called_) std::this_thread::yield();
    });
    work.copy(to_.data(), from_.data(), from_.size());
    work.call([this] { passed_ = small_->done(); });
  }
  void run(const std::shared_ptr<CollectiveState>& large) {
    ASSERT_TRUE(engine_->submit(large, false));
    while (!reached_) std::this_thread::yield();
    ASSERT_TRUE(engine_->submit(small_, false));
    called_ = true;
    ASSERT_TRUE(large->wait(std::chrono::milliseconds(0)));
    ASSERT_TRUE(small_->wait(std::chrono::milliseconds(0)));
    EXPECT_TRUE(passed_);
    EXPECT_EQ(to_, from_);
  }

  const std::shared_ptr<ProgressEngine> engine_ =
      ProgressEngine::create(nullptr, 0, 1, options_for(0));
  GroupPlanner planner_{0, 1, std::make_shared<ModelTuner>(MachineModel{}, Options{})};
  std::vector<char> from_ = std::vector<char>(8 * kSlice, 1), to_ = std::vector<char>(8 * kSlice);
  std::atomic<bool> reached_{false}, called_{false};
  bool passed_ = false;
  float one_ = 1, other_ = 2;
  std::shared_ptr<CollectiveState> small_ = sum(&other_, Priority::high);
};

TEST_F(LargeWork, LetsASmallCallOfHighPriorityPassAtItsStart) {
  const auto large = sum(&one_, Priority::normal);
  add(large->draft().at_start);
  run(large);
}

TEST_F(LargeWork, LetsASmallCallOfHighPriorityPassAfterTheAgreement) {
  const auto large = sum(&one_, Priority::normal);
  add(large->draft().prepare);
  run(large);
}

TEST_F(LargeWork, LetsASmallCallOfHighPriorityPassAtItsEnd) {
  const auto large = sum(&one_, Priority::normal);
  add(large->draft().finish);
  run(large);
}

}  // namespace
}  // namespace ringwood::testing
