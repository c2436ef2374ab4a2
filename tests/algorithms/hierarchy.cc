// Hierarchical rows on hosts of every shape: proved, and no byte crosses between hosts in vain.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "collectives/algorithms/algorithms.h"
#include "collectives/schedule/compose.h"
#include "collectives/verify/verify.h"

namespace ringwood {
namespace {

struct Topology {
  const char* name;
  std::vector<int> host;
  int n() const { return static_cast<int>(host.size()); }
};

const Topology kTopologies[] = {
    {"of_1x3", {0, 0, 0}},
    {"of_2x1", {0, 1}},
    {"of_2x2", {0, 0, 1, 1}},
    {"of_2x3", {0, 0, 0, 1, 1, 1}},
    {"of_2x4", {0, 0, 0, 0, 1, 1, 1, 1}},
    {"of_3x3", {0, 0, 0, 1, 1, 1, 2, 2, 2}},
    {"of_4x2", {0, 0, 1, 1, 2, 2, 3, 3}},
    {"of_6x2", {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}},
    {"unequal_2_1", {0, 0, 1}},
    {"unequal_1_4_2", {0, 1, 1, 1, 1, 2, 2}},
    {"unequal_3_5_4_3_2", {0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4}},
    {"interleaved_2x2", {0, 1, 0, 1}},
    {"interleaved_3x3", {0, 1, 2, 0, 1, 2, 0, 1, 2}},
    {"scattered_unequal", {5, -3, 5, 9, 9, -3, 5, 9}},
};

class EveryTopology : public ::testing::TestWithParam<Topology> {
 protected:
  const std::vector<int>& host() const { return GetParam().host; }
  int n() const { return GetParam().n(); }
  int hosts() const { return static_cast<int>(sizes().size()); }
  std::map<int, int> sizes() const {
    std::map<int, int> result;
    for (int h : host()) ++result[h];
    return result;
  }
  Where where(int root = 0) const { return {0, n(), root, host()}; }

