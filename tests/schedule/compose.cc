// Composition of schedules, and the derived graph compared with its definition by brute force.
#include "collectives/schedule/compose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "collectives/algorithms/algorithms.h"
#include "collectives/schedule/graph.h"
#include "collectives/verify/verify.h"

namespace ringwood {
namespace {

using Build = Schedule (*)(const Where&);

std::vector<Schedule> build_all(Build build, int n, int root) {
  std::vector<Schedule> all;
  for (int rank = 0; rank < n; ++rank) all.push_back(build({rank, n, root}));
  return all;
}

TEST(Compose, SegmentsRenumberAsThePlanExpects) {
  Schedule s{0, 2, 2, {1}, {}};
  s.send(1, {0, 2});
  s.copy({2}, {1});
  Schedule expected{0, 2, 6, {1, 3, 5}, {}};
  expected.send(1, {0, 2});
  expected.send(1, {2, 2});
  expected.send(1, {4, 2});
  expected.copy({6}, {1});
  expected.copy({7}, {3});
  expected.copy({8}, {5});
  EXPECT_EQ(segments(s, 3), expected);
  EXPECT_THROW(segments(s, 0), Error);
}

TEST(Compose, SegmentsOfSegmentsAreSegments) {
  // The numbering differs, so the proof is what is compared.
  for (int n : {2, 5}) {
    std::vector<Schedule> all = build_all(chain_reduce, n, 1);
    for (Schedule& s : all) s = segments(segments(s, 2), 3);
    EXPECT_EQ(verify(Collective::reduce, all, 1, 6).value_or(""), "");
  }
}

TEST(Compose, ReduceThenBroadcastIsAnAllReduce) {
  const std::pair<Build, Build> pairs[] = {{binomial_reduce, binomial_broadcast},
                                           {chain_reduce, chain_broadcast},
                                           {chain_reduce, binomial_broadcast}};
  for (const auto& [reduce, broadcast] : pairs) {
    for (int n : {1, 2, 3, 8, 13}) {
      for (int root : {0, n - 1}) {
        std::vector<Schedule> all = build_all(reduce, n, root);
        const std::vector<Schedule> back = build_all(broadcast, n, root);
        for (int r = 0; r < n; ++r) all[r] = segments(then(all[r], back[r]), 2);
        EXPECT_EQ(verify(Collective::all_reduce, all, 0, 2).value_or(""), "") << n;
      }
    }
  }
}

TEST(Compose, AllReduceTwiceIsRefuted) {
  std::vector<Schedule> all = build_all(ring_all_reduce, 3, 0);
  for (Schedule& s : all) s = then(s, s);
  EXPECT_NE(verify(Collective::all_reduce, all).value_or("").find("twice"), std::string::npos);
}

TEST(Compose, ScratchOfTheSecondFollows) {
  Schedule a{0, 1, 1, {0}, {}}, b{0, 1, 1, {0, 0}, {}};
  a.copy({1}, {0});
  b.copy({2}, {0});
  b.copy({0}, {1});
  Schedule expected{0, 1, 1, {0, 0, 0}, {}};
  expected.copy({1}, {0});
  expected.copy({3}, {0});
  expected.copy({0}, {2});
  EXPECT_EQ(then(a, b), expected);
}

// Hosts of unequal size: reduce to each host's first rank, all-reduce among those, broadcast back.
TEST(Compose, HierarchicalAllReduceIsProved) {
  const std::vector<std::vector<int>> hosts = {{0, 3, 4}, {5, 1}, {2}, {9, 8, 7, 6}};
  const int n = 10, leaders_count = static_cast<int>(hosts.size());
  std::vector<int> leaders;
  for (const auto& host : hosts) leaders.push_back(host[0]);
  for (int segment_count : {1, 3}) {
    std::vector<Schedule> all(n);
    for (int h = 0; h < leaders_count; ++h) {
      const int size = static_cast<int>(hosts[h].size());
      for (int i = 0; i < size; ++i) {
        // As many pieces as the ring of the leaders has chunks.
        const Where where{i, size, 0};
        Schedule s = on(hosts[h], n, segments(binomial_reduce(where), leaders_count));
        if (i == 0) s = then(s, on(leaders, n, ring_all_reduce({h, leaders_count, 0})));
        s = then(s, on(hosts[h], n, segments(binomial_broadcast(where), leaders_count)));
        all[s.rank] = segments(s, segment_count);
      }
    }
    EXPECT_EQ(verify(Collective::all_reduce, all, 0, segment_count).value_or(""), "");
  }
}

TEST(Compose, WidenAndWithinRenumber) {
  Schedule s{0, 2, 2, {1}, {}};
  s.send(1, {0, 2});
  s.copy({2}, {1});
  Schedule wide{0, 2, 6, {3, 4, 5}, {}};
  wide.send(1, {0, 6});
  wide.copy({6, 3}, {3, 3});
  EXPECT_EQ(widen(s, 3), wide);
  EXPECT_EQ(widen(s, 1), s);
  Schedule inner{0, 2, 5, {3}, {}};
  inner.send(1, {2, 2});
  inner.copy({5}, {3});
  EXPECT_EQ(within(2, 5, s), inner);
  EXPECT_EQ(within(0, 2, s), s);
}

// Two all-reduces side by side, one of them on wider chunks, are an all-reduce of both parts.
TEST(Compose, PartsOfABufferAreReducedByDifferentAlgorithms) {
  for (int n : {2, 3, 4, 7}) {
    std::vector<Schedule> all;
    for (int r = 0; r < n; ++r) {
      const Schedule ring = ring_all_reduce({r, n, 0}), once = one_shot_all_reduce({r, n, 0});
      const int chunks = n + 2;
      all.push_back(then(within(0, chunks, ring), within(n, chunks, widen(once, 2))));
    }
    EXPECT_EQ(verify(Collective::all_reduce, all).value_or(""), "") << n;
  }
}

TEST(Compose, RenamedRanksAreProved) {
  const std::vector<int> order = {3, 0, 4, 1, 2};
  const std::pair<Collective, Build> cases[] = {
      {Collective::all_reduce, ring_all_reduce},
      {Collective::all_reduce, double_tree_all_reduce},
      {Collective::all_reduce, halving_doubling_all_reduce},
      {Collective::broadcast, chain_broadcast},
      {Collective::reduce, binomial_reduce},
      {Collective::barrier, dissemination_barrier},
  };
  for (const auto& [collective, build] : cases) {
    std::vector<Schedule> all(5);
    for (int i = 0; i < 5; ++i) all[order[i]] = on(order, 5, build({i, 5, 2}));
    EXPECT_EQ(verify(collective, all, order[2]).value_or(""), "") << to_string(collective);
  }
}

TEST(Compose, PublishCopiesOnceWhatGoesToSeveral) {
  Schedule s{0, 4, 2, {}, {}};
  s.send(1, {0});
  s.send(2, {0});
  s.send(1, {1});
  s.recv(3, {0});
  s.send(3, {0});
  Schedule expected{0, 4, 2, {0}, {}};
  expected.copy({2}, {0});
  expected.send(1, {2});
  expected.send(2, {2});
  expected.send(1, {1});
  expected.recv(3, {0});
  expected.send(3, {0});
  EXPECT_EQ(publish(s, Collective::broadcast), expected);
}

TEST(Compose, AppendRenumbersAndKeepsMessagesWhole) {
  Schedule part{1, 2, 3, {1}, {}};
  part.copy({3}, {1});
  part.send(0, {0, 2});
  part.recv_joined(0, {{2}, {3}});
  Schedule s{4, 6, 5, {0}, {}};
  append(s, part, {2, 4}, {3, 5, 1});  // chunk 5 is scratch, like 0
  Schedule expected{4, 6, 5, {0, 0}, {}};
  expected.copy({6}, {5});
  expected.send_joined(2, {{3}, {5}});
  expected.recv_joined(2, {{1}, {6}});
  EXPECT_EQ(s, expected);
  EXPECT_THROW(append(s, part, {2}, {3, 5, 1}), Error);
  EXPECT_THROW(append(s, part, {2, 4}, {3, 5}), Error);
}

// Copies come before a message of several spans, never into it.
TEST(Compose, PublishKeepsMessagesWhole) {
  Schedule s{0, 3, 3, {}, {}};
  s.send_joined(1, {{0}, {2}});
  s.send_joined(2, {{1}, {2}});
  Schedule expected{0, 3, 3, {2}, {}};
  expected.copy({3}, {2});
  expected.send_joined(1, {{0}, {3}});
  expected.send_joined(2, {{1}, {3}});
  EXPECT_EQ(publish(s, Collective::all_gather), expected);
}

TEST(Compose, SegmentsKeepMessagesWhole) {
  Schedule s{0, 2, 3, {}, {}};
  s.send_joined(1, {{0}, {2}});
  s.recv_joined(1, {{1}});
  Schedule expected{0, 2, 6, {}, {}};
  expected.send_joined(1, {{0}, {2}});
  expected.send_joined(1, {{3}, {5}});
  expected.recv_joined(1, {{1}});
  expected.recv_joined(1, {{4}});
  EXPECT_EQ(segments(s, 2), expected);
}

// Each rank may do so or not.
TEST(Compose, PublishedRowsAreProved) {
  for (const AlgorithmRow& row : algorithm_table()) {
    for (int n : {1, 2, 3, 4, 6, 8}) {
      const int root = has_root(row.collective) ? n - 1 : 0;
      std::vector<int> hosts(n);
      for (int r = 0; r < n; ++r) hosts[r] = r % 2;
      if (!row.accepts({0, n, root, hosts})) continue;
      std::vector<Schedule> all;
      for (int r = 0; r < n; ++r) {
        const Schedule s = row.build({r, n, root, hosts});
        all.push_back(r % 3 == 1 ? s : publish(s, row.collective));
      }
      EXPECT_EQ(verify(row.collective, all, root, 1, row.sizes == BlockSizes::equal).value_or(""),
                "")
          << row.name << " " << n;
    }
  }
}

TEST(Compose, MisuseIsRefused) {
  const Schedule s = ring_all_reduce({0, 2, 0});
  EXPECT_THROW(then(s, ring_all_reduce({1, 2, 0})), Error);
  EXPECT_THROW(then(s, ring_all_reduce({0, 3, 0})), Error);
  EXPECT_THROW(then(s, double_tree_all_reduce({0, 3, 0})), Error);
  EXPECT_THROW(on({0}, 4, s), Error);
  EXPECT_THROW(on({0, 4}, 4, s), Error);
  EXPECT_THROW(on({0, -1}, 4, s), Error);
  EXPECT_THROW(on({1, 1}, 4, s), Error);
  EXPECT_THROW(widen(s, 0), Error);
  EXPECT_THROW(within(-1, 4, s), Error);
  EXPECT_THROW(within(3, 4, s), Error);
}

// ---- the graph ---------------------------------------------------------------------------------

Schedule random_schedule(std::mt19937& random) {
  auto below = [&](int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random); };
  Schedule s{0, 4, 1 + below(6), {}, {}};
  s.scratch.assign(below(4), 0);
  const int total = s.chunks + static_cast<int>(s.scratch.size());
  const int steps = below(60);
  for (int i = 0; i < steps; ++i) {
    const auto kind = static_cast<StepKind>(below(5));
    const int count = 1 + below(std::min(total, 3));
    const Span a{below(total - count + 1), count}, b{below(total - count + 1), count}, none{0, 0};
    const bool local = kind == StepKind::reduce || kind == StepKind::copy;
    s.steps.push_back({kind, local ? -1 : 1 + below(3), kind == StepKind::send ? none : a,
                       local || kind == StepKind::send ? b : none});
  }
  return s;
}

bool overlap(Span a, Span b) { return a.first < b.first + b.count && b.first < a.first + a.count; }
// Spans that a step does not use are empty and overlap nothing.
bool conflict(const Step& a, const Step& b) {
  return overlap(a.dst, b.dst) || overlap(a.dst, b.src) || overlap(a.src, b.dst);
}

using Reach = std::vector<std::vector<bool>>;

Reach closure(int steps, const std::function<bool(int, int)>& edge) {
  Reach reach(steps, std::vector<bool>(steps, false));
  for (int i = steps - 1; i >= 0; --i) {
    for (int j = i + 1; j < steps; ++j) {
      if (!edge(i, j)) continue;
      reach[i][j] = true;
      for (int k = j + 1; k < steps; ++k) reach[i][k] = reach[i][k] || reach[j][k];
    }
  }
  return reach;
}

TEST(DerivedGraph, ReachesExactlyWhatBruteForceReaches) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const Schedule s = random_schedule(random);
    const int steps = static_cast<int>(s.steps.size());
    const Graph graph = derive(s);
    ASSERT_EQ(graph.offset.size(), s.steps.size() + 1);
    ASSERT_EQ(graph.predecessors.size(), s.steps.size());
    ASSERT_EQ(static_cast<size_t>(graph.offset.back()), graph.successor.size());
    std::vector<int32_t> predecessors(steps, 0);
    for (int i = 0; i < steps; ++i) {
      for (int32_t at = graph.offset[i]; at < graph.offset[i + 1]; ++at) {
        const int32_t j = graph.successor[at];
        ASSERT_GT(j, at == graph.offset[i] ? i : graph.successor[at - 1]) << print(s);
        ASSERT_TRUE(conflict(s.steps[i], s.steps[j])) << print(s);
        ++predecessors[j];
      }
    }
    EXPECT_EQ(predecessors, graph.predecessors);
    auto has_edge = [&](int i, int j) {
      const auto begin = graph.successor.begin();
      return std::binary_search(begin + graph.offset[i], begin + graph.offset[i + 1], j);
    };
    auto conflicts = [&](int i, int j) { return conflict(s.steps[i], s.steps[j]); };
    ASSERT_EQ(closure(steps, has_edge), closure(steps, conflicts)) << print(s);
  }
}

TEST(DerivedGraph, IsLinearInManyReadersAndWriters) {
  // Readers are forgotten by the write that waits for them, so the edges stay few.
  Schedule s{0, 2, 1, {}, {}};
  for (int i = 0; i < 1000; ++i) {
    for (int k = 0; k < 10; ++k) s.send(1, {0});
    s.recv(1, {0});
  }
  EXPECT_LE(derive(s).successor.size(), 2 * s.steps.size());
}

}  // namespace
}  // namespace ringwood
