// The choice among hundreds and thousands of ranks: large messages cross each host's interface
// about as often as they must, small ones in few rounds, and nothing is refused for its size.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/choice/built_rows.h"
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/choice/row_proofs.h"
#include "tools/draw/draw.h"

namespace ringwood {
namespace {

// Under a sanitizer the smaller ones take the same paths, in a tenth of the time.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
std::vector<int> group_sizes() {
  return kSanitized ? std::vector{128} : std::vector{128, 1024, 16384};
}

constexpr Collective kWithData[] = {
    Collective::all_reduce, Collective::reduce,  Collective::broadcast,  Collective::all_gather,
    Collective::gather,     Collective::scatter, Collective::all_to_all, Collective::reduce_scatter,
};

struct Layout {
  std::string name;
  std::vector<int> hosts;  // by rank
};

// Hosts of 1 and of 8 ranks, hosts that are not alike, ranks dealt out in turn.
std::vector<Layout> layouts(int n) {
  std::vector<Layout> all = {{"hosts of 1", {}}, {"hosts of 8", {}}, {"unlike", {}}, {"dealt", {}}};
  for (int r = 0; r < n; ++r) {
    all[0].hosts.push_back(r);
    all[1].hosts.push_back(r / 8);
    all[2].hosts.push_back((r + 3) / 8);  // 5, 8, 8, ... and 3 on the last
    all[3].hosts.push_back(r % (n / 8));
  }
  return all;
}

ModelQuery query(Collective collective, size_t bytes, const MachineModel& machine) {
  ModelQuery q;
  q.collective = collective;
  q.n = static_cast<int>(machine.hosts.size());
  const bool blocks = required_chunks(collective, q.n) > 0;
  q.bytes = blocks ? std::max<size_t>(4, bytes / static_cast<size_t>(q.n)) : bytes;
  q.machine = &machine;
  return q;
}

MachineModel on(const Layout& layout) {
  MachineModel f;
  f.cores = 8;
  f.hosts = layout.hosts;
  return f;
}

std::vector<int> sizes_of(const std::vector<int>& hosts) {
  std::vector<int> sizes(*std::max_element(hosts.begin(), hosts.end()) + 1, 0);
  for (const int host : hosts) ++sizes[host];
  return sizes;
}

// What some host must let in or out, whatever the algorithm, in bytes.
double must_cross(const ModelQuery& q) {
  const std::vector<int> sizes = sizes_of(q.machine->hosts);
  const double bytes = static_cast<double>(q.bytes), hosts = static_cast<double>(sizes.size());
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  switch (q.collective) {
    case Collective::all_reduce: return 2 * (hosts - 1) / hosts * bytes;
    case Collective::all_gather:
    case Collective::reduce_scatter: return (q.n - *least) * bytes;
    case Collective::gather:
    case Collective::scatter: return (q.n - sizes[0]) * bytes;
    case Collective::all_to_all: return 1.0 * *most * (q.n - *most) * bytes;
    default: return bytes;
  }
}

// What the busiest of `hosts` lets in or out.
double crosses(const AlgorithmRow& row, const ModelQuery& q, const std::vector<int>& hosts) {
  const auto& host = q.machine->hosts;
  std::vector<double> out(sizes_of(host).size(), 0), in(out);
  for (int r = 0; r < q.n; ++r) {
    if (std::find(hosts.begin(), hosts.end(), host[r]) == hosts.end()) continue;
    const Schedule s = row.build({r, q.n, 0, host});
    const bool blocks = required_chunks(q.collective, q.n) > 0;
    const double chunk = static_cast<double>(q.bytes) / (blocks ? 1 : s.chunks);
    for (const Step& step : s.steps) {
      if (step.peer < 0 || host[step.peer] == host[r]) continue;
      const bool sends = step.kind == StepKind::send;
      (sends ? out : in)[host[r]] += (sends ? step.src : step.dst).count * chunk;
    }
  }
  double most = 0;
  for (const auto& direction : {out, in})
    most = std::max(most, *std::max_element(direction.begin(), direction.end()));
  return most;
}

std::vector<int> some_hosts(const std::vector<int>& hosts, int n) {
  const int last = hosts.back(), most = *std::max_element(hosts.begin(), hosts.end());
  if (n > 1024) return {0, most / 2, last};
  std::vector<int> all;
  for (int h = 0; h <= most; ++h) all.push_back(h);
  return all;
}

// The least of every row's segments.
std::map<std::string, double> seconds_of_rows(const ModelQuery& q) {
  std::map<std::string, double> seconds;
  for (const Candidate& c : explain(q, {})) {
    if (!std::isfinite(c.seconds)) continue;
    double& least = seconds.try_emplace(c.algorithm, c.seconds).first->second;
    least = std::min(least, c.seconds);
  }
  return seconds;
}

TEST(ChooseAtScale, OnOneHostTheNetworkCostsNothing) {
  for (const int n : {40, 64, 320})
    for (const int cores : {2, 64})
      for (const Collective collective : kWithData) {
        MachineModel machine = on({"one host", std::vector<int>(static_cast<size_t>(n), 0)});
        machine.cores = cores;
        MachineModel far = machine;
        far.net.latency *= 1000;
        far.net.post *= 1000;
        const ModelQuery q = query(collective, 1024, machine);
        ModelQuery as_far = q;
        as_far.machine = &far;
        const auto seconds = seconds_of_rows(q);
        EXPECT_GE(seconds.size(), 1u);
        EXPECT_EQ(seconds, seconds_of_rows(as_far))
            << to_string(collective) << " of " << n << " ranks on " << cores << " cores";
      }
}

TEST(ChooseAtScale, LargeMessagesCrossTheNetworkFewTimes) {
  for (const auto& [n, bytes] : {std::pair{128, size_t{64} << 20},
                                 {128, size_t{1} << 30},
                                 {1024, size_t{64} << 20},
                                 {16384, size_t{1} << 30}}) {
    if (n > group_sizes().back()) continue;
    for (const Layout& layout : layouts(n)) {
      const MachineModel machine = on(layout);
      for (const Collective collective : kWithData) {
        const ModelQuery q = query(collective, bytes, machine);
        const TuningChoice answer = choose(q, {});
        const AlgorithmRow* row = find_algorithm(collective, answer.algorithm);
        ASSERT_TRUE(row);
        const std::vector<int> hosts = some_hosts(machine.hosts, n);
        const double times = crosses(*row, q, hosts) / must_cross(q);
        if (times <= 1.5) continue;
        // Trees of many hosts: those that cross less often are longer, or there are none.
        EXPECT_TRUE(collective == Collective::broadcast || collective == Collective::reduce);
        const std::map<std::string, double> seconds = seconds_of_rows(q);
        for (const auto& [other, its] : seconds) {
          if (its >= seconds.at(answer.algorithm)) continue;
          EXPECT_GT(crosses(*find_algorithm(collective, other), q, hosts) / must_cross(q),
                    times / 1.5)
              << to_string(collective) << " " << bytes << " n " << n << ", " << layout.name << ": "
              << answer.algorithm << "/" << answer.segments << ", not " << other;
        }
      }
    }
  }
}

// Counted on a machine whose only price is a message's latency, of 1, however many lines it has.
double rounds_of(const AlgorithmRow& row, const ModelQuery& q) {
  MachineModel f;
  f.hosts = q.machine->hosts;
  f.cores = q.n;
  f.look = f.net.latency = 1;
  f.call = f.post = f.latency = f.yield = f.net.post = 0;
  CandidateQuery query;
  query.collective = q.collective;
  query.bytes = q.bytes;
  query.n = q.n;
  RowProfiles profiles(f, q.n);
  const RowBuilder builder(query, f, profiles);
  auto built = builder.build(row, WireFormat::exact);
  builder.bind(*built);
  return built->bounds.latencies -
         std::bit_width(static_cast<unsigned>(q.n - 1));  // without the agreement
}

TEST(ChooseAtScale, SmallMessagesTakeFewRounds) {
  for (const int n : group_sizes()) {
    for (const Layout& layout : layouts(n)) {
      const MachineModel machine = on(layout);
      for (const Collective collective : kWithData) {
        const ModelQuery q = query(collective, 8, machine);
        const AlgorithmRow* row = find_algorithm(collective, choose(q, {}).algorithm);
        ASSERT_TRUE(row);
        EXPECT_LE(rounds_of(*row, q), 2 * std::bit_width(static_cast<unsigned>(n - 1)) + 0.01)
            << to_string(collective) << " n " << n << ", " << layout.name << ": " << row->name;
      }
    }
  }
}

// Each round waits for the turns of all ranks.
TEST(ChooseAtScale, SmallMessagesOfCrowdedRanksTakeTwoRounds) {
  for (const int n : {24, 64, 101, 128, 200}) {
    MachineModel machine;
    machine.cores = 2;
    machine.hosts.assign(static_cast<size_t>(n), 0);
    for (const Collective c : {Collective::all_reduce, Collective::all_gather}) {
      const ModelQuery q = query(c, 8, machine);
      const AlgorithmRow& row = *find_algorithm(c, choose(q, {}).algorithm);
      EXPECT_LE(lay_out(c, build_all(row, {0, n, 0})).rounds, 2) << n << ' ' << row.name;
    }
  }
}

// Also where there are memory nodes, and where sums must be reproducible.
TEST(ChooseAtScale, NoRowIsRefusedForItsSize) {
  for (const int n : group_sizes()) {
    MachineModel machine = on(layouts(n)[1]);
    for (int r = 0; r < n; ++r) machine.nodes.push_back(r / 4);
    for (const Collective collective : kWithData) {
      for (const size_t bytes : {size_t{1} << 20}) {
        ModelQuery q = query(collective, bytes, machine);
        for (const Candidate& c : explain(q, {}))
          EXPECT_TRUE(std::isfinite(c.seconds) || c.why_not.starts_with("not for"))
              << to_string(collective) << " " << c.algorithm << ": " << c.why_not;
        if (!reduces(collective)) continue;
        Options reproducible;
        reproducible.reproducible = true;
        EXPECT_TRUE(find_algorithm(collective, choose(q, reproducible).algorithm)->rank_order);
      }
    }
  }
}

// From 64 MiB on no more than a tenth beyond the least leaves or enters a host.
TEST(ChooseAtScale, LargeMessagesSendTheLeastBetweenHosts) {
  for (const int n : group_sizes()) {
    const MachineModel machine = on(layouts(n)[1]);
    for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter,
                                        Collective::all_reduce, Collective::all_to_all}) {
      for (const size_t bytes : {size_t{64} << 20, size_t{256} << 20, size_t{1} << 30}) {
        const ModelQuery q = query(collective, bytes, machine);
        const AlgorithmRow* row = find_algorithm(collective, choose(q, {}).algorithm);
        ASSERT_TRUE(row);
        EXPECT_LE(crosses(*row, q, some_hosts(machine.hosts, n)), 1.1 * must_cross(q))
            << to_string(collective) << " of " << bytes << " bytes, " << n << ": " << row->name;
      }
    }
  }
}

