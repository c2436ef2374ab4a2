// Every row of the table of algorithms is proved, and costs what its description says.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "collectives/algorithms.h"
#include "collectives/compose.h"
#include "collectives/graph.h"
#include "collectives/verify.h"

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
  void expect_proved(int n, int root, int lane_count) {
    const auto flaw = verify(*GetParam(), n, root, lane_count);
    EXPECT_FALSE(flaw) << "n = " << n << " root = " << root << " lanes = " << lane_count << ": "
                       << *flaw;
  }
};

TEST_P(EveryRow, IsProvedForSmallGroups) {
  for (int n = 1; n <= 33; ++n) {
    ASSERT_TRUE(GetParam()->accepts(n));
    for (int root : roots(*GetParam(), n)) expect_proved(n, root, 1);
  }
}

TEST_P(EveryRow, IsProvedForLargeGroups) {
  for (int n : {48, 64, 65, 100, 128, 256, 512}) {
    if (n > kLargestSample || !GetParam()->accepts(n)) continue;
    expect_proved(n, 0, 1);
    if (has_root(GetParam()->collective)) expect_proved(n, n - 3, 1);
  }
}

TEST_P(EveryRow, IsProvedInLanes) {
  for (int n : {1, 2, 3, 4, 5, 6, 7, 8, 13, 16}) {
    for (int lane_count : {2, 3, 7}) expect_proved(n, n / 2, lane_count);
  }
}

TEST_P(EveryRow, IsAPureFunctionOfItsPlace) {
  for (int n : {1, 2, 7}) {
    for (int rank = 0; rank < n; ++rank) {
      const Schedule s = GetParam()->build({rank, n, n - 1});
      EXPECT_EQ(s, GetParam()->build({rank, n, n - 1}));
      EXPECT_EQ(lanes(s, 1), s);
    }
  }
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
      // Two halves of the buffer: at most 2 S bytes, or 4 half chunks.
      EXPECT_LE(chunks_sent(double_tree_all_reduce({rank, n, 0})), 4);
      halving_total += chunks_sent(halving_doubling_all_reduce({rank, n, 0}));
    }
    EXPECT_EQ(halving_total, 2 * n * (n - 1)) << n;
  }
}

// The longest chain of messages that wait for one another: the number of latencies. Trees may stay
// below log2(n) rounded up, because messages to different peers do not wait for one another.
int rounds(const AlgorithmRow& row, int n, int root) {
  std::vector<Schedule> all;
  std::vector<std::vector<int>> depth(n), sent(n), received(n);
  for (int r = 0; r < n; ++r) {
    all.push_back(row.build({r, n, root}));
    depth[r].assign(all[r].steps.size(), 0);
  }
  // Relaxation until nothing changes: a receive is one deeper than its send, all else as deep as
  // what it waits for.
  int deepest = 0;
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<std::vector<std::vector<int>>> mail(n, std::vector<std::vector<int>>(n));
    for (int r = 0; r < n; ++r) {
      for (size_t i = 0; i < all[r].steps.size(); ++i) {
        const Step& step = all[r].steps[i];
        if (step.kind == StepKind::send) mail[r][step.peer].push_back(depth[r][i]);
      }
    }
    for (int r = 0; r < n; ++r) {
      const Graph graph = derive(all[r]);
      std::vector<size_t> next(n, 0);
      for (size_t i = 0; i < all[r].steps.size(); ++i) {
        const Step& step = all[r].steps[i];
        int& mine = depth[r][i];
        const int before = mine;
        if (step.kind == StepKind::recv || step.kind == StepKind::recv_reduce) {
          mine = std::max(mine, mail[step.peer][r][next[step.peer]++] + 1);
        }
        for (int32_t at = graph.offset[i]; at < graph.offset[i + 1]; ++at) {
          int& later = depth[r][graph.successor[at]];
          changed |= later < mine;
          later = std::max(later, mine);
        }
        changed |= mine != before;
        deepest = std::max(deepest, mine);
      }
    }
  }
  return deepest;
}

int log2_up(int n) {
  int rounds = 0;
  while (1 << rounds < n) ++rounds;
  return rounds;
}

TEST(Cost, RoundsAreThoseOfTheDescriptions) {
  auto of = [](Collective collective, const char* name, int n) {
    return rounds(*find_algorithm(collective, name), n, n / 3);
  };
  for (int n : {2, 3, 4, 5, 8, 12, 16, 17}) {
    EXPECT_EQ(of(Collective::all_reduce, "one_shot", n), 1) << n;
    EXPECT_EQ(of(Collective::all_reduce, "direct", n), 2) << n;
    EXPECT_EQ(of(Collective::all_reduce, "ring", n), 2 * (n - 1)) << n;
    EXPECT_LE(of(Collective::all_reduce, "halving_doubling", n), 2 * log2_up(n)) << n;
    EXPECT_LE(of(Collective::all_reduce, "double_tree", n), 2 * log2_up(n) + 2) << n;
    EXPECT_LE(of(Collective::reduce, "binomial", n), log2_up(n)) << n;
    EXPECT_EQ(of(Collective::reduce, "chain", n), n - 1) << n;
    EXPECT_LE(of(Collective::broadcast, "binomial", n), log2_up(n)) << n;
    EXPECT_EQ(of(Collective::broadcast, "chain", n), n - 1) << n;
    EXPECT_EQ(of(Collective::all_gather, "direct", n), 1) << n;
    EXPECT_EQ(of(Collective::all_gather, "ring", n), n - 1) << n;
    EXPECT_EQ(of(Collective::reduce_scatter, "direct", n), 1) << n;
    EXPECT_EQ(of(Collective::reduce_scatter, "ring", n), n - 1) << n;
    EXPECT_EQ(of(Collective::gather, "linear", n), 1) << n;
    EXPECT_EQ(of(Collective::scatter, "linear", n), 1) << n;
    EXPECT_EQ(of(Collective::all_to_all, "pairwise", n), 1) << n;
    EXPECT_EQ(of(Collective::barrier, "dissemination", n), log2_up(n)) << n;
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

}  // namespace
}  // namespace ringwood
