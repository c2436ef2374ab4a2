// What is extended from smaller groups, and what one host stands for, against closed forms and
// against the simulation of every message.
#include "tools/simulation/extension.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "tests/simulation/simulated.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif

RowRequest request_of(Collective collective, const char* row, const Load& load) {
  return {find_algorithm(collective, row), 0, 1, load};
}

std::optional<Outcome> extended(const RowRequest& row, const MachineModel& machine,
                                double most_messages, const NetworkShape& shape = {},
                                const Faults& faults = {}) {
  const auto group = placement_of(machine, static_cast<int>(machine.hosts.size()));
  auto extension = Extension::of(row, group, shape, faults, {most_messages, most_messages});
  if (!extension) return {};
  extension->simulate_clean({});
  return extension->run(faults, shape, {});
}

Load agreed_load(Collective collective, size_t bytes, int n) {
  Load load = load_of(collective, bytes, n);
  load.agreement = true;
  return load;
}

TEST(Extension, AgreesWithTheory) {
  constexpr double kAlpha = 5e-6, kBeta = 1 / 12.5e9;
  for (const Closed& closed : kClosed)
    for (const int n : {64, 512})
      for (const size_t bytes : {size_t{1024} * static_cast<size_t>(n), size_t{64} << 20}) {
        const Load load = load_of(closed.collective, bytes, n);
        const MachineModel machine = network_only(n, kAlpha, kBeta);
        const RowRequest row = request_of(closed.collective, closed.row, load);
        const auto one = simulate_one_host(row, placement_of(machine, n));
        const auto smaller = extended(row, machine, 5000);
        const double theory = closed.seconds(n, static_cast<double>(bytes), kAlpha, kBeta);
        for (const auto& found : {one, smaller}) {
          ASSERT_TRUE(found) << closed.row;
          EXPECT_NEAR(found->seconds / theory, 1, 1e-3) << fmt::format(
              "{} {}, {} ranks, {} bytes", to_string(closed.collective), closed.row, n, bytes);
        }
      }
}

