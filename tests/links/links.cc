// One suite for every row of the table of transports: the contract of link.h, point by point.

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "tests/support/link_kinds.h"
#include "transports/link_parts.h"

namespace ringwood {
namespace {

TEST_P(Links, CarryMessagesOfAnySizeBothWaysOnEveryChannel) {
  Ranks two = ranks(2);
  on_each(two, [&](Rank& rank) { talk_to_all(rank, 40, (size_t{5} << 20) + 1, memory()); });
}

TEST_P(Links, AmongSeveralRanksDoNotDisturbEachOther) {
  for (int size : {3, 4, 5}) {
    Ranks several = ranks(size);
    on_each(several, [&](Rank& rank) { talk_to_all(rank, 60, size_t{300} << 10, memory()); });
  }
}

TEST_P(Links, LeaveNothingInTheStore) {
  Ranks four = ranks(4);
  EXPECT_TRUE(four.store->left().empty()) << *four.store->left().begin();
}

TEST_P(Links, KeepThousandsOfSmallMessagesInOrder) {
  constexpr uint64_t kCount = 20000;
  Ranks two = ranks(2, 1);
  std::vector<uint64_t> out(kCount), in(kCount);
  for (uint64_t i = 0; i < kCount; ++i) out[i] = i * i;
  on_each(two, [&](Rank& rank) {
    Link& link = *rank.links[0][1 - rank.group.rank()];
    const bool sends = rank.group.rank() == 0;
    for (uint64_t i = 0; i < kCount; ++i) {
      Status s = sends ? link.post_send(&out[i], 8) : link.post_recv(&in[i], 8);
      if (!s) throw s.error();
    }
    const Completions now = until(link, sends ? Completions{kCount, 0} : Completions{0, kCount});
    EXPECT_EQ(now.sent + now.received, kCount);
  });
  EXPECT_EQ(in, out);
}

// However fast the peer is; and the receiver is told that it must not sleep.
TEST_P(Links, MoveAPartOfALargeMessageInOnePoll) {
  Ranks two = ranks(2);
  const size_t kLarge = static_cast<size_t>(share(16, 4)) * kPollBytes;
  std::pmr::vector<std::byte> out(kLarge, &memory()), in(kLarge, &memory());
  Pattern(0, 1, 0, 0).fill(out);
  Link &from = *two[0].links[0][1], &to = *two[1].links[0][0];
  Completions sent, received;
  ASSERT_TRUE(from.post_send(out.data(), kLarge));
  ASSERT_TRUE(to.post_recv(in.data(), kLarge));
  ASSERT_TRUE(from.poll(sent));
  int polls = 0;
  bool told = false;
  for (const Deadline limit = testing::patiently(); received.received == 0; ++polls) {
    ASSERT_FALSE(limit.passed());
    ASSERT_TRUE(to.poll(received));
    told |= received.more;
    ASSERT_TRUE(from.poll(sent));
  }
  EXPECT_GT(polls, share(8, 1));
  if (GetParam().zero_copy && !testing::is_emulated(GetParam().transport)) {
    EXPECT_TRUE(told);
  }
  EXPECT_EQ(Pattern(0, 1, 0, 0).compare(in.data(), kLarge), kLarge);
}

TEST_P(Links, OfOneChannelGoOnWhileAnotherIsBlocked) {
  Ranks two = ranks(2);
  constexpr size_t kLarge = size_t{8} << 20;
  on_each(two, [&](Rank& rank) {
    const int me = rank.group.rank(), peer = 1 - me;
    std::pmr::vector<std::byte> large(kLarge, &memory()), got(kLarge, &memory());
    Pattern(me, peer, 0, 0).fill(large);
    Link &blocked = *rank.links[0][peer], &free = *rank.links[1][peer];
    if (Status s = blocked.post_send(large.data(), kLarge); !s) throw s.error();
    Completions now;
    for (uint64_t k = 0; k < 200; ++k) {
      uint64_t mine = k, theirs = ~k;
      if (Status s = blocked.poll(now); !s) throw s.error();
      if (Status s = free.post_send(&mine, 8); !s) throw s.error();
      if (Status s = free.post_recv(&theirs, 8); !s) throw s.error();
      until(free, {k + 1, k + 1});
      EXPECT_EQ(theirs, k);
    }
    if (Status s = blocked.post_recv(got.data(), kLarge); !s) throw s.error();
    until(blocked, {1, 1});
    EXPECT_EQ(Pattern(peer, me, 0, 0).compare(got.data(), kLarge), kLarge);
  });
}

TEST_P(Links, WakeASleeperEveryTime) {
  const uint64_t kRounds = share(20000, 600);
  Ranks two = ranks(2, 1);
  on_each(two, [&](Rank& rank) {
    const int me = rank.group.rank();
    Link& link = *rank.links[0][1 - me];
    std::pmr::vector<std::byte> out(size_t{300} << 10, &memory()), in(out.size(), &memory());
    Completions now;
    for (uint64_t k = 0; k < kRounds; ++k) {
      const size_t bytes =
          k % 256 == 255 ? out.size() : 8;  // now and then more than is in flight at once
      const auto finished = [&](uint64_t sent, uint64_t received) {
        if (Status s = link.poll(now); !s) throw s.error();
        return now.sent >= sent && now.received >= received;
      };
      const auto wait = [&](uint64_t sent, uint64_t received) {
        while (!finished(sent, received)) {
          if (!rank.sleep([&] { return !finished(sent, received); }))
            throw std::runtime_error("a lost wake-up");
        }
      };
      if (Status s = link.post_recv(in.data(), bytes); !s) throw s.error();
      if (me == 1) wait(k, k + 1);
      if (Status s = link.post_send(out.data(), bytes); !s) throw s.error();
      wait(k + 1, k + 1);
    }
  });
}

TEST_P(Links, WakeASleeperForEveryPieceOfALargeMessage) {
  constexpr size_t kBytes = size_t{24} << 20;
  Ranks two = ranks(2, 1);
  on_each(two, [&](Rank& rank) {
    const int me = rank.group.rank(), peer = 1 - me;
    Link& link = *rank.links[0][peer];
    std::pmr::vector<std::byte> out(kBytes, std::byte(me), &memory());
    if (Status s = link.post_send(out.data(), kBytes); !s) throw s.error();
    if (Status s = link.post_incoming(kBytes); !s) throw s.error();
    Completions now;
    const auto step = [&] {
      const Completions before = now;
      if (Status s = link.poll(now); !s) throw s.error();
      const size_t bytes = link.incoming().size();
      link.consume(bytes);
      return bytes > 0 || now.sent != before.sent || now.received != before.received;
    };
    while (now.sent + now.received < 2) {
      if (step()) continue;
      if (!rank.sleep([&] { return !step(); })) throw std::runtime_error("a lost wake-up");
    }
  });
}

// Memory that ends the process when it is touched after forbid().
class Guarded {
 public:
  Guarded(size_t bytes, Memory& memory)
      : bytes_(bytes),
        memory_(memory),
        data_(static_cast<std::byte*>(memory.allocate(bytes, kPage))) {}
  ~Guarded() {
    ::mprotect(data_, bytes_, PROT_READ | PROT_WRITE);
    memory_.deallocate(data_, bytes_, kPage);
  }
  std::byte* data() const { return data_; }
  std::span<std::byte> all() const { return {data_, bytes_}; }
  void forbid() { ASSERT_EQ(::mprotect(data_, bytes_, PROT_NONE), 0); }

