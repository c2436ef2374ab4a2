// Hosts on leaf switches: what is far costs more, on one host that stands for all as on all of
// them, and what passes the switches' uplinks shares them.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/cost/cost.h"
#include "collectives/tuner/cost/cost_model.h"
#include "collectives/tuner/cost/cost_quotient.h"
#include "tests/tuner/cost/network_of.h"

namespace ringwood {
namespace {

constexpr double kNear = 5e-6, kFar = 50e-6;

// Hosts of one rank, `each` on a leaf switch.
MachineModel on_leaves(int hosts, int each, double far_rate) {
  MachineModel f = network_of(hosts);
  f.net.latency = kNear;
  f.net.far = PathParameters{kFar, far_rate, 1};
  for (int h = 0; h < hosts; ++h) f.net.leaves.push_back(h / each);
  return f;
}

const Candidate& candidate(const std::vector<Candidate>& all, const std::string& row) {
  const auto found = std::ranges::find_if(
      all, [&](const Candidate& c) { return c.algorithm == row && c.segments == 1; });
  return *found;
}

// As the choice predicts it, without the agreement.
double predicted(Collective collective, const std::string& row, size_t bytes,
                 const MachineModel& machine) {
  ModelQuery q;
  q.collective = collective;
  q.n = static_cast<int>(machine.hosts.size());
  q.bytes = in_blocks(collective) ? bytes / static_cast<size_t>(q.n) : bytes;
  q.machine = &machine;
  return candidate(explain(q, {}), row).seconds;
}

// Each block passes every host, and a far path once for each leaf, whoever is simulated: all 16
// hosts, one of 64, or siblings of 512.
TEST(CostOfLeaves, ARingPassesFarPathsOnceForEachLeaf) {
  for (const auto& [hosts, each] : {std::pair{16, 4}, {64, 8}, {64, 16}, {512, 32}}) {
    const MachineModel f = on_leaves(hosts, each, 1 / kBeta);
    const double bytes = 16 << 20;
    const double step = kNear + bytes / hosts * kBeta;
    const double far = std::ceil(static_cast<double>(hosts - 1) / each);
    const double theory = (hosts - 1) * step + far * (kFar - kNear);
    // Meanwhile the first messages are on their way.
    const double agreement = std::max(0.0, std::log2(hosts) * kFar - step);
    EXPECT_NEAR(predicted(Collective::all_gather, "ring", 16 << 20, f) / (theory + agreement), 1,
                0.03)
        << hosts << " hosts, " << each << " on a leaf";
  }
}

// With two uplinks for four ports a ring, which crosses with one flow, is not slower; where all
// cross at once they take twice as long.
TEST(CostOfLeaves, UplinksAreShared) {
  for (const int hosts : {8, 64}) {
    const MachineModel wide = on_leaves(hosts, 4, 1 / kBeta),
                       narrow = on_leaves(hosts, 4, 0.5 / kBeta);
    const auto times = [&](Collective collective, const char* row) {
      const size_t bytes = 256 << 20;
      return predicted(collective, row, bytes, narrow) / predicted(collective, row, bytes, wide);
    };
    EXPECT_NEAR(times(Collective::all_gather, "ring"), 1, 0.02) << hosts;
    // Of hosts - 1 messages 3 stay in the leaf.
    const double far = (hosts - 4.0) / (hosts - 1);
    EXPECT_NEAR(times(Collective::all_to_all, "pairwise"), std::max(1.0, 2 * far), 0.05) << hosts;
  }
}

// What one host says of all is what all say.
TEST(CostOfLeaves, OneHostSaysWhatAllSay) {
  const MachineModel f = on_leaves(16, 4, 0.5 / kBeta);
  const SharedPlacement on = placement_of(f, 16);
  for (const auto& [collective, name] : {std::pair{Collective::all_gather, "ring"},
                                         {Collective::all_reduce, "recursive_doubling"},
                                         {Collective::all_reduce, "halving_doubling"},
                                         {Collective::all_to_all, "pairwise"}}) {
    const AlgorithmRow& row = *find_algorithm(collective, name);
    const auto build = [&](int rank) { return row.build(on->where(rank)); };
    std::vector<Schedule> all;
    for (int r = 0; r < on->n; ++r) all.push_back(build(r));
    const std::vector<Schedule> first = {all[0]};
    const auto symmetry = symmetry_of(on, first, build);
    ASSERT_TRUE(symmetry) << name;
    for (const size_t bytes : {size_t{1} << 10, size_t{16} << 20}) {
      const Load load{collective, bytes};
      const double whole = predict(all, load, f).seconds;
      const double one =
          predict(model_of(plans_of(first, 1, load, f), load, f, &*symmetry), load, f).seconds;
      EXPECT_NEAR(one / whole, 1, 0.05) << name << " of " << bytes;
    }
  }
}

// A tree's siblings pass leaves as the group does: in hosts that are far from all but the next one
// each has its part of the uplinks alone, and each doubling seems to add more.
TEST(CostOfLeaves, SiblingsOfATreeHaveLeaves) {
  constexpr int kHosts = 32, kEach = 8, kOfALeaf = 4;
  MachineModel f = network_of([] {
    std::vector<int> places;
    for (int r = 0; r < kHosts * kEach; ++r) places.push_back(r / kEach);
    return places;
  }());
  f.net.latency = kNear;
  f.net.far = PathParameters{kNear, 0.5 / kBeta, 1};
  for (int h = 0; h < kHosts; ++h) f.net.leaves.push_back(h / kOfALeaf);
  const SharedPlacement on = placement_of(f, kHosts * kEach);
  for (const auto& [collective, name] : {std::pair{Collective::broadcast, "hierarchical_striped"},
                                         {Collective::reduce, "hierarchical_striped"}}) {
    const AlgorithmRow& row = *find_algorithm(collective, name);
    std::vector<Schedule> all;
    for (int r = 0; r < on->n; ++r) all.push_back(row.build(on->where(r)));
    for (const size_t bytes : {size_t{64} << 10, size_t{256} << 10}) {
      const double whole = predict(all, Load{collective, bytes}, f).seconds;
      EXPECT_NEAR(predicted(collective, name, bytes, f) / whole, 1, 0.15) << bytes;
    }
  }
}

}  // namespace
}  // namespace ringwood
