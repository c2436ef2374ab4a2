// Calls that the calling thread carries out alone, past the queue, have the life of all others:
// callbacks, a shutdown in the midst of them, an interrupt check that throws.
#include <atomic>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

class Alone : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(Transports, Alone, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

// Another thread has the handle of a persistent operation while it runs.
TEST_P(Alone, CallbacksOfOtherThreadsAreCalled) {
  std::latch begun(1), added(1);
  run_ranks(2, GetParam(), [&](Communicator& c) {
    float x = 1;
    CallOptions how;
    how.persistent = how.synchronous = true;
    const auto op = c.all_reduce(&x, 1, DataType::float32, ReduceOp::sum, how);
    must(c.barrier());
    if (c.rank() == 1) {
      begun.wait();
      added.wait();  // rank 0 cannot have ended
      must(op->start());
      return;
    }
    std::atomic<int> called{0};
    std::thread other([&] {
      while (op->done()) std::this_thread::yield();
      begun.count_down();
      op->on_done([&](const Error* error) { called += error ? 100 : 1; });
      added.count_down();
    });
    must(op->start());
    other.join();
    EXPECT_EQ(called, 1);
    EXPECT_EQ(x, 2);
  });
}

// A message ends while rank 0 carries out a call alone; its callback leaves the group.
TEST_P(Alone, ACallbackMayShutDown) {
  std::latch begun(1), posted(1);
  run_ranks(2, GetParam(), [&](Communicator& c) {
    float in = 0, out = 5;
    CallOptions now;
    now.synchronous = true;
    std::atomic<bool> ended{false};
    if (c.rank() == 0) {
      std::thread other([&] {
        begun.wait();
        // Usually the call is under way by then, as it has to be for this to show anything.
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        auto message = c.recv(&in, 1, DataType::float32, 1, 3);
        message->on_done([&](const Error*) {
          (void)c.shutdown(std::chrono::milliseconds(100));
          ended = true;
        });
        posted.count_down();
      });
      begun.count_down();
      (void)c.barrier(now)->wait();
      const auto until = patiently();
      while (!ended && !until.passed()) std::this_thread::yield();
      EXPECT_TRUE(ended);
      other.join();
      return;
    }
    posted.wait();
    (void)c.send(&out, 1, DataType::float32, 0, 3)->wait();
    (void)c.barrier(now)->wait();
  });
}

TEST_P(Alone, AnInterruptCheckThatThrowsEndsTheGroup) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    CallOptions now;
    now.synchronous = true;
    if (c.rank() == 0)
      c.set_interrupt_check([]() -> std::string { throw std::runtime_error("interrupted badly"); });
    if (c.rank() == 1) {
      const auto until = patiently();
      while (c.health() && !until.passed()) std::this_thread::yield();
    }
    for (int i = 0; i < 2; ++i) {  // the second finds nothing taken
      const Status s = c.barrier(now)->wait();
      ASSERT_FALSE(s.ok());
      EXPECT_NE(s.error().message().find("interrupted badly"), std::string::npos)
          << s.error().message();
    }
  });
}

}  // namespace
}  // namespace ringwood::testing