// Whatever is paid for few roundings.
TEST(ChooseAtScale, SmallFloatsStayNearTheirHosts) {
  for (const int n : group_sizes()) {
    const MachineModel machine = on(layouts(n)[1]);
    for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter}) {
      ModelQuery q = query(collective, size_t{64} << 20, machine);
      q.type = DataType::bfloat16;
      const AlgorithmRow* row = find_algorithm(collective, choose(q, {}).algorithm);
      EXPECT_LE(crosses(*row, q, some_hosts(machine.hosts, n)), 1.5 * must_cross(q)) << row->name;
    }
  }
}

// Half the bytes never take longer than all of them, and little more than half the time where the
// network is the limit; and a sum is then rounded once inside a host and once between hosts.
TEST(ChooseAtScale, SmallFloatsCostNoMoreThanFp32) {
  MachineModel machine;
  machine.cores = 64;
  machine.net.nic = 12.5e9;
  for (const int hosts : {8, 9, 16, 32, 128}) {
    if (kSanitized && hosts > 16) continue;
    machine.hosts.assign(static_cast<size_t>(8 * hosts), 0);
    for (size_t r = 0; r < machine.hosts.size(); ++r) machine.hosts[r] = static_cast<int>(r / 8);
    for (const size_t bytes : {size_t{1} << 20, size_t{64} << 20}) {
      ModelQuery q = query(Collective::all_reduce, bytes, machine);
      q.type = DataType::bfloat16;
      const TuningChoice small = choose(q, {});
      q.type = DataType::float32;
      q.bytes *= 2;
      const double all = choose(q, {}).seconds;
      const bool large = bytes > size_t{1} << 20;
      EXPECT_LE(small.seconds, (large ? 0.65 : 1.1) * all) << small.algorithm << ' ' << hosts;
      Siblings siblings(machine, q.n);
      const AlgorithmRow& row = *find_algorithm(q.collective, small.algorithm);
      EXPECT_LE(sum_roundings(row, siblings), large ? 2 : 7) << row.name << ' ' << hosts;
    }
  }
}

