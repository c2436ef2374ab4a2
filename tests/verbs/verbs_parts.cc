// What the verbs transport decides without a device: GIDs, rails, devices, explanations.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <functional>

#include "tests/support/link_ranks.h"
#include "transports/verbs/hello.h"
#include "transports/verbs/library/library.h"
#include "transports/verbs/path/attempts.h"
#include "transports/verbs/path/explain.h"
#include "transports/verbs/path/path_address.h"
#include "transports/verbs/path/path_slot.h"
#include "transports/verbs/path/posted_writes.h"
#include "transports/verbs/rail/addresses.h"
#include "transports/verbs/rail/gids.h"
#include "transports/verbs/verbs.h"

namespace ringwood::verbs {
namespace {

GidBytes bytes_of(const std::string& address) { return parse_range(address).value().prefix; }

Gid gid(int index, const std::string& address, GidType type, const std::string& interface = "eth0",
        bool up = true, bool vlan = false) {
  return {bytes_of(address), index, type, interface, up, vlan};
}

constexpr GidType kV1 = GidType::roce_v1, kV2 = GidType::roce_v2;

// As recorded: a card with one address.
const std::vector<Gid> kCard = {gid(0, "fe80::1", kV1), gid(1, "fe80::1", kV2),
                                gid(2, "10.1.0.7", kV1), gid(3, "10.1.0.7", kV2)};
// A pod: the host's GIDs have no interface here, and ours begin somewhere.
const std::vector<Gid> kPod = {gid(0, "fe80::1", kV2, ""), gid(3, "10.1.0.7", kV2, "", false),
                               gid(12, "fe80::9", kV2, "net1"), gid(13, "10.2.0.7", kV2, "net1")};
// Soft-RoCE in the laboratory.
const std::vector<Gid> kLab = {gid(0, "fe80::5054:ff:fe77:1", kV2), gid(1, "10.77.0.1", kV2),
                               gid(2, "fd77::1", kV2)};
const std::vector<Gid> kVlan = {gid(0, "10.3.0.1", kV2, "eth0.100", true, true),
                                gid(1, "fd00::1", kV2), gid(2, "10.1.0.1", kV2, "eth0", false)};

struct Choice {
  const char* name;
  const std::vector<Gid>& table;
  GidWish wish;
  int index;  // -1: none
};

const Choice kChoices[] = {
    {"IPv4 over RoCE v2 of a card", kCard, {}, 3},
    {"version 1 asked for", kCard, {.version = 1}, 2},
    {"a pod's own interface", kPod, {}, 13},
    {"IPv6 asked for, link-local is all there is", kPod, {.family = "AF_INET6"}, 12},
    {"IPv4 before global IPv6", kLab, {}, 1},
    {"global IPv6 before link-local", kLab, {.family = "AF_INET6"}, 2},
    {"a range", kLab, {.range = "fd00::/8"}, 2},
    {"a range that nothing is in", kLab, {.range = "192.168.0.0/16"}, -1},
    {"an address on a VLAN before no address", kVlan, {}, 0},
    {"an interface that is down does not count", kVlan, {.range = "10.1.0.0/16"}, -1},
    {"a fixed index", kCard, {.index = 1}, 1},
    {"a fixed index that is not there", kPod, {.index = 1}, -1},
};

TEST(VerbsGids, AreChosenByTheRules) {
  for (const Choice& c : kChoices) {
    std::string why;
    const auto chosen = choose(c.table, c.wish, why);
    ASSERT_EQ(chosen.has_value(), c.index >= 0) << c.name << ": " << why;
    if (chosen) {
      EXPECT_EQ(c.table[*chosen].index, c.index) << c.name;
    } else {
      EXPECT_NE(why.find(print(c.table)), why.npos) << c.name << ": " << why;
    }
  }
}

TEST(VerbsGids, OfAnEmptyTableAreNeverIndexZero) {
  std::string why;
  EXPECT_FALSE(choose({}, {}, why));
  EXPECT_NE(why.find("GIDs: none"), why.npos) << why;
}

TEST(VerbsGids, RangesAreParsedStrictly) {
  for (const char* bad : {"", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/8x", "fd00::/129", "eth0"})
    EXPECT_FALSE(parse_range(bad)) << bad;
  EXPECT_TRUE(parse_range("10.0.0.0/8")->contains(bytes_of("10.255.0.1")));
  EXPECT_FALSE(parse_range("10.0.0.0/8")->contains(bytes_of("11.0.0.1")));
  EXPECT_TRUE(parse_range("0.0.0.0/0")->contains(bytes_of("1.2.3.4")));
}

RankAddress rails(const std::vector<std::string>& addresses) {
  RankAddress address;
  for (size_t i = 0; i < addresses.size(); ++i)
    address.rails.push_back({.name = fmt::format("d{}/1", i), .gid = bytes_of(addresses[i])});
  return address;
}

struct Pairing {
  std::vector<std::string> a, b;
  std::vector<std::pair<int, int>> pairs;
};

TEST(VerbsRails, OfOneSubnetBelongTogether) {
  const Pairing kPairings[] = {
      {{"10.0.0.1"}, {"10.0.0.2"}, {{0, 0}}},
      {{"10.0.0.1", "10.0.1.1"}, {"10.0.1.2", "10.0.0.2"}, {{0, 1}, {1, 0}}},
      {{"10.0.0.1", "10.0.1.1"}, {"10.0.1.2"}, {{1, 0}}},
      {{"10.0.0.1", "10.0.1.1"}, {"10.9.0.2", "10.9.1.2"}, {{0, 0}, {1, 1}}},  // routed
      {{"10.0.0.1"}, {"fd00::1"}, {}},
      {{"fd00:0:0:1::1", "fd00:0:0:2::1"}, {"fd00:0:0:2::2", "10.0.0.1"}, {{1, 0}}},
      {{}, {"10.0.0.1"}, {}},
  };
  for (const Pairing& p : kPairings) {
    EXPECT_EQ(pair_rails(rails(p.a), rails(p.b)), p.pairs);
    auto turned = pair_rails(rails(p.b), rails(p.a));
    for (auto& [x, y] : turned) std::swap(x, y);
    std::sort(turned.begin(), turned.end());
    EXPECT_EQ(turned, p.pairs);
  }
}

struct Arrangement {
  int a, b;                                 // the ranks' nodes
  std::vector<int> rails_of_a, rails_of_b;  // theirs; pairs are (0, 0), (1, 1), ...
  int turn;
  std::vector<int> order;
};

TEST(VerbsRails, NearBothRanksComeFirstAndRanksTakeTurns) {
  const Arrangement kArrangements[] = {
      {0, 0, {0, 0, 1, 1}, {0, 0, 1, 1}, 0, {0, 1, 2, 3}},
      {1, 1, {0, 0, 1, 1}, {0, 0, 1, 1}, 0, {2, 3, 0, 1}},
      {1, 0, {0, 1, 1, 0}, {0, 0, 1, 1}, 0, {1, 0, 2, 3}},  // near both, one, one, none
      {0, 0, {0, 0, 1, 1}, {0, 0, 1, 1}, 1, {1, 0, 3, 2}},
      {0, 0, {0, 0, 1, 1}, {0, 0, 1, 1}, 6, {0, 1, 2, 3}},
      {0, 0, {0, 0, 0}, {0, 0, 0}, 2, {2, 0, 1}},  // all the same: in turn
      {0, -1, {1, 0}, {-1, -1}, 0, {1, 0}},        // only one end is known
      {-1, -1, {0, 1}, {0, 1}, 1, {0, 1}},         // unknown: as they are
      {0, 0, {-1, -1}, {-1, -1}, 1, {0, 1}},
      {0, 0, {}, {}, 1, {}},
  };
  for (const Arrangement& c : kArrangements) {
    RankAddress a, b;
    a.node = c.a;
    b.node = c.b;
    std::vector<std::pair<int, int>> pairs;
    for (size_t i = 0; i < c.rails_of_a.size(); ++i) {
      a.rails.push_back({.node = c.rails_of_a[i]});
      b.rails.push_back({.node = c.rails_of_b[i]});
      pairs.emplace_back(int(i), int(i));
    }
    arrange(pairs, a, b, c.turn);
    std::vector<int> order;
    for (const auto& [x, y] : pairs) order.push_back(x);
    EXPECT_EQ(order, c.order) << &c - kArrangements;
  }
}

TEST(VerbsRails, AreSelectedByName) {
  EXPECT_TRUE(selected("", "mlx5_0", 1));
  EXPECT_TRUE(selected("mlx5_1", "mlx5_10", 1));
  EXPECT_FALSE(selected("=mlx5_1", "mlx5_10", 1));
  EXPECT_TRUE(selected("=mlx5_1,mlx5_10", "mlx5_10", 1));
  EXPECT_FALSE(selected("^mlx5_1", "mlx5_10", 1));
  EXPECT_TRUE(selected("^=mlx5_1", "mlx5_10", 1));
  EXPECT_TRUE(selected("mlx5_0:2", "mlx5_0", 2));
  EXPECT_FALSE(selected("mlx5_0:2", "mlx5_0", 1));
}

TEST(VerbsAddresses, TravelWhole) {
  SharedAddress shared{3, rails({"10.0.0.1", "fd00::1"})};
  shared.address.reason = "a \"reason\"\nof two lines";
  shared.address.node = 1;
  shared.address.rails[1].node = 3;
  SharedAddress back;
  ASSERT_TRUE(decode(encode(shared), back));
  EXPECT_EQ(back.readers, 3);
  EXPECT_EQ(back.address.reason, "a \"reason\"?of two lines") << "for one line of a log";
  EXPECT_EQ(back.address.node, 1);
  EXPECT_EQ(back.address.rails, shared.address.rails);
  const SharedAddress many{1, rails(std::vector<std::string>(17, "10.0.0.1"))};
  EXPECT_FALSE(decode(encode(many), back));
}

TEST(VerbsHellos, TravelWhole) {
  const Hello hello{
      "", 1 << 20, 0x7f0000001000, 106, 3, {7}, {{0x1234, 0xabcdef}, {1, 2, Ece{3, 4, 5}}}};
  Hello back;
  ASSERT_TRUE(decode(encode(hello), back));
  EXPECT_EQ(encode(back), encode(hello));
  EXPECT_EQ(back.ring, hello.ring);
  EXPECT_EQ(back.keys, hello.keys);
  EXPECT_EQ(back.paths, hello.paths);
  Hello many = hello;
  many.paths.resize(kMaxPaths + 1);
  EXPECT_FALSE(decode(encode(many), back));
}

TEST(VerbsPathAddresses, TravelWholeAndNothingInThemIsBelieved) {
  const PathAddress address{
      {0x1234, 0xabcdef, Ece{1, 2, 3}}, bytes_of("fd00::1"), 7, 2048, 9, 0x7f0000001000};
  PathAddress back;
  ASSERT_TRUE(decode(encode(address), back));
  EXPECT_EQ(back.end, address.end);
  EXPECT_EQ(back.gid, address.gid);
  EXPECT_EQ(back.scrap, address.scrap);
  const std::function<void(PathAddress&)> spoil[] = {
      [](PathAddress& o) { o.end.number = 1 << 24; },
      [](PathAddress& o) { o.lid = -5; },
      [](PathAddress& o) { o.end.first_packet = 1 << 24; },
      [](PathAddress& o) { o.lid = 1 << 16; },
      [](PathAddress& o) { o.mtu = 4097; },
      [](PathAddress& o) { o.mtu = 255; },
  };
  for (const auto& change : spoil) {
    PathAddress wild = address;
    change(wild);
    EXPECT_FALSE(decode(encode(wild), back)) << &change - spoil;
  }
  PathRefusal refusal;
  ASSERT_TRUE(decode(encode(PathRefusal{"a\nb\x7f" + std::string(5000, 'c')}), refusal));
  EXPECT_EQ(refusal.why.substr(0, 5), "a?b?c");
  EXPECT_EQ(refusal.why.size(), 1024u);
}

// What happens to a path, and after how many seconds it is tried again (-1: it is in use).
struct AttemptStep {
  enum { lose, fail, hurry, use } what;
  int seconds;  // passed before
  int due;
};

TEST(VerbsAttempts, BackOffWithoutEndAndBeginAnewAfterAPathThatLasted) {
  using S = AttemptStep;
  const std::vector<std::vector<S>> kCases = {
      {{S::lose, 100, 1},
       {S::fail, 1, 2},
       {S::fail, 2, 4},
       {S::fail, 4, 8},
       {S::fail, 8, 16},
       {S::fail, 16, 30},
       {S::fail, 30, 30},
       {S::fail, 1000, 30}},
      {{S::lose, 100, 1}, {S::fail, 1, 2}, {S::hurry, 1, 0}, {S::fail, 0, 1}},
      {{S::lose, 100, 1}, {S::fail, 1, 2}, {S::use, 2, -1}, {S::lose, 60, 1}, {S::fail, 1, 2}},
      {{S::lose, 100, 1}, {S::use, 1, -1}, {S::lose, 1, 2}, {S::use, 2, -1}, {S::lose, 5, 4}},
  };
  for (const auto& steps : kCases) {
    Attempts attempts;
    Clock::time_point now = Clock::time_point() + std::chrono::hours(1);
    for (size_t i = 0; i < steps.size(); ++i) {
      now += std::chrono::seconds(steps[i].seconds);
      if (steps[i].what == S::lose) attempts.lost(now);
      if (steps[i].what == S::fail) attempts.failed(now);
      if (steps[i].what == S::hurry) attempts.hurry(now);
      if (steps[i].what == S::use) attempts.used(now);
      if (steps[i].due < 0) continue;
      const auto due = now + std::chrono::seconds(steps[i].due);
      EXPECT_TRUE(attempts.due(due)) << &steps - kCases.data() << " " << i;
      EXPECT_FALSE(attempts.due(due - std::chrono::milliseconds(1)))
          << &steps - kCases.data() << " " << i;
    }
  }
}

TEST(VerbsPostedWrites, AreAcknowledgedByLargeOnesAndTheLastOfARow) {
  PostedWrites writes;
  for (uint64_t number = 1; number < PostedWrites::kSignalEvery; ++number) {
    EXPECT_FALSE(writes.signals_next(64)) << number;
    EXPECT_EQ(writes.add(64, false), number);
  }
  EXPECT_TRUE(writes.signals_next(64));
  EXPECT_EQ(writes.add(64, true), PostedWrites::kSignalEvery);
  EXPECT_FALSE(writes.signals_next(PostedWrites::kLargeBytes - 1));
  EXPECT_TRUE(writes.signals_next(PostedWrites::kLargeBytes));
  const uint64_t large = writes.add(5000, true), larger = writes.add(6000, true);
  EXPECT_EQ(writes.open(), larger);
  EXPECT_EQ(writes.open_bytes(), 11000u);
  EXPECT_FALSE(writes.any_completed());
  writes.complete(large);
  writes.complete(1);  // the word of an earlier one changes nothing
  EXPECT_TRUE(writes.completed(large));
  EXPECT_FALSE(writes.completed(larger));
  EXPECT_EQ(writes.open(), 1u);
  EXPECT_EQ(writes.open_bytes(), 6000u);
}

TEST(VerbsErrors, AreExplained) {
  const auto told = [](int status, bool proven) {
    return explain({.status = status,
                    .name = "name",
                    .vendor_error = 129,
                    .proven = proven,
                    .timeout = 20,
                    .retries = 7});
  };
  EXPECT_NE(told(IBV_WC_RETRY_EXC_ERR, false).find("has never worked"), std::string::npos);
  EXPECT_NE(told(IBV_WC_RETRY_EXC_ERR, true).find("about 34.4 s"), std::string::npos);
  EXPECT_NE(told(IBV_WC_RETRY_EXC_ERR, true).find("vendor 129"), std::string::npos);
  EXPECT_NE(told(IBV_WC_WR_FLUSH_ERR, true).find("earlier line"), std::string::npos);
  EXPECT_NE(explain_connect(ETIMEDOUT).find("rails"), std::string::npos);
}

TEST(VerbsLibrary, ThatIsMissingOrAnotherIsNamedWithTheRemedy) {
  std::string why;
  EXPECT_EQ(load_from("libringwood-nothing.so.1", why), nullptr);
  EXPECT_NE(why.find("install rdma-core"), why.npos) << why;
  EXPECT_EQ(load_from("libm.so.6", why), nullptr);
  EXPECT_NE(why.find("has no ibv_get_device_list"), why.npos) << why;
}

// Of what it is asked for, this queue pair can options 1 and 4.
TEST(VerbsEce, IsWhatBothEndsCanOrNothing) {
  static ibv_ece now;
  now = {7, 5, 0};
  Library library{};
  EXPECT_FALSE(query_ece(library, nullptr));
  EXPECT_FALSE(set_ece(library, nullptr, {7, 1, 0}));
  library.newer.query_ece = [](ibv_qp*, ibv_ece* found) {
    *found = now;
    return 0;
  };
  library.newer.set_ece = [](ibv_qp*, ibv_ece* wanted) {
    if (wanted->vendor_id != now.vendor_id) return EINVAL;
    now.options &= wanted->options;
    return 0;
  };
  EXPECT_EQ(query_ece(library, nullptr), (Ece{7, 5, 0}));
  EXPECT_FALSE(set_ece(library, nullptr, {8, 1, 0}));
  EXPECT_TRUE(set_ece(library, nullptr, {7, 6, 0}));
  EXPECT_EQ(query_ece(library, nullptr), (Ece{7, 4, 0}));
  library.newer.query_ece = [](ibv_qp*, ibv_ece*) { return EOPNOTSUPP; };
  EXPECT_FALSE(query_ece(library, nullptr));
}

// Whoever closes first, and however often an end says so.
TEST(PathEnds, BothCloseBeforeThePathIsOver) {
  using enum PathEnds;
  EXPECT_EQ(after_closing_there(after_closing_here(open)), both);
  EXPECT_EQ(after_closing_here(after_closing_there(open)), both);
  for (const PathEnds ends : {here, both, over}) {
    EXPECT_TRUE(closed_here(ends));
    EXPECT_EQ(after_closing_here(ends), ends);
  }
  for (const PathEnds ends : {there, both, over}) EXPECT_EQ(after_closing_there(ends), ends);
  EXPECT_FALSE(closed_here(open) || closed_here(there));
}

TEST(VerbsTransport, ThatIsDisabledReachesNobodyAndLeavesNothing) {
  Setting setting;
  setting.size = 3;
  setting.options = [](Options& o) { o.verbs.disable = true; };
  Ranks three = make_ranks(make_verbs, setting);
  for (int r = 0; r < 3; ++r)
    for (auto& channel : three[r].links)
      for (auto& link : channel) EXPECT_EQ(link, nullptr);
  EXPECT_TRUE(three.store->left().empty()) << *three.store->left().begin();
}

}  // namespace
}  // namespace ringwood::verbs
