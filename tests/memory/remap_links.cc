// Messages out of remapped buffers, and answers into them.
#include <cstring>
#include <random>

#include "tests/memory/remap_pages.h"
#include "tests/shm/shm_pair.h"

namespace ringwood {
namespace {

class RemappedMessages : public RemapTest {
 protected:
  Pair pair;
};

TEST_F(RemappedMessages, AreReadWhereTheyLieEdgesIncluded) {
  const Pages pages(20);
  pages.fill(1);
  ASSERT_TRUE(remapped().remap(pages.data(), pages.bytes()));
  ASSERT_TRUE(pair.link(1).post_incoming(pages.bytes()));
  ASSERT_TRUE(pair.link(0).post_send(pages.data(), pages.bytes()));
  const std::span<const std::byte> seen = pair.link(1).incoming();
  ASSERT_EQ(seen.size(), pages.bytes());  // in one piece: nothing went through the ring
  EXPECT_EQ(std::memcmp(seen.data(), pages.data(), seen.size()), 0);
  ASSERT_TRUE(pair.poll(0));
  EXPECT_EQ(pair.now[0].sent, 0u);
  pair.link(1).consume(seen.size());
  ASSERT_TRUE(pair.poll(0));
  EXPECT_EQ(pair.now[0].sent, 1u);
}

// The exposed buffer's first and last bytes are in pages that it shares with other data.
TEST_F(RemappedMessages, ArePutEdgesIncluded) {
  for (const bool in_place : {true, false}) {
    const Pages pages(20);
    pages.fill(2);
    const size_t bytes = pages.bytes();
    ASSERT_TRUE(remapped().remap(pages.data(), bytes));
    ASSERT_TRUE(pair.link(1).post_incoming(bytes));
    const uint64_t number = pair.now[0].received;
    ASSERT_TRUE(pair.link(0).post_exposed(pages.data(), bytes, number));
    ASSERT_EQ(pair.link(1).incoming().size(), bytes);
    const auto answer = Pattern(1, 0, 0, 7).make(bytes);
    if (in_place) {
      std::byte* place = pair.link(1).put_place(number);
      ASSERT_NE(place, nullptr);
      ASSERT_TRUE(pair.link(1).begin_put());
      std::memcpy(place, answer.data(), bytes);
      pair.link(1).end_put();
    }
    pair.link(1).consume(bytes);
    ASSERT_TRUE(in_place ? pair.link(1).post_put(bytes)
                         : pair.link(1).post_send(answer.data(), bytes));
    ASSERT_TRUE(pair.link(0).post_recv(pages.data(), bytes));
    ASSERT_TRUE(pair.poll(0));
    EXPECT_EQ(pair.now[0].received, number + 1);
    EXPECT_EQ(Pattern(1, 0, 0, 7).compare(pages.data(), bytes), bytes);
    // The neighbours' bytes on the same pages are theirs.
    EXPECT_EQ(pages.base()[99], Pages::value(2, 99));
    EXPECT_EQ(pages.data()[bytes], Pages::value(2, bytes + 100));
  }
}

TEST_F(RemappedMessages, AreCopiedWhenTheirMemoryIsNotWhatItWas) {
  const Pages pages(20);
  pages.fill(3);
  ASSERT_TRUE(remapped().remap(pages.data(), pages.bytes()));
  ASSERT_NE(::mmap(pages.base() + 10 * kPage, kPage, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            MAP_FAILED);
  pages.fill(4);
  std::vector<std::byte> arrived(pages.bytes());
  ASSERT_TRUE(pair.link(1).post_recv(arrived.data(), arrived.size()));
  ASSERT_TRUE(pair.link(0).post_send(pages.data(), pages.bytes()));
  ASSERT_TRUE(pair.poll(0));
  EXPECT_EQ(pair.now[0].sent, 1u);  // in the ring: nobody waits for the reader
  ASSERT_TRUE(pair.poll(1));
  EXPECT_EQ(pair.now[1].received, 1u);
  EXPECT_EQ(std::memcmp(arrived.data(), pages.data(), arrived.size()), 0);
}

// An abort while a peer stands still in the middle of an answer.
TEST_F(RemappedMessages, AreTakenBackFromAPeerThatStopped) {
  const Pages pages(20);
  pages.fill(5);
  ASSERT_TRUE(remapped().remap(pages.data(), pages.bytes()));
  ASSERT_TRUE(pair.link(1).post_incoming(pages.bytes()));
  ASSERT_TRUE(pair.link(0).post_exposed(pages.data(), pages.bytes(), 0));
  std::byte* const place = pair.link(1).put_place(0);
  ASSERT_NE(place, nullptr);
  ASSERT_TRUE(pair.link(1).begin_put());
  pair.link(0).abort();
  remapped().withdraw(pages.data(), pages.bytes());  // as the engine does before it settles
  std::memset(place, 0, pages.bytes());
  EXPECT_TRUE(pages.contains(5));
}

}  // namespace
}  // namespace ringwood
