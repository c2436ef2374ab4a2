// The end of a peer's process, as the links of shared memory learn of it from the kernel.
#include "transports/shm/process_ends.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "tests/support/link_processes.h"
#include "tests/support/patience.h"
#include "transports/eager_channel.h"
#include "transports/shm/shm.h"

namespace ringwood {
namespace {

TEST(ProcessEnds, AreToldOnceAndRingTheWaitSet) {
  WaitSet own, other;
  shm::ProcessEnds here(own, 3);
  auto there = std::make_unique<shm::ProcessEnds>(other, 3);
  here.watch(2, there->take_reading_end());
  EXPECT_EQ(here.next(), -1);
  std::thread end([&] { there.reset(); });
  const Deadline limit = testing::patiently();
  int ended = -1;
  while ((ended = here.next()) < 0 && !limit.passed()) own.wait(testing::kPatience);
  end.join();
  EXPECT_EQ(ended, 2);
  EXPECT_FALSE(limit.passed());
  EXPECT_EQ(here.next(), -1);
}

TEST(ProcessEnds, AreToldAlsoOfWhoHadEndedBefore) {
  WaitSet own, other;
  shm::ProcessEnds here(own, 2);
  auto there = std::make_unique<shm::ProcessEnds>(other, 2);
  OwnedFd reading_end = there->take_reading_end();
  there.reset();
  here.watch(1, std::move(reading_end));
  EXPECT_EQ(here.next(), 1);
  EXPECT_EQ(here.next(), -1);
}

// What is no pipe, or nothing, is not watched.
TEST(ProcessEnds, AreNotReadFromWhatIsNoPipe) {
  WaitSet own;
  shm::ProcessEnds here(own, 3);
  here.watch(1, OwnedFd());
  here.watch(2, OwnedFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
  EXPECT_EQ(here.next(), -1);
}

Setting two_processes() {
  Setting setting;
  setting.channels = 1;
  setting.address = [](int) { return ""; };
  return setting;
}

// A child of the victim lives on with everything that it has inherited.
TEST(ProcessEnds, WhatAKilledPeerHadSentArrivesBeforeTheError) {
  constexpr size_t kBytes[] = {40, 100'000};
  Job job(two_processes());
  Signal sent, over;
  Process victim([&] {
    std::unique_ptr<Rank> rank = job.join(1, make_shm);
    if (::fork() == 0) {
      over.await();
      ::_exit(0);
    }
    Link& link = *rank->links[0][0];
    for (uint64_t k = 0; k < std::size(kBytes); ++k) {
      const std::vector<std::byte> data = Pattern(1, 0, 0, k).make(kBytes[k]);
      if (Status s = link.post_send(data.data(), data.size()); !s) throw s.error();
      Completions now;
      while (now.sent <= k)
        if (Status s = link.poll(now); !s) throw s.error();
    }
    sent.give();
    for (;;) ::pause();
    return 0;
  });
  std::unique_ptr<Rank> rank = job.join(0, make_shm);
  Link& link = *rank->links[0][1];
  sent.await();
  victim.kill();
  EXPECT_EQ(victim.wait(), -SIGKILL);
  std::vector<std::byte> small(kBytes[0]), large(kBytes[1]), never(8);
  EXPECT_TRUE(link.post_recv(small.data(), small.size()));
  EXPECT_TRUE(link.post_recv(large.data(), large.size()));
  EXPECT_TRUE(link.post_recv(never.data(), never.size()));
  Completions now;
  Status s;
  const auto quiet = [&] {
    s = link.poll(now);
    return s.ok();
  };
  while (s && rank->sleep(quiet)) continue;
  over.give();
  EXPECT_EQ(now.received, 2u);
  EXPECT_EQ(Pattern(1, 0, 0, 0).compare(small.data(), small.size()), small.size());
  EXPECT_EQ(Pattern(1, 0, 0, 1).compare(large.data(), large.size()), large.size());
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, ErrorCode::peer_lost);
  EXPECT_EQ(s.error().peer, 1);
  EXPECT_EQ(s.error().transport, "shm");
  EXPECT_EQ(s.error().cause, "the peer's process has ended");
  ASSERT_NE(link.eager_channel(), nullptr);
  EXPECT_EQ(link.eager_channel()->end(), kProcessEnded);
}

}  // namespace
}  // namespace ringwood
