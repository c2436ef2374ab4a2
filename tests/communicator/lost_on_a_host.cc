// A rank dies after rank 0, and the control connection with it, has left in good order. Then only
// the links can tell who waits for it; who does not wait for it goes on.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"
#include "transports/bootstrap/store.h"

namespace ringwood::testing {
namespace {

constexpr int kWaiter = 1, kVictim = 2, kOther = 3;

using Part = std::function<void(Communicator&, const Reporter&)>;

// Ranks as processes. Rank 0 leaves when it is told to; the others do their part.
class Host {
 public:
  Host(int n, const std::string& transport, const Part& part)
      : ranks(n, [&, n](int rank, const Reporter& reporter) {
          auto group = Communicator::create(file_store(place_.path()), rank, n,
                                            options_for(transport, rank));
          must(group->barrier());
          reporter.say("ready");
          if (rank != 0) return part(*group, reporter);
          reporter.await_go();
          must(group->shutdown());
          group.reset();
          reporter.say("left");
        }) {
    for (int rank = 0; rank < n; ++rank) EXPECT_EQ(ranks.line(rank), "ready") << ranks.log_of(rank);
  }
  void rank_0_leaves() {
    ranks.go(0);
    EXPECT_EQ(ranks.line(0), "left") << ranks.log_of(0);
    EXPECT_EQ(ranks.wait(0), 0);
  }
  void kill_victim() {
    ranks.signal(kVictim, SIGKILL);
    ranks.wait(kVictim);
  }

 private:
  TemporaryPath place_;

 public:
  Processes ranks;
};

void expect_names_the_victim(const std::string& heard) {
  EXPECT_PRED2(contains, heard, fmt::format("peer {}", kVictim));
  EXPECT_FALSE(contains(heard, "(timeout)")) << heard;
}

std::string words(const Status& s) { return s ? "ok" : s.error().message(); }

void receive(Communicator& group, const Reporter& reporter, int from, int tag) {
  int got = 0;
  auto op = group.recv(&got, 1, DataType::int32, from, static_cast<uint64_t>(tag));
  reporter.say("waits");
  const Status s = op->wait();
  reporter.say(s ? fmt::format("got {}", got) : words(s));
}

void give(Communicator& group, int value, int to, int tag) {
  must(group.send(&value, 1, DataType::int32, to, static_cast<uint64_t>(tag)));
}

class LostOnAHost : public OnTransport {
 protected:
  void SetUp() override {
    OnTransport::SetUp();
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the thread sanitizer does not follow the fork of a process with threads";
#endif
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, LostOnAHost, ::testing::ValuesIn(between_processes()),
                         [](const auto& info) { return info.param; });

TEST_P(LostOnAHost, WhoWaitsForItHears) {
  Host host(3, GetParam(), [](Communicator& group, const Reporter& reporter) {
    reporter.await_go();
    receive(group, reporter, kVictim, 7);
  });
  host.rank_0_leaves();
  host.ranks.go(kWaiter);
  ASSERT_EQ(host.ranks.line(kWaiter), "waits");
  host.kill_victim();
  expect_names_the_victim(host.ranks.line(kWaiter));
}

// As a worker that loads data: it inherits whatever the rank holds, and outlives it.
TEST_P(LostOnAHost, AChildThatLivesOnHidesNothing) {
  Host host(3, GetParam(), [](Communicator& group, const Reporter& reporter) {
    if (group.rank() == kVictim && fork() != 0) {
      reporter.say("forked");
      for (;;) pause();
    }
    reporter.await_go();  // the child's: until the test ends
    receive(group, reporter, kVictim, 7);
  });
  EXPECT_EQ(host.ranks.line(kVictim), "forked");
  host.rank_0_leaves();
  host.ranks.go(kWaiter);
  ASSERT_EQ(host.ranks.line(kWaiter), "waits");
  host.kill_victim();
  expect_names_the_victim(host.ranks.line(kWaiter));
}

TEST_P(LostOnAHost, WhoWaitsForAnotherGoesOn) {
  Host host(4, GetParam(), [](Communicator& group, const Reporter& reporter) {
    reporter.await_go();
    if (group.rank() == kOther) return give(group, 33, kWaiter, 7);
    receive(group, reporter, kOther, 7);
    reporter.say(words(group.health()));
  });
  host.rank_0_leaves();
  host.ranks.go(kWaiter);
  ASSERT_EQ(host.ranks.line(kWaiter), "waits");
  host.kill_victim();
  host.ranks.go(kOther);
  EXPECT_EQ(host.ranks.line(kWaiter), "got 33");
  EXPECT_EQ(host.ranks.line(kWaiter), "ok");
}

// It is killed, or leaves in good order.
class SentBefore : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the thread sanitizer does not follow the fork of a process with threads";
#endif
  }
};
INSTANTIATE_TEST_SUITE_P(Ends, SentBefore, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "killed" : "left"; });