// A port of half the rate is never without a message that waits for it, so only bytes count there.
TEST(Extension, ASlowPortDelaysTheWholeRing) {
  constexpr double kAlpha = 5e-6, kBeta = 1 / 12.5e9;
  constexpr size_t kBytes = size_t{2} << 30;
  const int n = 16'384;
  Faults faults;
  add_slow_port(faults, "host777=0.5");
  const auto found = extended(
      request_of(Collective::all_gather, "ring", load_of(Collective::all_gather, kBytes, n)),
      network_only(n, kAlpha, kBeta), 20'000, {}, faults);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->seconds / ((n - 1) * 2.0 * kBytes / n * kBeta), 1, 0.01);
}

struct Fault {
  std::string what;
  NetworkShape shape;
  Faults faults;
};

std::vector<Fault> all_faults() {
  NetworkShape rails, by_rank, leaves;
  rails.rails = by_rank.rails = 2;
  by_rank.use = RailUse::by_rank;
  leaves.leaf = 2;
  leaves.uplinks = 2;
  std::vector<Fault> all = {{"slow host", {}, {}},
                            {"slow port", rails, {}},
                            {"dead rail", rails, {}},
                            {"slow port of a rank", by_rank, {}},
                            {"dead rail of a rank", by_rank, {}},
                            {"slow rank", {}, {}},
                            {"late rank", {}, {}},
                            {"uplinks", leaves, {}},
                            {"dead uplink", leaves, {}},
                            {"slow link", {}, {}}};
  add_slow_port(all[0].faults, "host5=0.25");
  for (const int i : {1, 3}) add_slow_port(all[i].faults, "host5/rail1=0.25");
  for (const int i : {2, 4}) add_dead_port(all[i].faults, "host5/rail1");
  add_slow_rank(all[5].faults, "rank42=0.1");
  add_late_rank(all[6].faults, "rank42=5ms");
  add_dead_uplink(all[8].faults, "leaf1/0");
  add_slow_link(all[9].faults, "host5-host6=0.25");
  return all;
}

struct Compared {
  Collective collective;
  const char* row;
  double within;  // of what every message's simulation says
};

// What is late in the first half of `direct` competes with the second one.
const Compared kCompared[] = {
    {Collective::all_reduce, "ring", 0.02},
    {Collective::all_reduce, "bidirectional_ring", 0.02},
    {Collective::reduce_scatter, "ring", 0.02},
    {Collective::all_gather, "hierarchical_ring", 0.05},
    {Collective::all_to_all, "pairwise", 0.05},
    {Collective::all_reduce, "direct", 0.16},
    {Collective::all_reduce, "hierarchical", 0.11},
    {Collective::all_reduce, "halving_doubling", 0.12},
    {Collective::all_reduce, "double_tree", 0.07},
    {Collective::broadcast, "binomial", 0.1},
};

void compare(const Compared& c, size_t bytes, const Fault& fault) {
  constexpr int kHosts = 32, kRanks = kHosts * kRanksOfAHost;
  MachineModel machine = hosts_of_eight(kHosts);
  machine.net.rails = fault.shape.rails;
  machine.net.rail_of_rank = fault.shape.use == RailUse::by_rank;
  const Load load = agreed_load(c.collective, bytes, kRanks);
  const RowRequest row = request_of(c.collective, c.row, load);
  const auto found = extended(row, machine, 20'000, fault.shape, fault.faults);
  const std::string what =
      fmt::format("{} {} of {} bytes, {}", to_string(c.collective), c.row, bytes, fault.what);
  ASSERT_TRUE(found) << what;
  const double whole = events_of(*row.row, load, machine, fault.shape, fault.faults).seconds;
  EXPECT_NEAR(found->seconds / whole, 1, c.within) << what;
}

// Of rows with n messages a rank, which every message's simulation takes long for, some faults say
// enough.
bool with_n_messages(const Compared& c) {
  return c.within <= 0.05 || std::string(c.row) == "direct";
}

TEST(Extension, SmallMessagesAreDelayedByFaultsAsInTheWhole) {
  const std::vector<Fault> faults = all_faults();
  for (const Compared& c : kCompared)
    for (size_t i = 0; i < faults.size(); i += with_n_messages(c) ? 4 : 1) {
      compare(c, 64 << 10, faults[i]);
      if (kSlow) break;
    }
}

TEST(Extension, LargeMessagesAreDelayedByFaultsAsInTheWhole) {
  const std::vector<Fault> faults = all_faults();
  for (const Compared& c : kCompared)
    for (size_t i = 0; i < faults.size(); i += with_n_messages(c) ? 4 : 1) {
      compare(c, size_t{64} << 20, faults[i]);
      if (kSlow) break;
    }
}

TEST(Extension, NamesTheRanksAndLinksThatAreSlow) {
  constexpr int kHosts = 64, kRanks = kHosts * kRanksOfAHost;
  const MachineModel machine = hosts_of_eight(kHosts);
  const RowRequest row = request_of(Collective::all_gather, "ring",
                                    agreed_load(Collective::all_gather, size_t{64} << 20, kRanks));
  Faults faults;
  add_slow_port(faults, "host45=0.25");
  const Outcome slow = *extended(row, machine, 20'000, {}, faults);
  const Network network(machine, kRanks, {}, faults);
  EXPECT_EQ(network.name(slow.links.front().link), "host45/rail0 out");
  EXPECT_GT(slow.links.front().busy, 0.9 * slow.seconds);
  EXPECT_EQ(slow.finish.size(), size_t{kRanks});
  Faults late;
  add_late_rank(late, "rank420=3s");
  const Outcome waited = *extended(row, machine, 20'000, {}, late);
  EXPECT_NEAR(waited.seconds, 3, 0.3);
  EXPECT_EQ(waited.finish, extended(row, machine, 20'000, {}, late)->finish);
}

TEST(Extension, NeedsHostsOfOneSizeAndRoomForWhatIsKept) {
  MachineModel machine = hosts_of_eight(32);
  const RowRequest row =
      request_of(Collective::all_reduce, "ring", agreed_load(Collective::all_reduce, 1 << 20, 256));
  EXPECT_TRUE(extended(row, machine, 20'000));
  EXPECT_FALSE(extended(row, machine, 1000));
  Faults many;
  for (int h = 0; h < 9; ++h) add_slow_port(many, fmt::format("host{}=0.5", h));
  EXPECT_FALSE(extended(row, machine, 20'000, {}, many));
  machine.hosts.back() = 0;
  EXPECT_FALSE(extended(row, machine, 20'000));
}

}  // namespace
}  // namespace ringwood
