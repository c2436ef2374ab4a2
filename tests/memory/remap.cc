// Private buffers that become shared memory in place, and what their users may do to them.
#include "transports/memory/remap.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

#include "tests/memory/remap_pages.h"

namespace ringwood {
namespace {

using RemappedBuffers = RemapTest;

TEST_F(RemappedBuffers, AreOneWithWhatPeersSeeAndTheirNeighboursAreNot) {
  const Pages pages(40);
  pages.fill(1);
  ASSERT_TRUE(remapped().remap(pages.data(), pages.bytes()));
  EXPECT_TRUE(pages.contains(1));
  std::byte* seen = peers_view(pages.data(), pages.bytes());
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(std::memcmp(seen, pages.data(), pages.bytes()), 0);
  seen[kPage] = std::byte{77};  // by a peer
  EXPECT_EQ(pages.data()[kPage], std::byte{77});
  pages.data()[0] = pages.data()[pages.bytes() - 1] = std::byte{55};  // edges
  seen = peers_view(pages.data(), pages.bytes());
  EXPECT_EQ(seen[0], std::byte{55});
  EXPECT_EQ(seen[pages.bytes() - 1], std::byte{55});
  EXPECT_EQ(peers_view(pages.data() + 5000, 7000), seen + 5000);  // a part
  EXPECT_EQ(peers_view(pages.data() - 1, pages.bytes()), nullptr);
  EXPECT_EQ(peers_view(pages.data(), pages.bytes() + 1), nullptr);
}

struct Refused {
  const char* name;
  std::function<void(const Pages&)> prepare;
};
class Unusual : public RemapTest, public ::testing::WithParamInterface<Refused> {};

INSTANTIATE_TEST_SUITE_P(
    Memory, Unusual,
    ::testing::Values(
        Refused{"locked",  // the sanitizers' mlock() does nothing
                [](const Pages& p) { ASSERT_EQ(::syscall(SYS_mlock, p.base(), kPage * 3), 0); }},
        Refused{"out_of_forks",
                [](const Pages& p) { ::madvise(p.base() + kPage * 9, kPage, MADV_DONTFORK); }},
        Refused{"out_of_dumps",
                [](const Pages& p) { ::madvise(p.base() + kPage * 3, kPage, MADV_DONTDUMP); }},
        Refused{"emptied_in_forks",
                [](const Pages& p) { ::madvise(p.base(), p.all(), MADV_WIPEONFORK); }},
        Refused{"read_only",
                [](const Pages& p) { ::mprotect(p.base() + kPage * 5, kPage, PROT_READ); }},
        Refused{"executable",
                [](const Pages& p) {
                  ::mprotect(p.base(), p.all(), PROT_READ | PROT_WRITE | PROT_EXEC);
                }},
        Refused{"over_a_guard", [](const Pages& p) { ::mprotect(p.base(), kPage, PROT_NONE); }},
        Refused{"with_a_file_inside",
                [](const Pages& p) {
                  const int fd = ::open("/proc/self/exe", O_RDONLY);
                  ::mmap(p.base() + kPage * 7, kPage, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_FIXED, fd, 0);
                  ::close(fd);
                }},
        Refused{"with_shared_memory_inside",
                [](const Pages& p) {
                  ::mmap(p.base() + kPage * 7, kPage, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
                }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(Unusual, IsLeftAlone) {
  const Pages pages(20);
  pages.fill(3);
  GetParam().prepare(pages);
  EXPECT_FALSE(remapped().remap(pages.data(), pages.bytes()));
  EXPECT_EQ(peers_view(pages.data(), pages.bytes()), nullptr);
  EXPECT_EQ(pages.data()[kPage * 12], Pages::value(3, kPage * 12 + 100));
}

TEST_F(RemappedBuffers, AreNeitherStacksNorTooSmall) {
  alignas(kPage) std::byte local[kPage * 8];
  EXPECT_FALSE(remapped().remap(local, sizeof local));
  std::thread([&] {
    alignas(kPage) std::byte of_thread[kPage * 8];
    EXPECT_FALSE(remapped().remap(of_thread, sizeof of_thread));
  }).join();
  const Pages pages(3);
  EXPECT_FALSE(remapped().remap(pages.data() + kPage, kPage));
}

// Whatever becomes of the addresses: a peer sees what the user sees, or nothing.
struct Later {
  const char* name;
  bool exposed;
  std::function<void(std::byte* base, size_t bytes)> happens;
};
class Afterwards : public RemapTest, public ::testing::WithParamInterface<Later> {};

void map_over(std::byte* at, size_t bytes) {
  ASSERT_EQ(
      ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
      at);
}

INSTANTIATE_TEST_SUITE_P(
    Addresses, Afterwards,
    ::testing::Values(
        Later{"nothing", true, [](std::byte*, size_t) {}},
        Later{"unmapped_and_mapped_again", false,
              [](std::byte* base, size_t bytes) {
                ::munmap(base, bytes);
                map_over(base, bytes);
              }},
        Later{"one_page_replaced", false,
              [](std::byte* base, size_t) { map_over(base + 9 * kPage, kPage); }},
        Later{"the_end_replaced", false,
              [](std::byte* base, size_t bytes) { map_over(base + bytes - 3 * kPage, kPage * 3); }},
        Later{"moved_by_a_page", false,
              [](std::byte* base, size_t) {
                void* moved = ::mremap(base + 2 * kPage, 8 * kPage, 8 * kPage,
                                       MREMAP_MAYMOVE | MREMAP_FIXED, base + 12 * kPage);
                ASSERT_NE(moved, MAP_FAILED);
                map_over(base + 2 * kPage, 8 * kPage);
              }},
        Later{"said_to_be_unneeded", true,
              [](std::byte* base, size_t bytes) { ::madvise(base, bytes, MADV_DONTNEED); }},
        Later{"made_read_only", false,
              [](std::byte* base, size_t) { ::mprotect(base + 5 * kPage, kPage, PROT_READ); }},
        Later{
            "advised_in_parts", true,
            [](std::byte* base, size_t) { ::madvise(base + 5 * kPage, kPage, MADV_SEQUENTIAL); }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(Afterwards, PeersSeeWhatTheUserSees) {
  const Pages pages(30);
  pages.fill(5);
  ASSERT_TRUE(remapped().remap(pages.data(), pages.bytes()));
  GetParam().happens(pages.base(), pages.all());
  for (int again = 0; again < 2; ++again) {
    std::byte* seen = peers_view(pages.data(), pages.bytes());
    EXPECT_EQ(seen != nullptr, GetParam().exposed);
    if (seen) {
      EXPECT_EQ(std::memcmp(seen, pages.data(), pages.bytes()), 0);
    }
    remapped().collect();
  }
}

TEST_F(RemappedBuffers, AreGivenBackOnceNobodyHasThem) {
  auto pages = std::make_unique<Pages>(16);
  pages->fill(6);
  ASSERT_TRUE(remapped().remap(pages->data(), pages->bytes()));
  auto exposed = remapped().expose(pages->data(), pages->bytes());
  ASSERT_TRUE(exposed);
  const std::byte* block = Arena::of_process()->at(exposed->offset);
  const auto in_use = [&] { return Arena::of_process()->block_of(block, 1).has_value(); };
  EXPECT_TRUE(in_use());
  // Moved away by its user, it still is its user's.
  void* moved =
      ::mremap(pages->base() + kPage, 14 * kPage, 14 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED,
               ::mmap(nullptr, 14 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(moved, MAP_FAILED);
  remapped().collect();
  EXPECT_TRUE(in_use());
  EXPECT_EQ(static_cast<std::byte*>(moved)[10], Pages::value(6, kPage + 10));
  ::munmap(moved, 14 * kPage);
  remapped().collect();
  EXPECT_TRUE(in_use());  // a peer reads it
  exposed.reset();
  remapped().collect();
  EXPECT_FALSE(in_use());
}

TEST_F(RemappedBuffers, MayOverlap) {
  const Pages pages(64);
  pages.fill(8);
  std::byte* const base = pages.base();
  ASSERT_TRUE(remapped().remap(base + 10, 20 * kPage));
  auto exposed = remapped().expose(base + 10, 20 * kPage);
  ASSERT_TRUE(remapped().remap(base + 10 * kPage, 30 * kPage));
  ASSERT_TRUE(remapped().remap(base + 100, 63 * kPage));
  ASSERT_TRUE(remapped().remap(base + 5 * kPage, 9 * kPage));  // has been by now
  EXPECT_TRUE(pages.contains(8));
  EXPECT_EQ(std::memcmp(Arena::of_process()->at(exposed->offset), base + 10, 20 * kPage), 0);
  std::byte* const seen = peers_view(base + 100, 63 * kPage);
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(std::memcmp(seen, base + 100, 63 * kPage), 0);
}

TEST_F(RemappedBuffers, ThatDoNotLastAreRemappedLessAndLess) {
  static size_t run = 0;  // a buffer of another size is another buffer
  const Pages pages(16 + run++);
  const auto times = [&] {
    for (int n = 1; n <= 100; ++n) {
      remapped().used(pages.data(), pages.bytes());
      if (peers_view(pages.data(), pages.bytes())) return n;
    }
    return 0;
  };
  for (const int expected : {3, 12, 48}) {
    pages.fill(static_cast<unsigned>(expected));
    EXPECT_EQ(times(), expected);
    EXPECT_TRUE(pages.contains(static_cast<unsigned>(expected)));
    map_over(pages.base(), pages.all());
    remapped().collect();
  }
}

TEST_F(RemappedBuffers, StayAsTheyAreWhereTheArenaHasNoRoom) {
  const Pages pages(16);
  pages.fill(2);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit little{8 << 20, 8 << 20};  // an arena of its own, and so small that it can be full
    ::setrlimit(RLIMIT_FSIZE, &little);
    RemappedMemory* mine = RemappedMemory::of_process();
    Arena& arena = *Arena::of_process();
    std::vector<void*> taken;
    for (size_t bytes = arena.bytes(); bytes >= kPage; bytes /= 2) {
      try {
        for (;;) taken.push_back(arena.allocate(bytes));
      } catch (const Error&) {
      }
    }
    bool right = !mine->remap(pages.data(), pages.bytes());
    for (void* block : taken) arena.release(block);
    right =
        right && pages.contains(2) && mine->remap(pages.data(), pages.bytes()) && pages.contains(2);
    ::_exit(right ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(RemappedBuffers, BecomePrivateAgainBeneathAStoppedPeer) {
  const Pages pages(16);
  pages.fill(9);
  ASSERT_TRUE(remapped().remap(pages.data(), pages.bytes()));
  remapped().withdraw(pages.data(), pages.bytes());  // no reason
  std::byte* const seen = peers_view(pages.data(), pages.bytes());
  ASSERT_NE(seen, nullptr);
  Arena::of_process()->quarantine(seen + 5 * kPage);
  remapped().withdraw(pages.data(), pages.bytes());
  EXPECT_EQ(peers_view(pages.data(), pages.bytes()), nullptr);
  std::memset(seen, 1, pages.bytes());  // the peer, at last
  EXPECT_TRUE(pages.contains(9));
  EXPECT_TRUE(remapped().remap(pages.data(), pages.bytes()));
  EXPECT_TRUE(pages.contains(9));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(RemappedBuffers, StayAsTheyAreWithoutMemory) {
  const Pages pages(256);
  pages.fill(4);
  const pid_t child = ::fork();
  if (child == 0) {
    RemappedMemory* mine = RemappedMemory::of_process();
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_AS, &none);
    const bool refused = mine && !mine->remap(pages.data(), pages.bytes());
    ::_exit(refused && pages.contains(4) ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
#endif

// ---- forks

int status_of(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_F(RemappedBuffers, AreCopiedForForks) {
  const Pages pages(32), other(32);
  pages.fill(11);
  other.fill(12);
  ASSERT_TRUE(remapped().remap(pages.data(), pages.bytes()));
  ASSERT_TRUE(remapped().remap(other.data(), other.bytes()));
  ::madvise(pages.base(), pages.all(), MADV_DOFORK);  // as a library for RDMA does when it is done
  int go[2];
  ASSERT_EQ(::pipe(go), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte;
    bool right = ::read(go[0], &byte, 1) == 1 && pages.contains(11) && other.contains(12);
    pages.fill(99);
    other.fill(98);
    // A grandchild of a child that has remapped some of its own.
    right = right && RemappedMemory::of_process() != nullptr &&
            RemappedMemory::of_process()->remap(pages.data(), pages.bytes()) &&
            status_of([&] { return pages.contains(99) && other.contains(98); }) == 0;
    ::_exit(right ? 0 : 1);
  }
  pages.fill(21);
  other.fill(22);
  ASSERT_EQ(::write(go[1], "x", 1), 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(pages.contains(21));
  EXPECT_TRUE(other.contains(22));
  ::close(go[0]);
  ::close(go[1]);
}

TEST_F(RemappedBuffers, AreCopiedForForksWhereverTheyLie) {
  const Pages pages(32), place(32);
  pages.fill(13);
  ASSERT_TRUE(remapped().remap(pages.data(), pages.bytes()));
  void* moved = ::mremap(pages.base() + kPage, 10 * kPage, 10 * kPage,
                         MREMAP_MAYMOVE | MREMAP_FIXED, place.base());
  ASSERT_NE(moved, MAP_FAILED);
  const auto right = [&] {
    for (size_t i = 0; i < 10 * kPage; ++i)
      if (place.base()[i] != Pages::value(13, i + kPage)) return false;
    return pages.base()[20 * kPage] == Pages::value(13, 20 * kPage);
  };
  EXPECT_EQ(status_of(right), 0);
  EXPECT_TRUE(right());
  ASSERT_EQ(::munmap(pages.base() + 11 * kPage, kPage), 0);
  EXPECT_EQ(status_of(right), 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(RemappedBuffers, AreNotPartsOfAHeap) {
  const auto refused = [&] {
    bool all = true;
    for (const size_t pages : {10, 100, 1000}) {
      const std::unique_ptr<std::byte[]> block(new std::byte[pages * kPage]);
      all = all && !remapped().remap(block.get(), pages * kPage);
    }
    return all;
  };
  ASSERT_EQ(::mallopt(M_MMAP_THRESHOLD, 32 << 20), 1);
  EXPECT_TRUE(refused());
  bool in_thread = false;
  std::thread([&] { in_thread = refused(); }).join();
  EXPECT_TRUE(in_thread);
}
#endif

TEST_F(RemappedBuffers, OfMallocAreGrownFreedAndHandedOutAgain) {
  ::mallopt(M_MMAP_THRESHOLD, 64 << 10);
  const size_t sizes[] = {40 * kPage, 300 * kPage, 100 * kPage, 1000 * kPage, 17 * kPage};
  size_t grown = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<std::byte*> blocks;
    for (const size_t size : sizes) {
      auto* block = static_cast<std::byte*>(std::malloc(size));
      std::memset(block, round, size);
      grown += remapped().remap(block, size);
      blocks.push_back(block);
    }
    for (size_t i = 0; i < std::size(sizes); ++i) {
      const size_t less = std::min(sizes[i], sizes[i] * static_cast<size_t>(1 + round % 4) / 2);
      blocks[i] = static_cast<std::byte*>(std::realloc(blocks[i], sizes[i] * (1 + round % 4) / 2));
      ASSERT_EQ(blocks[i][less - 1], static_cast<std::byte>(round));
      std::byte* const seen = peers_view(blocks[i], less);
      if (seen) {
        EXPECT_EQ(std::memcmp(seen, blocks[i], less), 0);
      }
      auto* zeros = static_cast<std::byte*>(std::calloc(sizes[i], 1));
      for (size_t k = 0; k < sizes[i]; ++k) ASSERT_EQ(zeros[k], std::byte{0});
      std::memset(zeros, 7, sizes[i]);
      (void)remapped().remap(zeros, sizes[i]);
      std::free(zeros);
    }
    for (std::byte* block : blocks) std::free(block);
    if (round % 8 == 0) remapped().collect();
  }
  EXPECT_GT(grown, 0u);
}

}  // namespace
}  // namespace ringwood