TEST_P(SentBefore, ArrivesAndOnlyThenTheError) {
  const bool killed = GetParam();
  const std::string transport = shared_memory_transport().name;
  Host host(3, transport, [](Communicator& group, const Reporter& reporter) {
    if (group.rank() == kVictim) {
      give(group, 21, kWaiter, 1);
      give(group, 22, kWaiter, 2);
      reporter.say("sent");
      return reporter.await_go();
    }
    reporter.await_go();
    receive(group, reporter, kVictim, 2);
    receive(group, reporter, kVictim, 1);
    reporter.say(words(group.health()));
    receive(group, reporter, kVictim, 3);
  });
  EXPECT_EQ(host.ranks.line(kVictim), "sent");
  host.rank_0_leaves();
  if (killed) {
    host.kill_victim();
  } else {
    host.ranks.go(kVictim);
    EXPECT_EQ(host.ranks.wait(kVictim), 0);
  }
  host.ranks.go(kWaiter);
  for (const char* line : {"waits", "got 22", "waits", "got 21", "ok", "waits"})
    EXPECT_EQ(host.ranks.line(kWaiter), line);
  expect_names_the_victim(host.ranks.line(kWaiter));
}

// ---- in a collective

constexpr size_t kBlockBytes = size_t{16} << 20;  // many times a ring

[[noreturn]] void stay(int) {
  for (;;) pause();
}

// Memory whose second half cannot be read: who sends it gets stuck in the middle.
void* half_a_block() {
  void* const block =
      mmap(nullptr, kBlockBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* const half = static_cast<char*>(block) + kBlockBytes / 2;
  if (block == MAP_FAILED || mprotect(half, kBlockBytes / 2, PROT_NONE) != 0)
    throw std::runtime_error("no memory");
  struct sigaction action {};
  action.sa_handler = stay;
  sigaction(SIGSEGV, &action, nullptr);
  return block;
}

// Rank 0 has given its small block, and has left, while the victim cannot end its own.
TEST(LostInACollective, WhoNeedsItHears) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer looks at the memory first";
#endif
  const auto gather = [](Communicator& group) {
    static std::vector<char> all(2 + kBlockBytes);
    const int rank = group.rank();
    std::vector<Block> blocks;
    if (rank == kWaiter) blocks = {{&all[0], 1}, {&all[1], 1}, {&all[2], kBlockBytes}};
    const ConstBlock own = rank == kVictim ? ConstBlock{half_a_block(), kBlockBytes}
                                           : ConstBlock{&all[static_cast<size_t>(rank)], 1};
    CallOptions call;
    call.uneven = true;
    return group.gather(own, blocks, DataType::int8, kWaiter, call)->wait();
  };
  TemporaryPath place;
  Processes ranks(3, [&](int rank, const Reporter& reporter) {
    auto group = Communicator::create(file_store(place.path()), rank, 3,
                                      options_for(shared_memory_transport().name, rank));
    must(group->barrier());
    const Status s = gather(*group);
    if (rank == 0) {
      must(s);
      must(group->shutdown());
    }
    group.reset();
    reporter.say(words(s));
  });
  EXPECT_EQ(ranks.line(0), "ok") << ranks.log_of(0);
  EXPECT_EQ(ranks.wait(0), 0);
  ranks.signal(kVictim, SIGKILL);
  ranks.wait(kVictim);
  expect_names_the_victim(ranks.line(kWaiter));
}

}  // namespace
}  // namespace ringwood::testing