 private:
  static constexpr size_t kPage = 4096;
  const size_t bytes_;
  Memory& memory_;
  std::byte* const data_;
};

TEST_P(Links, TouchNoMemoryAfterAnAbortFromAnotherThread) {
  constexpr size_t kBytes = size_t{6} << 20;
  for (int attempt = 0; attempt < 6; ++attempt) {
    Ranks two = ranks(2, 1);
    Guarded out(kBytes, memory()), in(kBytes, memory());
    const Pattern sent(0, 1, 0, 0);
    sent.fill(out.all());
    std::atomic<bool> aborted{false}, moving{false};
    std::thread aborter([&] {
      moving.wait(false);
      two[0].links[0][1]->abort();
      std::memset(out.data(), 0, kBytes);
      out.forbid();
      in.forbid();
      aborted = true;
    });
    on_each(two, [&](Rank& rank) {
      const int me = rank.group.rank();
      Link& link = *rank.links[0][1 - me];
      std::vector<std::byte> own(me == 1 ? kBytes : 0), theirs(own.size());
      Status s = link.post_send(me == 0 ? out.data() : own.data(), kBytes);
      if (s) s = link.post_recv(me == 0 ? in.data() : theirs.data(), kBytes);
      Completions now;
      for (int polls = 0; s && !(me == 1 && aborted); ++polls) {
        s = link.poll(now);
        if (me == 1 || polls != attempt * 10) continue;
        moving = true;  // for a while both sides go on
        moving.notify_one();
      }
      if (me == 1) {
        for (int i = 0; i < 100 && s; ++i) s = link.poll(now);
        if (now.received == 1) {
          EXPECT_EQ(sent.compare(theirs.data(), kBytes), kBytes) << "what was written later came";
        }
        return;
      }
      EXPECT_EQ(s.error().code, ErrorCode::aborted) << show(s);
      EXPECT_EQ(s.error().peer, 1);
      EXPECT_FALSE(link.post_send(out.data(), 1));
      EXPECT_FALSE(link.post_recv(in.data(), 1));
      EXPECT_FALSE(link.post_incoming(1));
      EXPECT_TRUE(link.incoming().empty());
      link.consume(1);
    });
    aborter.join();
  }
}

TEST_P(Links, AreMadeOnlyWhereTheyAreWanted) {
  Setting setting;
  setting.size = 4;
  setting.options = GetParam().options;
  setting.wanted = [](int a, int b) { return a + b != 3; };
  Ranks four = make_ranks(GetParam().make, setting);
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      for (int channel = 0; channel < 2; ++channel) {
        EXPECT_EQ(four[a].links[channel][b] != nullptr, a != b && a + b != 3) << a << " " << b;
      }
    }
  }
  on_each(four, [](Rank& rank) { talk_to_all(rank, 10, 1000); });
}