  // Chunks that leave and enter each host.
  struct Traffic {
    std::map<int, int> out, in;
    std::map<int, int> out_of_rank, into_rank;
    int chunks = 0;
  };
  Traffic traffic(Collective collective, const char* name, int root = 0) const {
    Traffic result;
    for (int h : host()) result.out[h] = result.in[h] = 0;
    for (const Schedule& s : build_all(*find_algorithm(collective, name), where(root))) {
      result.chunks = s.chunks;
      for (const Step& step : s.steps) {
        if (step.kind != StepKind::send || host()[step.peer] == host()[s.rank]) continue;
        result.out[host()[s.rank]] += step.src.count;
        result.in[host()[step.peer]] += step.src.count;
        result.out_of_rank[s.rank] += step.src.count;
        result.into_rank[step.peer] += step.src.count;
      }
    }
    return result;
  }
  bool of_one_size() const {
    const std::map<int, int> sizes = this->sizes();
    const auto other = [&](const auto& host) { return host.second != sizes.begin()->second; };
    return std::none_of(sizes.begin(), sizes.end(), other);
  }
  bool has_hierarchy() const { return hosts() > 1 && hosts() < n(); }
};

TEST_P(EveryTopology, IsServedByEveryRowThatAcceptsIt) {
  int hierarchical = 0;
  for (const AlgorithmRow& row : algorithm_table()) {
    if (!row.accepts(where())) continue;
    const bool of_hosts = std::string_view(row.name).starts_with("hierarchical");
    hierarchical += of_hosts && has_hierarchy();
    for (int root = 0; root < (has_root(row.collective) ? n() : 1); ++root) {
      for (int segment_count : {1, 3}) {
        EXPECT_EQ(verify(row, n(), root, segment_count, host()).value_or(""), "")
            << to_string(row.collective) << ' ' << row.name << " root " << root;
      }
    }
  }
  // all_reduce, reduce and broadcast in three ways; all_gather and reduce_scatter in two;
  // all_to_all; on hosts of one size all_gather and reduce_scatter in two more, all_to_all in one.
  EXPECT_EQ(hierarchical, has_hierarchy() ? (of_one_size() ? 19 : 14) : 0);
}

// Lower bounds: all others' operands, as one sum at least, must enter each host, and its own leave;
// H hosts that share the work evenly do so with 2 (H-1)/H of the buffer each way.
TEST_P(EveryTopology, CarriesNoMoreThanItMustAcross) {
  if (!has_hierarchy()) return;
  for (const char* row : {"hierarchical", "hierarchical_direct"}) {
    const Traffic reduced = traffic(Collective::all_reduce, row);
    for (const auto& [h, size] : sizes()) {
      EXPECT_EQ(reduced.out.at(h) * hosts(), 2 * (hosts() - 1) * reduced.chunks) << row << ' ' << h;
      EXPECT_EQ(reduced.in.at(h) * hosts(), 2 * (hosts() - 1) * reduced.chunks) << row << ' ' << h;
    }
  }
  const Traffic gathered = traffic(Collective::all_gather, "hierarchical");
  const Traffic scattered = traffic(Collective::reduce_scatter, "hierarchical");
  for (const auto& [h, size] : sizes()) {
    EXPECT_EQ(gathered.in.at(h), n() - size) << h;
    EXPECT_EQ(gathered.out.at(h), size * (hosts() - 1)) << h;
    EXPECT_EQ(scattered.out.at(h), n() - size) << h;
    EXPECT_EQ(scattered.in.at(h), size * (hosts() - 1)) << h;
  }
  for (const char* row : {"hierarchical_pat", "hierarchical_ring"}) {
    if (!of_one_size()) break;
    for (const Collective c : {Collective::all_gather, Collective::reduce_scatter}) {
      const Traffic flat = traffic(c, row);
      for (const auto& [h, size] : sizes()) {
        EXPECT_EQ(flat.out.at(h), n() - size) << row << ' ' << h;
        EXPECT_EQ(flat.in.at(h), n() - size) << row << ' ' << h;
      }
    }
  }
  for (const char* row : {"hierarchical", "hierarchical_knomial", "hierarchical_striped"}) {
    for (int root = 0; root < n(); ++root) {
      const Traffic down = traffic(Collective::broadcast, row, root);
      const Traffic up = traffic(Collective::reduce, row, root);
      for (const auto& [h, size] : sizes()) {
        const int once = h == host()[root] ? 0 : down.chunks;
        EXPECT_EQ(down.in.at(h), once) << row << ' ' << h;
        EXPECT_EQ(up.out.at(h), once) << row << ' ' << h;
      }
    }
  }
}

// With a rail for each index, no byte changes rails; and the partners across are few.
TEST_P(EveryTopology, TalksAcrossByIndex) {
  if (!has_hierarchy() || !of_one_size()) return;
  const struct {
    Collective collective;
    const char* name;
    int partners;  // at most
  } rows[] = {{Collective::all_reduce, "hierarchical", hosts() - 1},
              {Collective::all_reduce, "hierarchical_direct", hosts() - 1},
              {Collective::all_gather, "hierarchical", hosts() - 1},
              {Collective::reduce_scatter, "hierarchical", hosts() - 1},
              {Collective::all_gather, "hierarchical_pat", 5},
              {Collective::reduce_scatter, "hierarchical_pat", 5},
              {Collective::all_gather, "hierarchical_ring", 2},
              {Collective::reduce_scatter, "hierarchical_ring", 2},
              {Collective::all_to_all, "hierarchical", hosts() - 1},
              {Collective::broadcast, "hierarchical_striped", 4},
              {Collective::reduce, "hierarchical_striped", 4}};
  std::map<int, int> seen;
  std::vector<int> index;
  for (const int h : host()) index.push_back(seen[h]++);
  for (const auto& [collective, name, partners] : rows)
    for (const Schedule& s : build_all(*find_algorithm(collective, name), where())) {
      std::set<int> across;
      for (const Step& step : s.steps) {
        if (step.peer < 0 || host()[step.peer] == host()[s.rank]) continue;
        across.insert(step.peer);
        EXPECT_EQ(index[step.peer], index[s.rank]) << to_string(collective) << ' ' << name;
      }
      EXPECT_LE(static_cast<int>(across.size()), partners) << to_string(collective) << ' ' << name;
    }
}

TEST_P(EveryTopology, SharesTheWayAcrossAmongTheRanksOfAHost) {
  if (!has_hierarchy()) return;
  int smallest = n();
  for (const auto& [h, size] : sizes()) smallest = std::min(smallest, size);
  const Traffic reduced = traffic(Collective::all_reduce, "hierarchical");
  std::set<int> shares;
  for (const auto& [rank, chunks] : reduced.out_of_rank) shares.insert(chunks);
  EXPECT_EQ(reduced.out_of_rank.size(), static_cast<size_t>(smallest * hosts()));
  EXPECT_EQ(shares.size(), 1u);
  // The leaders alone go out.
  const Traffic led = traffic(Collective::all_reduce, "hierarchical_leaders");
  EXPECT_EQ(led.out_of_rank.size(), static_cast<size_t>(hosts()));
  // Whatever the root, each owner of a shard takes both of its halves, or gives them.
  for (int root = 0; root < n(); ++root) {
    const Traffic down = traffic(Collective::broadcast, "hierarchical_striped", root);
    const Traffic up = traffic(Collective::reduce, "hierarchical_striped", root);
    EXPECT_EQ(down.chunks, 2 * smallest);
    EXPECT_EQ(down.into_rank.size(), static_cast<size_t>(smallest * (hosts() - 1)));
    EXPECT_EQ(up.out_of_rank, down.into_rank);
    for (const auto& [rank, chunks] : down.into_rank) EXPECT_EQ(chunks, 2) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryTopology, ::testing::ValuesIn(kTopologies),
                         [](const auto& info) { return std::string(info.param.name); });

// Memory nodes inside hosts: three levels.
struct Nodes {
  std::vector<int> host, node;
};
const Nodes kNodes[] = {
    {{}, {0, 0, 1, 1}},
    {{}, {0, 1, 0, 1, 0}},
    {{}, {2, 0, 0, 0, 2, 1, 1}},
    {{0, 0, 0, 0, 1, 1, 1, 1}, {0, 0, 1, 1, 2, 2, 3, 3}},
    {{0, 0, 0, 0, 1, 1}, {0, 0, 1, 1, 2, 2}},
    {{0, 1, 0, 1, 0, 1, 0, 1}, {0, 2, 1, 3, 0, 2, 1, 3}},
    {{0, 0, 0, 0, 0, 1, 1, 1, 1, 2}, {0, 0, 0, 1, 1, 2, 2, 3, 3, 4}},
};

TEST(Hierarchy, NodesAreALevelOfTheirOwn) {
  for (const Nodes& nodes : kNodes) {
    const int n = static_cast<int>(nodes.node.size());
    int rows = 0;
    for (const AlgorithmRow& row : algorithm_table()) {
      if (std::string_view(row.name) != "hierarchical_nodes") continue;
      if (!row.accepts(Where{0, n, 0, nodes.host, nodes.node})) continue;
      ++rows;
      for (int root = 0; root < (has_root(row.collective) ? n : 1); ++root)
        EXPECT_EQ(verify(row, n, root, 2, nodes.host, nodes.node).value_or(""), "")
            << to_string(row.collective) << " root " << root;
    }
    // On several hosts it is for all_reduce alone.
    EXPECT_EQ(rows, nodes.host.empty() ? 5 : 1) << n;
  }
}

// Each host's share crosses once, whatever its nodes.
TEST(Hierarchy, NodesCarryNoMoreBetweenHosts) {
  const Nodes& nodes = kNodes[3];
  const AlgorithmRow& row = *find_algorithm(Collective::all_reduce, "hierarchical_nodes");
  int chunks = 0;
  std::map<int, int> out;
  for (const Schedule& s : build_all(row, {0, 8, 0, nodes.host, nodes.node})) {
    chunks = s.chunks;
    for (const Step& step : s.steps)
      if (step.kind == StepKind::send && nodes.host[step.peer] != nodes.host[s.rank])
        out[nodes.host[s.rank]] += step.src.count;
  }
  EXPECT_EQ(out, (std::map<int, int>{{0, chunks}, {1, chunks}}));
}

TEST(Hierarchy, NodesOfOneRankOrOneNodeForAHostAreNone) {
  const AlgorithmRow& row = *find_algorithm(Collective::all_reduce, "hierarchical_nodes");
  const std::vector<int> hosts = {0, 0, 1, 1}, each = {0, 1, 2, 3};
  EXPECT_FALSE(row.accepts(Where{0, 4, 0, hosts, hosts}));
  EXPECT_FALSE(row.accepts(Where{0, 4, 0, hosts, each}));
}

TEST(Hierarchy, IsRefusedWhereThereIsNone) {
  const std::vector<int> one_host(4, 7), one_each = {0, 1, 2, 3};
  for (const AlgorithmRow& row : algorithm_table()) {
    if (!std::string_view(row.name).starts_with("hierarchical")) continue;
    EXPECT_FALSE(row.accepts(4)) << row.name;
    EXPECT_FALSE(row.accepts(Where{0, 4, 0, one_host})) << row.name;
    EXPECT_FALSE(row.accepts(Where{0, 4, 0, one_each})) << row.name;
  }
}

}  // namespace
}  // namespace ringwood