// Latencies in turn: not by a message to every host, at the price of roundings that grow with the
// logarithm of the hosts.
TEST(ChooseAtScale, SmallFloatsInSmallMessagesTakeFewRounds) {
  const MachineModel machine = on(layouts(128)[0]);
  ModelQuery q = query(Collective::all_reduce, size_t{16} << 10, machine);
  q.type = DataType::bfloat16;
  const TuningChoice small = choose(q, {});
  q.type = DataType::float32;
  q.bytes *= 2;
  EXPECT_LE(small.seconds, 1.1 * choose(q, {}).seconds) << small.algorithm;
  Siblings siblings(machine, q.n);
  EXPECT_LE(sum_roundings(*find_algorithm(q.collective, small.algorithm), siblings), 8);
}

// Formats are further candidates: who allows an error gets nothing slower for it.
TEST(ChooseAtScale, ATolerancesChoiceIsNotSlower) {
  MachineModel machine;
  machine.cores = 8;
  for (int r = 0; r < 64; ++r) machine.hosts.push_back(r / 8);
  for (const size_t mib : {1, 16, 64}) {
    ModelQuery q = query(Collective::all_reduce, mib << 20, machine);
    const TuningChoice exact = choose(q, {});
    q.tolerance = 0.016;
    const TuningChoice within = choose(q, {});
    EXPECT_LE(within.seconds, exact.seconds) << mib << " MiB: " << within.algorithm;
  }
}

