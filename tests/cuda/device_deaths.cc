// Processes with memory of devices of which one is killed: the streams of the others go on.
//
// The first file of its program: a process that has used CUDA cannot fork ranks.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cuda/device_program.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "transports/bootstrap/store.h"
#include "transports/cuda/group_devices.h"

namespace ringwood::testing {
namespace {

// Makes calls until one fails, and says what it was told, once its stream is empty again.
void make_calls(const std::string& store, int rank, const Reporter& reporter) {
  (void)driver();
  auto group = Communicator::create(file_store(store), rank, 3, on_double("shm", rank), "test");
  {
    Program program(rank);
    std::byte* const data = program.written(numbers(DataType::int32, 1000, rank));
    std::vector<OperationPtr> calls;
    const auto call = [&] {
      calls.push_back(
          group->all_reduce(data, 1000, DataType::int32, ReduceOp::max, program.call()));
    };
    call();
    if (Status s = calls.back()->wait(); !s) throw std::move(s.error());
    reporter.say("ready");
    reporter.await_go();
    for (int i = 0; i < 100; ++i) call();
    reporter.say("called");
    program.stream.synchronize();
    for (const OperationPtr& made : calls)
      if (Status s = made->wait(); !s) {
        reporter.say(s.error().message());
        break;
      }
  }
  group.reset();
  reporter.say("left: " + left());
}

TEST(DeviceDeaths, StreamsOfTheOthersGoOn) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not follow the fork of a process that has had threads";
#endif
  const TemporaryPath store;
  Processes ranks(3, [&](int rank, const Reporter& r) { make_calls(store.path(), rank, r); });
  for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks.line(rank), "ready") << ranks.log_of(rank);
  // Both wait for the third, which makes no call.
  ranks.go(0);
  ranks.go(1);
  for (const int rank : {0, 1}) ASSERT_EQ(ranks.line(rank), "called") << ranks.log_of(rank);
  ranks.signal(2, SIGKILL);
  for (const int rank : {0, 1}) {
    const std::string told = ranks.line(rank);
    EXPECT_PRED2(contains, told, "rank 2") << ranks.log_of(rank);
    // Where the control connection notices it first, no collective is named.
    EXPECT_PRED2(contains, told, "died") << told;
    EXPECT_EQ(ranks.line(rank), "left: ");
    EXPECT_EQ(ranks.wait(rank), 0);
  }
}

// A group that ends while its call is behind a long kernel waits for it a second at most. The
// stream is free of it then, and what it may still write is not used by what comes after.
void leave_behind_a_kernel(const Reporter& reporter) {
  (void)driver();
  std::atomic<bool> gate{false};
  Program program(0);
  const auto make = [&](const char* name) {
    return Communicator::create(memory_store(), 0, 1, on_double("shm", 0), name);
  };
  const auto bytes = numbers(DataType::int32, 1000, 1);
  std::byte* const data = program.written(bytes);
  std::byte* const copy = program.allocate(bytes.size());
  auto group = make("first");
  program.hold_back(gate);
  const auto call = group->all_gather(data, copy, 1000, DataType::int32, program.call());
  group.reset();
  reporter.say(call->wait() ? "done" : "given up");
  gate = true;
  program.stream.synchronize();
  group = make("second");
  for (int i = 0; i < 50; ++i)
    if (Status s = group->all_gather(data, copy, 1000, DataType::int32, program.call())->wait(); !s)
      reporter.say(s.error().message());
  reporter.say(program.read(copy, bytes.size()) == bytes ? "right" : "wrong");
}

// What a stream has yet to run rings the doorbell of a group that has ended: it stays.
void leave_a_doorbell(const Reporter& reporter) {
  (void)driver();
  const int doorbell = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const auto rings = [&] {
    uint64_t rung = 0;
    return ::read(doorbell, &rung, sizeof rung) == sizeof rung ? rung : 0;
  };
  std::atomic<bool> gate{false};
  Program program(0);
  auto devices = make_group_devices(on_double("shm", 0).cuda, 1, doorbell);
  bool made = bool(devices->ready(0, 0));
  program.hold_back(gate);
  auto entered = devices->enter(0, program.stream.get());
  made = made && entered && devices->hold_back(0, program.stream.get(), *entered);
  devices->abandon(0, *entered);
  devices.reset();
  reporter.say(fmt::format("made {}, {} rings", made, rings()));
  gate = true;
  program.stream.synchronize();
  reporter.say(fmt::format("{} rings", rings()));
  ::close(doorbell);
}

TEST(DeviceDeaths, TheDoorbellStaysWhileAStreamMayRingIt) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not follow the fork of a process that has had threads";
#endif
  Processes ranks(1, [](int, const Reporter& r) { leave_a_doorbell(r); });
  EXPECT_EQ(ranks.line(0), "made true, 0 rings") << ranks.log_of(0);
  EXPECT_EQ(ranks.line(0), "1 rings") << ranks.log_of(0);
  EXPECT_EQ(ranks.wait(0), 0);
}

TEST(DeviceDeaths, AGroupThatEndsBehindAKernelDisturbsNoOther) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not follow the fork of a process that has had threads";
#endif
  Processes ranks(1, [](int, const Reporter& r) { leave_behind_a_kernel(r); });
  EXPECT_EQ(ranks.line(0), "given up") << ranks.log_of(0);
  EXPECT_EQ(ranks.line(0), "right") << ranks.log_of(0);
  EXPECT_EQ(ranks.wait(0), 0);
}

}  // namespace
}  // namespace ringwood::testing
