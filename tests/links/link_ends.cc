// How links end: what the peer took before still counts, and an error is final.

#include <atomic>

#include "tests/support/link_kinds.h"
#include "tests/support/patience.h"

namespace ringwood {
namespace {

class LinkEnds : public Links {};

TEST_P(LinkEnds, NameThePeerThatClosed) {
  Ranks two = ranks(2, 1);
  std::atomic<bool> closed{false};
  on_each(two, [&](Rank& rank) {
    const int me = rank.group.rank();
    Link& link = *rank.links[0][1 - me];
    uint64_t last = 42, got = 0, never = 0;
    if (me == 1) {
      if (Status s = link.post_send(&last, 8); !s) throw s.error();
      until(link, {1, 0});
      rank.links.clear();
      closed = true;
      return;
    }
    if (Status s = link.post_recv(&got, 8); !s) throw s.error();
    until(link, {0, 1});
    EXPECT_EQ(got, 42u);
    while (!closed) std::this_thread::yield();
    Completions now;
    Status s = link.poll(now);
    EXPECT_TRUE(s) << "nothing was wanted from it any more: " << show(s);
    s = link.post_recv(&never, 8);
    const Deadline limit = testing::patiently();
    const auto quiet = [&] { return s && (s = link.poll(now)); };
    while (quiet() && !limit.passed()) rank.sleep(quiet);
    ASSERT_FALSE(s);
    EXPECT_EQ(s.error().code, ErrorCode::peer_lost);
    EXPECT_EQ(s.error().peer, 1);
    EXPECT_EQ(s.error().transport, GetParam().transport);
    EXPECT_NE(s.error().cause.find("the peer closed"), std::string::npos) << show(s);
    now = {};
    EXPECT_EQ(show(link.poll(now)), show(s)) << "an error is final";
    EXPECT_EQ(now.received, 1u) << "and takes nothing back";
  });
}

// A sender may learn in one and the same call that its last message was read and that the peer has
// left: then it is sent, whatever else it waits for.
TEST_P(LinkEnds, CountWhatThePeerHasReadBeforeItLeft) {
  constexpr size_t kBytes = size_t{1} << 20;
  const int attempts = share(25, 5);
  for (int attempt = 0; attempt < attempts; ++attempt) {
    Ranks two = ranks(2, 1);
    std::pmr::vector<std::byte> out(kBytes, &memory());
    on_each(two, [&](Rank& rank) {
      Link& link = *rank.links[0][1 - rank.group.rank()];
      if (rank.group.rank() == 1) {
        std::vector<std::byte> in(kBytes);
        if (Status s = link.post_recv(in.data(), kBytes); !s) throw s.error();
        until(link, {0, 1});
        rank.links.clear();
        return;
      }
      uint64_t never = 0;
      Status s = link.post_send(out.data(), kBytes);
      if (s) s = link.post_recv(&never, sizeof never);
      Completions now;
      const Deadline limit = testing::patiently();
      while (s && now.sent == 0 && !limit.passed()) s = link.poll(now);
      EXPECT_EQ(now.sent, 1u) << show(s);
    });
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LinkEnds, ::testing::ValuesIn(kinds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ringwood