// A row that gains by shared buffers in one segment gains in many, whether some are simulated or
// none; or it would lose against rows whose segments were simulated.
TEST(ChooseAtScale, EstimatesGainBySharedBuffersAsSimulationsDo) {
  MachineModel machine;
  machine.cores = 8;
  for (int r = 0; r < 64; ++r) machine.hosts.push_back(r / 8);
  const ModelQuery q = query(Collective::all_reduce, size_t{16} << 20, machine);
  std::map<std::string, double> of_one;  // by row: what is left of its time
  int estimates = 0;
  for (const Candidate& c : explain(q, {}))
    if (c.segments == 1 && c.simulated) of_one[c.algorithm] = c.zero_copy_seconds / c.seconds;
  for (const Candidate& c : explain(q, {})) {
    if (c.segments == 1 || c.simulated || !of_one.contains(c.algorithm)) continue;
    const bool gains = of_one[c.algorithm] < 0.99;
    EXPECT_NEAR(c.zero_copy_seconds / c.seconds, of_one[c.algorithm], gains ? 0.06 : 0.13)
        << c.algorithm;
    estimates += gains;
  }
  EXPECT_GT(estimates, 0);
}

// Where each rank of a host has a rail of its own, one rank alone cannot fill them.
TEST(ChooseAtScale, LargeTreesUseEveryRail) {
  MachineModel machine = on(layouts(128)[1]);
  machine.memory = 3e12;
  machine.net.carrier = PathClass::rdma;
  machine.net.rails = 8;
  machine.net.rail_of_rank = true;
  for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
    const ModelQuery q = query(collective, size_t{64} << 20, machine);
    const TuningChoice choice = choose(q, {});
    const double all_rails = static_cast<double>(q.bytes) / machine.net.nic;
    EXPECT_LE(choice.seconds, 2 * all_rails) << to_string(collective) << choice.algorithm;
    EXPECT_GE(choice.seconds, all_rails) << to_string(collective) << choice.algorithm;
  }
}

// Whoever asks for every candidate sees the times by which the choice was made.
TEST(ChooseAtScale, ExplanationsHaveTheTimesOfTheChoice) {
  MachineModel machine;
  for (int r = 0; r < 64; ++r) machine.hosts.push_back(r / 8);
  for (const Collective collective : kWithData) {
    for (const size_t mib : {1, 16, 64}) {
      const ModelQuery q = query(collective, mib << 20, machine);
      const TuningChoice choice = choose(q, {});
      for (const Candidate& c : explain(q, {}))
        if (c.chosen)
          EXPECT_EQ(c.seconds, choice.seconds)
              << to_string(collective) << " of " << mib << " MiB: " << c.algorithm;
    }
  }
}

// The same parameters, wherever they come from.
TEST(ChooseAtScale, AllRanksChooseAlike) {
  for (const int n : {128, 1024}) {
    const MachineModel machine = on(layouts(n)[2]), told = parse_machine_model(print(machine));
    for (const Collective collective : kWithData) {
      for (const size_t bytes : {size_t{8}, size_t{1} << 20}) {
        const TuningChoice here = choose(query(collective, bytes, machine), {});
        EXPECT_EQ(choose(query(collective, bytes, told), {}), here) << here.algorithm;
      }
    }
  }
}

}  // namespace
}  // namespace ringwood