// Two hosts with two ranks each: over the network or not at all, and both ends agree.
TEST_P(Links, ReachAnotherHostAtBothEndsOrAtNone) {
  Setting setting;
  setting.size = 4;
  setting.options = GetParam().options;
  setting.hosts = {"a", "b", "a", "b"};
  Ranks four = make_ranks(GetParam().make, setting);
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      EXPECT_EQ(four[a].links[0][b] == nullptr, four[b].links[0][a] == nullptr) << a << " " << b;
      if (a % 2 == b % 2) {
        EXPECT_EQ(four[a].links[0][b] == nullptr, a == b) << a << " " << b;
      }
    }
  }
  on_each(four, [](Rank& rank) { talk_to_all(rank, 10, 1000); });
  EXPECT_TRUE(four.store->left().empty());
}

// What the device has registered of this process's memory.
size_t pinned_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  size_t kilobytes = 0;
  while (status >> word && word != "VmPin:") continue;
  status >> kilobytes;
  return kilobytes << 10;
}

// If all of it were copied, the results would be the same.
TEST_P(Links, PinOnlyWhatIsSentZeroCopyAndOnce) {
  constexpr size_t kBytes = size_t{1} << 20;
  Ranks two = ranks(2, 1);
  std::pmr::vector<std::byte> out(kBytes, &memory()), in(kBytes);
  const size_t before = pinned_bytes();
  for (uint64_t k = 1; k <= 3; ++k) {
    on_each(two, [&](Rank& rank) {
      Link& link = *rank.links[0][1 - rank.group.rank()];
      const bool sends = rank.group.rank() == 0;
      Status s = sends ? link.post_send(out.data(), kBytes) : link.post_recv(in.data(), kBytes);
      if (!s) throw s.error();
      until(link, sends ? Completions{k, 0} : Completions{0, k});
    });
    const size_t pinned = pinned_bytes() - before;
    EXPECT_GE(pinned, GetParam().zero_copy ? kBytes : 0);
    EXPECT_LE(pinned, GetParam().zero_copy ? 2 * kBytes : 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Links, ::testing::ValuesIn(kinds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ringwood
