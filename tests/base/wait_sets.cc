// Where links wake a sleeper, and what only the loopback can do.

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/support/link_ranks.h"
#include "transports/link_parts.h"
#include "transports/loopback/loopback.h"

namespace ringwood {
namespace {

std::string show(const Status& status) { return status ? "ok" : status.error().message(); }

// ---- where links wake a sleeper ----------------------------------------------------------------

// Whoever is not woken by what the test does sleeps that long.
constexpr Duration kUnlessWoken = testing::kPatience;

Duration time_of(const std::function<void()>& body) {
  const auto began = Clock::now();
  body();
  return Clock::now() - began;
}

TEST(WaitSets, KeepARingThatCameBeforeTheSleepAndOnlyOnce) {
  WaitSet set;
  const auto sleep = [&](Duration limit) { return time_of([&] { set.wait(limit); }); };
  for (int i = 0; i < 100; ++i) {
    set.ring();
    set.ring();
    EXPECT_LT(sleep(kUnlessWoken), kUnlessWoken);
    EXPECT_GE(sleep(std::chrono::microseconds(200)), std::chrono::microseconds(200));
  }
}

TEST(WaitSets, AreRungThroughCopiesOfTheirDoorbell) {
  WaitSet set;
  const Doorbell bell{OwnedFd(::dup(set.doorbell_fd()))};
  for (int i = 0; i < 200; ++i) {
    std::thread ringer([&] { bell.ring(); });
    EXPECT_LT(time_of([&] { set.wait(kUnlessWoken); }), kUnlessWoken);
    ringer.join();
  }
}

TEST(WaitSets, ReturnAtAnEdgeOfADescriptorUntilItIsRemoved) {
  WaitSet set;
  const int fd = ::eventfd(0, EFD_NONBLOCK);
  set.add(fd, EPOLLIN);
  const auto sleep = [&](Duration limit) { return time_of([&] { set.wait(limit); }); };
  ::eventfd_write(fd, 1);
  EXPECT_LT(sleep(kUnlessWoken), kUnlessWoken);
  EXPECT_GE(sleep(std::chrono::milliseconds(2)), std::chrono::milliseconds(2));
  set.remove(fd);
  ::eventfd_write(fd, 1);
  EXPECT_GE(sleep(std::chrono::milliseconds(2)), std::chrono::milliseconds(2));
  ::close(fd);
  EXPECT_THROW(set.add(fd, EPOLLIN), Error);
}

// ---- what only the loopback can do
// ----------------------------------------------------------------------

TEST(Loopback, SaysWhenSizesDiffer) {
  Ranks two = make_ranks([] { return make_loopback({}); });
  uint64_t value = 0;
  ASSERT_TRUE(two[0].links[0][1]->post_send(&value, 8));
  ASSERT_TRUE(two[1].links[0][0]->post_recv(&value, 4));
  Completions now;
  Status s = two[1].links[0][0]->poll(now);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, ErrorCode::mismatch);
  EXPECT_EQ(s.error().cause, "the peer sent a message of 8 bytes where 4 were expected");
}

TEST(Loopback, CutsWhereItIsTold) {
  for (uint64_t cut : {1, 2, 7}) {
    Ranks two = make_ranks([&] { return make_loopback({.cut_after = cut}); });
    Link &a = *two[0].links[0][1], &b = *two[1].links[0][0];
    uint64_t value = 0;
    Completions at_a, at_b;
    uint64_t received = 0;
    Status status_a, status_b;
    while (status_a && status_b) {
      status_a = a.post_send(&value, 8);
      status_b = b.post_recv(&value, 8);
      if (status_b) status_b = b.poll(at_b);
      if (status_a) status_a = a.poll(at_a);
      received = std::max(received, at_b.received);
    }
    EXPECT_EQ(received, cut);
    if (status_a) status_a = a.poll(at_a);
    if (status_b) status_b = b.poll(at_b);
    ASSERT_FALSE(status_a);
    ASSERT_FALSE(status_b);
    EXPECT_NE(status_b.error().message().find("peer 0 over loopback: connection cut"),
              std::string::npos)
        << show(status_b);
  }
}

}  // namespace
}  // namespace ringwood
