// Gates: when a user's stream has come to an operation, and when it goes on.
#include "transports/cuda/gates.h"

#include <gtest/gtest.h>

#include "tests/cuda/device_copies_test.h"
#include "tests/support/errors.h"

namespace ringwood::cuda {
namespace {

using testing::contains;
using testing::patiently;

class GatesTest : public DeviceCopiesTest {};

TEST_F(GatesTest, AnOperationHasComeWhenAllBeforeItInTheStreamIsDone) {
  std::atomic<bool> open{false};
  hold_back(*user, open);
  auto operation = enter(*user);
  ASSERT_TRUE(operation);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // for it to go wrong
  EXPECT_FALSE(copies->has_come(*operation));
  EXPECT_EQ(rings(), 0u);
  open = true;
  uint64_t rung = 0;
  await([&] { return (rung += rings()) == 1; });
  EXPECT_TRUE(copies->has_come(*operation));
  ASSERT_TRUE(copies->end(*operation));
}

TEST_F(GatesTest, AnAbandonedOperationReleasesItsStreamAtOnce) {
  Stream other(*device);
  auto first = enter(*user);
  auto behind = enter(*user);  // which waits for the first
  auto beside = enter(other);
  ASSERT_TRUE(first && behind && beside);
  await_come(*first);
  await_come(*beside);
  EXPECT_FALSE(copies->has_come(*behind));
  ASSERT_TRUE(copies->end(*beside));
  other.synchronize();
  std::thread([&] {
    copies->abandon(*first);
    copies->abandon(*behind);
  }).join();
  user->synchronize();
}

// Not before the copies that were begun: they use what comes after.
TEST_F(GatesTest, AnAbandonedOperationReleasesItsStreamBehindItsCopies) {
  for (const bool out : {true, false}) {
    auto operation = enter(*user);
    ASSERT_TRUE(operation);
    await_come(*operation);
    cuda.pause(true);
    auto copy = out ? copies->copy_out(on_host, at(0), 8) : copies->copy_in(at(0), on_host, 8);
    ASSERT_TRUE(copy);
    copies->abandon(*operation);
    EXPECT_FALSE(user->idle());
    cuda.pause(false);
    user->synchronize();
    EXPECT_TRUE(out ? copies->out_done(*copy) : copies->in_done(*copy));
  }
}

// The stream has yet to write that it has come, of an operation that is no more.
TEST_F(GatesTest, TheWordsOfAnAbandonedOperationAreNotUsedBeforeItsStreamHasCome) {
  std::atomic<bool> open{false};
  hold_back(*user, open);
  auto gone = enter(*user);
  ASSERT_TRUE(gone);
  copies->abandon(*gone);
  Stream other(*device);
  auto next = enter(other);
  ASSERT_TRUE(next);
  await_come(*next);
  open = true;
  user->synchronize();
  EXPECT_TRUE(copies->has_come(*next));
  ASSERT_TRUE(copies->end(*next));
  other.synchronize();
}

TEST_F(GatesTest, WordsAreUsedAgainAndAddedWhereManyOperationsWait) {
  constexpr int kMany = 3000;
  std::vector<Copies::Operation> all;
  for (int i = 0; i < kMany; ++i) {
    auto entered = enter(*user);
    ASSERT_TRUE(entered);
    all.push_back(*entered);
  }
  for (const Copies::Operation operation : all) {
    await_come(operation);
    ASSERT_TRUE(copies->end(operation));
  }
  user->synchronize();
  const size_t bytes = pinned->bytes();
  for (int i = 0; i < kMany; ++i) {
    auto entered = enter(*user);
    ASSERT_TRUE(entered);
    if (i % 3 != 0) await_come(*entered);
    if (i % 3 == 2)
      EXPECT_TRUE(copies->end(*entered));
    else
      copies->abandon(*entered);
    if (i % 100 == 0) user->synchronize();
  }
  user->synchronize();
  EXPECT_EQ(pinned->bytes(), bytes);
}

// Likewise of one that was refused half-way.
TEST_F(GatesTest, TheWordsOfARefusedOperationAreNotUsedBeforeItsStreamHasCome) {
  std::atomic<bool> open{false};
  hold_back(*user, open);
  cuda.fail("cuLaunchHostFunc:1=999");
  EXPECT_FALSE(gates->enter(user->get()));
  cuda.fail("");
  Stream other(*device);
  auto next = enter(other);
  ASSERT_TRUE(next);
  await_come(*next);
  open = true;
  user->synchronize();
  EXPECT_TRUE(copies->has_come(*next));
  ASSERT_TRUE(copies->end(*next));
  other.synchronize();
}

// Of a group's calls: one may end before its stream is held back.
TEST_F(GatesTest, TheWordsOfAnOperationAreNotUsedBeforeItsStreamIsHeldBack) {
  Stream other(*device);
  auto first = gates->enter(user->get());
  ASSERT_TRUE(first);
  await_come(*first);
  ASSERT_TRUE(copies->end(*first));
  EXPECT_TRUE(copies->idle_by(patiently()));
  auto give_back = enter(other);  // so that what has ended is given back
  ASSERT_TRUE(give_back);
  await_come(*give_back);
  ASSERT_TRUE(copies->end(*give_back));
  auto next = enter(other);
  ASSERT_TRUE(next);
  ASSERT_TRUE(gates->hold_back(user->get(), *first));
  await([&] { return user->idle(); });
  await_come(*next);
  ASSERT_TRUE(copies->end(*next));
}

TEST_F(GatesTest, ACapturedStreamIsRefusedAndNotDisturbed) {
  const auto begin =
      cuda.symbol<CUresult (*)(CUstream, CUstreamCaptureMode)>("cuStreamBeginCapture_v2");
  const auto end = cuda.symbol<CUresult (*)(CUstream, void**)>("cuStreamEndCapture");
  {
    const CurrentContext current(*device);
    ASSERT_EQ(begin(user->get(), CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  }
  auto refused = enter(*user);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_PRED2(contains, refused.error().cause, "captured into a CUDA graph");
  const CurrentContext current(*device);
  void* graph = nullptr;
  EXPECT_EQ(end(user->get(), &graph), CUDA_SUCCESS);
}

}  // namespace
}  // namespace ringwood::cuda
