// Every row of the table of algorithms is proved, and costs what its description says.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "collectives/algorithms/algorithms.h"
#include "collectives/schedule/compose.h"
#include "collectives/verify/verify.h"
#include "tests/support/places.h"
#include "tools/draw/draw.h"

namespace ringwood {
namespace {

// Sanitizers cost ten times or more; what they look for shows at small sizes already.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kLargestSample = 100;
#else
constexpr int kLargestSample = 512;
#endif

std::vector<int> roots(const AlgorithmRow& row, int n) {
  if (!has_root(row.collective)) return {0};
  std::set<int> chosen{0, 1 % n, n / 2, n - 1};
  if (n <= 9) {
    for (int root = 0; root < n; ++root) chosen.insert(root);
  }
  return {chosen.begin(), chosen.end()};
}

class EveryRow : public ::testing::TestWithParam<const AlgorithmRow*> {
 protected:
  void expect_proved(int n, int root, int segment_count) {
    const auto places = testing::places_for(*GetParam(), n);
    if (!places) return;
    const auto flaw = verify(*GetParam(), n, root, segment_count, places->host, places->node);
    EXPECT_FALSE(flaw) << "n = " << n << " root = " << root << " segments = " << segment_count
                       << ": " << *flaw;
  }
};

TEST_P(EveryRow, IsProvedForSmallGroups) {
  for (int n = 1; n <= 33; ++n) {
    for (int root : roots(*GetParam(), n)) expect_proved(n, root, 1);
  }
}

TEST_P(EveryRow, IsProvedForLargeGroups) {
  for (int n : {48, 64, 65, 100, 128, 256, 512}) {
    if (n > kLargestSample) continue;
    expect_proved(n, 0, 1);
    if (has_root(GetParam()->collective)) expect_proved(n, n - 3, 1);
  }
}

TEST_P(EveryRow, IsProvedInSegments) {
  for (int n : {1, 2, 3, 4, 5, 6, 7, 8, 13, 16}) {
    for (int segment_count : {2, 3, 7}) expect_proved(n, n / 2, segment_count);
  }
}

TEST_P(EveryRow, IsAPureFunctionOfItsPlace) {
  for (int n : {1, 2, 7}) {
    const auto places = testing::places_for(*GetParam(), n);
    for (int rank = 0; places && rank < n; ++rank) {
      const Schedule s = GetParam()->build(places->where(rank, n, n - 1));
      EXPECT_EQ(s, GetParam()->build(places->where(rank, n, n - 1)));
      EXPECT_EQ(segments(s, 1), s);
    }
  }
}

TEST_P(EveryRow, ClaimsRankOrderIfItHasIt) {
  const AlgorithmRow& row = *GetParam();
  bool always = reduces(row.collective);
  for (int n = 1; n <= 33; ++n) {
    const auto places = testing::places_for(row, n);
    for (int root : roots(row, n)) {
      if (!places || !always) break;
      std::vector<Schedule> all = build_all(row, places->where(0, n, root));
      const bool equal = row.sizes == BlockSizes::equal;
      always = reduces_in_rank_order(row.collective, all, root, 1, equal);
      for (Schedule& s : all) s = segments(s, 3);
      EXPECT_EQ(always, reduces_in_rank_order(row.collective, all, root, 3, equal)) << n;
    }
  }
  EXPECT_EQ(always, row.rank_order);
}

TEST_P(EveryRow, IsFoundByItsNameAlone) {
  const AlgorithmRow& row = *GetParam();
  EXPECT_EQ(find_algorithm(row.collective, row.name), &row);
  EXPECT_EQ(find_algorithm(row.collective, std::string(row.name) + "x"), nullptr);
  EXPECT_NE(std::string(row.description), "");
}

std::vector<const AlgorithmRow*> all_rows() {
  std::vector<const AlgorithmRow*> rows;
  for (const AlgorithmRow& row : algorithm_table()) rows.push_back(&row);
  return rows;
}
INSTANTIATE_TEST_SUITE_P(Table, EveryRow, ::testing::ValuesIn(all_rows()), [](const auto& info) {
  return std::string(to_string(info.param->collective)) + "_" + info.param->name;
});

TEST(Table, HasARowForEveryCollective) {
  std::set<Collective> seen;
  for (const AlgorithmRow& row : algorithm_table()) seen.insert(row.collective);
  EXPECT_EQ(seen.size(), static_cast<size_t>(kCollectives));
}

// ---- rounds and bytes, as the descriptions say -------------------------------------------------

int64_t chunks_sent(const Schedule& s) {
  int64_t sent = 0;
  for (const Step& step : s.steps) {
    if (step.kind == StepKind::send) sent += step.src.count;
  }
  return sent;
}

TEST(Cost, BandwidthOptimalAllReducesSendNoMoreThanARing) {
  for (int n = 2; n <= 33; ++n) {
    int64_t halving_total = 0;
    for (int rank = 0; rank < n; ++rank) {
      EXPECT_EQ(chunks_sent(ring_all_reduce({rank, n, 0})), 2 * (n - 1));
      EXPECT_EQ(chunks_sent(direct_all_reduce({rank, n, 0})), 2 * (n - 1));
      EXPECT_EQ(chunks_sent(rank_order_all_reduce({rank, n, 0})), 2 * (n - 1));
      EXPECT_EQ(chunks_sent(mixed_radix_all_reduce({rank, n, 0})), 2 * (n - 1));
      EXPECT_EQ(chunks_sent(bruck_all_gather({rank, n, 0})), n - 1);
      EXPECT_EQ(chunks_sent(pat_all_gather({rank, n, 0})), n - 1);
      EXPECT_EQ(chunks_sent(pat_reduce_scatter({rank, n, 0})), n - 1);
      if ((n & (n - 1)) == 0) {
        EXPECT_EQ(chunks_sent(swing_all_reduce({rank, n, 0})), 2 * (n - 1));
      }
      // Two halves of the buffer: at most 2 S bytes, or 4 half chunks.
      EXPECT_LE(chunks_sent(double_tree_all_reduce({rank, n, 0})), 4);
      EXPECT_LE(chunks_sent(double_tree_broadcast({rank, n, 0})), 2);
      EXPECT_LE(chunks_sent(double_tree_reduce({rank, n, 0})), 2);
      halving_total += chunks_sent(halving_doubling_all_reduce({rank, n, 0}));
    }
    EXPECT_EQ(halving_total, 2 * n * (n - 1)) << n;
  }
}

// The number of latencies. Trees may stay below log2(n) rounded up, because messages to different
// peers do not wait for one another.
int rounds(const AlgorithmRow& row, int n, int root) {
  return count_rounds(build_all(row, {0, n, root, {}}), root);
}

int log2_up(int n) {
  int rounds = 0;
  while (1 << rounds < n) ++rounds;
  return rounds;
}

int log4_up(int n) { return (log2_up(n) + 1) / 2; }

// Rounds of mixed radix: 4 counts once, every other prime factor once.
int factors(int n) {
  int count = 0;
  for (int f : {4, 2, 3, 5, 7, 11, 13, 17}) {
    for (; n % f == 0; n /= f) ++count;
  }
  return count;
}

// What descriptions begin with, up to the first comma.
struct Claim {
  std::string_view words;
  int (*most)(int n);
};
constexpr Claim kClaims[] = {
    {"1 round", [](int) { return 1; }},
    {"2 rounds", [](int) { return 2; }},
    {"2 rounds in hosts", [](int) { return 2; }},
    {"1 round per factor of n", factors},
    {"2 rounds per factor of n", [](int n) { return 2 * factors(n); }},
    {"log2(n) rounds", log2_up},
    {"log2(n) rounds of one byte", log2_up},
    {"log2(n) rounds (one more if n is not 2^k)",
     [](int n) { return (n & (n - 1)) == 0 ? log2_up(n) : log2_up(n) + 1; }},
    {"log2(n)+2 rounds", [](int n) { return log2_up(n) + 2; }},
    {"2 log2(n) rounds", [](int n) { return 2 * log2_up(n); }},
    {"2 log2(n)+2 rounds", [](int n) { return 2 * log2_up(n) + 2; }},
    {"log4(n) rounds", log4_up},
    {"n-1 rounds", [](int n) { return n - 1; }},
    {"2 (n-1) rounds", [](int n) { return 2 * (n - 1); }},
};

TEST(Cost, RoundsAreThoseOfTheDescriptions) {
  for (const AlgorithmRow& row : algorithm_table()) {
    const std::string_view description = row.description;
    const std::string_view words = description.substr(0, description.find(','));
    const auto claim = std::find_if(std::begin(kClaims), std::end(kClaims),
                                    [&](const Claim& c) { return c.words == words; });
    for (int n : {2, 3, 4, 5, 8, 12, 16, 17}) {
      if (!row.accepts(n)) continue;  // on one host; of several, hierarchy.cc counts
      ASSERT_NE(claim, std::end(kClaims)) << row.name << " begins with '" << words << "'";
      EXPECT_LE(rounds(row, n, n / 3), claim->most(n))
          << to_string(row.collective) << ' ' << row.name << ' ' << n;
    }
  }
}

// Half of all bytes go to the neighbour and the farthest way goes one block, where Bruck sends half
// of all bytes half the way round.
TEST(Cost, PatSendsMostToTheNearest) {
  constexpr int kRanks = 32;
  int by_distance[kRanks] = {};
  for (const Step& step : pat_all_gather({0, kRanks, 0}).steps) {
    if (step.kind == StepKind::send) by_distance[step.peer] += step.src.count;
  }
  EXPECT_EQ(by_distance[1], kRanks / 2);
  EXPECT_EQ(by_distance[kRanks / 2], 1);
}

TEST(Cost, BineEdgesAreShorterThanBinomialOnes) {
  auto distance = [](Schedule (*build)(const Where&), int n) {
    int total = 0;
    for (int rank = 0; rank < n; ++rank) {
      for (const Step& step : build({rank, n, 0}).steps) {
        if (step.kind != StepKind::send) continue;
        const int apart = wrap(step.peer - rank, n);
        total += std::min(apart, n - apart);
      }
    }
    return total;
  };
  for (int n : {8, 16, 64}) {
    EXPECT_LT(distance(bine_broadcast, n), distance(binomial_broadcast, n)) << n;
    EXPECT_LT(distance(swing_latency_all_reduce, n), distance(recursive_doubling_all_reduce, n))
        << n;
  }
}

TEST(Cost, NoRankIsInnerInBothTrees) {
  for (int n = 2; n <= 65; ++n) {
    for (int rank = 0; rank < n; ++rank) {
      int children[2] = {0, 0};
      for (const Step& step : double_tree_all_reduce({rank, n, 0}).steps) {
        if (step.kind == StepKind::recv_reduce) ++children[step.dst.first];
      }
      EXPECT_LE(children[0], 2);
      EXPECT_LE(children[1], 2);
      const bool both = children[0] > 0 && children[1] > 0;
      EXPECT_TRUE(!both || (rank == 0 && n % 2 == 1 && children[0] + children[1] == 2)) << n;
    }
  }
}

// It has n log2(n) steps, and the choice builds it for 16,384 ranks: no room is left over.
TEST(Cost, BruckAllToAllTakesTheMemoryThatItNeeds) {
  for (int n = 1; n <= 70; ++n) {
    const Schedule s = bruck_all_to_all({n / 2, n});
    EXPECT_EQ(s.scratch.capacity(), s.scratch.size()) << n;
    EXPECT_LE(s.steps.capacity(), s.steps.size() + 64) << n;
  }
}

}  // namespace
}  // namespace ringwood
