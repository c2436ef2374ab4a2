// Memory that peers map, and zero-copy messages.
#include "transports/memory/arena.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <random>

#include "tests/shm/shm_pair.h"

namespace ringwood {
namespace {

constexpr size_t kBytes = 64 << 10;

// A block of this process's arena.
class Block {
 public:
  explicit Block(size_t bytes)
      : data_(static_cast<std::byte*>(Arena::of_process()->allocate(bytes))) {}
  ~Block() { Arena::of_process()->release(data_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* const data_;
};

TEST(Arena, HandsOutDisjointBlocksUntilTheyAreGivenBack) {
  Arena& arena = *Arena::of_process();
  std::mt19937 random(7);
  std::map<std::byte*, size_t> live;
  for (int i = 0; i < 3000; ++i) {
    if (live.size() < 40 && random() % 2 == 0) {
      const size_t bytes = 1 + random() % (random() % 8 == 0 ? 5 << 20 : 20000);
      auto* block = static_cast<std::byte*>(arena.allocate(bytes));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % (bytes >= 2 << 20 ? 2 << 20 : 4096), 0u);
      EXPECT_TRUE(arena.offset_of(block, bytes));
      const auto after = live.lower_bound(block);
      if (after != live.end()) {
        ASSERT_GE(after->first, block + bytes);
      }
      if (after != live.begin()) {
        ASSERT_LE(std::prev(after)->first + std::prev(after)->second, block);
      }
      block[0] = block[bytes - 1] = std::byte{1};
      live[block] = bytes;
    } else if (!live.empty()) {
      auto victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
      arena.release(victim->first);
      live.erase(victim);
    }
  }
  for (const auto& [block, bytes] : live) arena.release(block);
  // What was given back is one piece again.
  const Block all(size_t{200} << 20);
  EXPECT_EQ(arena.offset_of(all.data(), 1).value(), 0u);
}

TEST(Arena, KnowsOnlyWhatLiesWhollyInside) {
  const Arena& arena = *Arena::of_process();
  const Block block(kBytes);
  int elsewhere = 0;
  EXPECT_FALSE(arena.offset_of(&elsewhere, 4));
  EXPECT_FALSE(arena.offset_of(nullptr, 1));
  EXPECT_FALSE(arena.offset_of(block.data(), arena.bytes() + 1));
  EXPECT_EQ(arena.offset_of(block.data() + 5, 7).value(),
            arena.offset_of(block.data(), 1).value() + 5);
}

TEST(Arena, RefusesWhatDoesNotFitAndStaysUsable) {
  Arena& arena = *Arena::of_process();
  EXPECT_THROW(arena.allocate(arena.bytes() + 1), Error);
  EXPECT_THROW(arena.allocate(~size_t{0}), Error);
  const Block block(kBytes);
  std::memset(block.data(), 1, kBytes);
}

TEST(Arena, NeverReusesWhatIsInQuarantine) {
  Arena& arena = *Arena::of_process();
  void* block = arena.allocate(kBytes);
  arena.quarantine(static_cast<std::byte*>(block) + 100);
  arena.release(block);
  for (int i = 0; i < 10; ++i) {
    const Block other(kBytes);
    EXPECT_NE(other.data(), block);
  }
}

// The parent's pages are kept out of a child: it can neither see nor change them.
TEST(Arena, IsNotInAForkedChild) {
  const Block block(kBytes);
  block.data()[0] = std::byte{42};
  const auto run = [&](auto body) {
    const pid_t child = ::fork();
    if (child == 0) {
      body();
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
  };
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const int touched = run([&] { block.data()[0] = std::byte{1}; });
  EXPECT_TRUE(WIFSIGNALED(touched) && WTERMSIG(touched) == SIGSEGV);
#endif
  const int own = run([&] {
    const Block mine(kBytes);
    if (mine.data()[0] != std::byte{0}) ::_exit(1);
    std::memset(mine.data(), 7, kBytes);
  });
  EXPECT_EQ(own, 0);
  EXPECT_EQ(block.data()[0], std::byte{42});
}

// As with ordinary memory: what was there at the fork, and nothing that happens later.
TEST(Arena, GivesCopiesToForksWhereItIsTold) {
  const pid_t parent = ::fork();  // what is told stays true, so not in this process
  if (parent == 0) {
    Arena& arena = *Arena::of_process();
    arena.give_copies_to_forks();
    arena.give_copies_to_forks();
    const Block small(100), large(size_t{3} << 20);
    std::memset(small.data(), 1, 100);
    std::memset(large.data(), 2, size_t{3} << 20);
    int go[2];
    if (::pipe(go) != 0) ::_exit(3);
    const pid_t child = ::fork();
    if (child == 0) {
      char byte;
      bool right = ::read(go[0], &byte, 1) == 1;  // the parent has changed its own by now
      right = right && small.data()[99] == std::byte{1};
      right = right && large.data()[(3 << 20) - 1] == std::byte{2};
      std::memset(large.data(), 9, size_t{3} << 20);
      const Block own(100);
      right = right && own.data() != small.data() && own.data()[0] == std::byte{0};
      ::_exit(right ? 0 : 1);
    }
    std::memset(small.data(), 5, 100);
    std::memset(large.data(), 6, size_t{3} << 20);
    int status = 1;
    const bool told = ::write(go[1], "x", 1) == 1 && ::waitpid(child, &status, 0) == child;
    const bool kept = large.data()[0] == std::byte{6} && small.data()[0] == std::byte{5};
    ::_exit(told && status == 0 && kept ? 0 : 2);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  EXPECT_EQ(status, 0);
}

TEST(ZeroCopy, MessagesAreReadWhereTheyLie) {
  Pair pair;
  const Block out(kBytes);
  const auto data = Pattern(0, 1, 0, 0).make(kBytes);
  std::memcpy(out.data(), data.data(), kBytes);
  ASSERT_TRUE(pair.link(1).post_incoming(kBytes));
  ASSERT_TRUE(pair.link(0).post_send(out.data(), kBytes));
  const std::span<const std::byte> seen = pair.link(1).incoming();
  ASSERT_EQ(seen.size(), kBytes);  // in one piece, for nothing was copied
  out.data()[3] = std::byte{0x5A};
  EXPECT_EQ(seen[3], std::byte{0x5A});
  ASSERT_TRUE(pair.poll(0));
  EXPECT_EQ(pair.now[0].sent, 0u);  // the reader still reads
  pair.link(1).consume(kBytes);
  ASSERT_TRUE(pair.poll(0));
  EXPECT_EQ(pair.now[0].sent, 1u);
}

// Zero-copy, staged and small messages keep their order; what follows a zero-copy one does not
// wait for it.
TEST(ZeroCopy, MessagesKeepTheirPlaceInTheRow) {
  Pair pair;
  std::mt19937 random(3);
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::vector<std::byte>> privates, arrived;
  std::vector<size_t> sizes;
  for (int k = 0; k < 200; ++k) {
    const size_t bytes = 1 + random() % (k % 3 == 0 ? 40 : 30000);
    const auto data = Pattern(0, 1, 0, static_cast<uint64_t>(k)).make(bytes);
    sizes.push_back(bytes);
    arrived.emplace_back(bytes);
    if (k % 2 == 0) {
      blocks.push_back(std::make_unique<Block>(bytes));
      std::memcpy(blocks.back()->data(), data.data(), bytes);
      ASSERT_TRUE(pair.link(0).post_send(blocks.back()->data(), bytes));
    } else {
      privates.push_back(data);
      ASSERT_TRUE(pair.link(0).post_send(privates.back().data(), bytes));
    }
  }
  for (int k = 0; k < 200; ++k) ASSERT_TRUE(pair.link(1).post_recv(arrived[k].data(), sizes[k]));
  for (int i = 0; i < 10000 && pair.now[0].sent < 200; ++i) {
    ASSERT_TRUE(pair.poll(0));
    ASSERT_TRUE(pair.poll(1));
  }
  EXPECT_EQ(pair.now[0].sent, 200u);
  EXPECT_EQ(pair.now[1].received, 200u);
  for (uint64_t k = 0; k < 200; ++k)
    EXPECT_EQ(Pattern(0, 1, 0, k).compare(arrived[k].data(), sizes[k]), sizes[k]) << k;
}

TEST(ZeroCopy, APutIsWrittenWhereItIsAwaited) {
  Pair pair;
  const Block offered(kBytes);
  std::memset(offered.data(), 1, kBytes);
  ASSERT_TRUE(pair.link(1).post_incoming(kBytes));
  ASSERT_TRUE(pair.link(0).post_exposed(offered.data(), kBytes, 0));
  ASSERT_EQ(pair.link(1).incoming().size(), kBytes);
  EXPECT_EQ(pair.link(1).put_place(1), nullptr);  // another message than the awaited one
  std::byte* place = pair.link(1).put_place(0);
  ASSERT_NE(place, nullptr);
  ASSERT_TRUE(pair.link(1).begin_put());
  std::memset(place, 2, kBytes);
  pair.link(1).end_put();
  pair.link(1).consume(kBytes);
  ASSERT_TRUE(pair.link(1).post_put(kBytes));
  ASSERT_TRUE(pair.poll(0));
  EXPECT_EQ(pair.now[0].sent, 1u);
  ASSERT_TRUE(pair.link(0).post_recv(offered.data(), kBytes));
  ASSERT_TRUE(pair.poll(0));
  EXPECT_EQ(pair.now[0].received, 1u);
  EXPECT_EQ(offered.data()[kBytes - 1], std::byte{2});
}

TEST(ZeroCopy, AMessageMayComeInsteadOfAPut) {
  Pair pair;
  const Block offered(kBytes);
  ASSERT_TRUE(pair.link(1).post_incoming(kBytes));
  ASSERT_TRUE(pair.link(0).post_exposed(offered.data(), kBytes, 0));
  pair.link(1).consume(pair.link(1).incoming().size());
  const auto answer = Pattern(1, 0, 0, 0).make(kBytes);
  ASSERT_TRUE(pair.link(1).post_send(answer.data(), kBytes));
  ASSERT_TRUE(pair.poll(0));
  ASSERT_TRUE(pair.link(0).post_recv(offered.data(), kBytes));
  ASSERT_TRUE(pair.poll(0));
  EXPECT_EQ(pair.now[0].received, 1u);
  EXPECT_EQ(Pattern(1, 0, 0, 0).compare(offered.data(), kBytes), kBytes);
}

// What was read of memory that has been taken back may be anything: it must not count.
TEST(ZeroCopy, MessagesThatAreTakenBackAreAnError) {
  Pair pair;
  const Block out(kBytes);
  ASSERT_TRUE(pair.link(1).post_incoming(kBytes));
  ASSERT_TRUE(pair.link(0).post_send(out.data(), kBytes));
  ASSERT_EQ(pair.link(1).incoming().size(), kBytes);
  pair.link(0).abort();
  pair.link(1).consume(kBytes);
  const Status s = pair.poll(1);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, ErrorCode::peer_lost);
  EXPECT_EQ(s.error().peer, 0);
  EXPECT_EQ(pair.now[1].received, 0u);
}

TEST(ZeroCopy, NothingIsPutWhereItHasBeenTakenBack) {
  Pair pair;
  const Block offered(kBytes);
  ASSERT_TRUE(pair.link(1).post_incoming(kBytes));
  ASSERT_TRUE(pair.link(0).post_exposed(offered.data(), kBytes, 0));
  ASSERT_NE(pair.link(1).put_place(0), nullptr);
  pair.link(0).abort();
  EXPECT_FALSE(pair.link(1).begin_put());
  const Status s = pair.poll(1);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, ErrorCode::peer_lost);
}

// Begins a put, aborts the sender's end, and ends the put, or not. Returns whether abort() waited
// for that end, and the memory is used again; where it did not wait, its patience was over, and the
// memory must not be.
bool abort_waits_for_a_put(bool ends) {
  Pair pair;
  auto* offered = static_cast<std::byte*>(Arena::of_process()->allocate(kBytes));
  EXPECT_TRUE(pair.link(1).post_incoming(kBytes));
  EXPECT_TRUE(pair.link(0).post_exposed(offered, kBytes, 0));
  EXPECT_NE(pair.link(1).put_place(0), nullptr);
  EXPECT_TRUE(pair.link(1).begin_put());
  std::atomic<bool> ending{false};
  bool waited = false;
  std::thread aborter([&] {
    pair.link(0).abort();
    waited = ending;
  });
  if (ends) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // for it to go wrong
    ending = true;
    pair.link(1).end_put();
  }
  aborter.join();
  Arena::of_process()->release(offered);
  void* again = Arena::of_process()->allocate(kBytes);
  if (!waited) EXPECT_NE(again, offered);
  Arena::of_process()->release(again);
  return waited && again == offered;
}

// abort() promises that the memory is touched no more: it waits for a peer that is writing to it.
TEST(ZeroCopy, AnAbortWaitsForThePutThatIsBeingWritten) {
  int tries = 0;
  while (tries < 20 && !abort_waits_for_a_put(true)) ++tries;
  EXPECT_LT(tries, 20);
}

// A peer that stands still in the middle of it keeps the memory, for good.
TEST(ZeroCopy, AnAbortGivesUpMemoryToWhichAPeerNeverEndsToWrite) {
  EXPECT_FALSE(abort_waits_for_a_put(false));
}

}  // namespace
}  // namespace ringwood
