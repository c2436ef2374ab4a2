// The simulation of all hosts by one against closed forms, and against that of every message.
#include "collectives/simulate/waves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "tests/simulate/simulated.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

// Nothing where the row has no symmetry.
std::optional<Outcome> waves_of(const AlgorithmRow& row, const Load& load,
                                const MachineModel& machine, const NetworkShape& shape = {},
                                const Faults& faults = {}) {
  const Network network(machine, static_cast<int>(machine.hosts.size()), shape, faults);
  const auto host = bind_host_traffic(request_of(row, load, machine), machine, network);
  if (!host) return {};
  WavesRequest request;
  request.faults = &faults;
  return run_waves(*host, run_host(*host, machine), network, request);
}

TEST(Waves, Explore) {
  const int hosts = std::getenv("WH") ? std::atoi(std::getenv("WH")) : 16;
  const int k = 8;
  MachineModel base;
  base.cores = k;
  const MachineModel machine = on_hosts(base, hosts, k);
  const int n = hosts * k;
  NetworkShape rails;
  rails.rails = 2;
  NetworkShape by_rank = rails;
  by_rank.use = RailUse::by_rank;
  NetworkShape leaves;
  leaves.leaf = 4;
  leaves.uplinks = 4;
  struct Case {
    const char* name;
    NetworkShape shape;
    Faults faults;
  };
  std::vector<Case> cases = {{"healthy", {}, {}}, {"slow host", {}, {}}, {"slow port", rails, {}},
                             {"dead rail", rails, {}}, {"dead by rank", by_rank, {}},
                             {"slow by rank", by_rank, {}},
                             {"slow rank", {}, {}}, {"late", {}, {}}, {"uplinks", leaves, {}},
                             {"2 dead uplinks", leaves, {}}};
  add_slow_port(cases[1].faults, "host5=0.25");
  add_slow_port(cases[2].faults, "host5/rail1=0.25");
  add_dead_port(cases[3].faults, "host5/rail1");
  add_dead_port(cases[4].faults, "host5/rail1");
  add_slow_port(cases[5].faults, "host5/rail1=0.25");
  add_slow_rank(cases[6].faults, "rank42=0.1");
  add_late_rank(cases[7].faults, "rank42=5ms");
  add_dead_uplink(cases[9].faults, "leaf1/0-1");
  for (const size_t bytes : {size_t{64} << 20, size_t{1} << 20, size_t{16} << 10})
    for (const AlgorithmRow& row : algorithm_table()) {
      const Where where{0, n, 0, machine.hosts, machine.nodes};
      if (!row.accepts(where) || !moves_data(row.collective)) continue;
      Load load = load_of(row.collective, bytes, n);
      load.agreement = true;
      std::string line;
      for (const Case& c : cases) {
        const auto waves = waves_of(row, load, machine, c.shape, c.faults);
        if (!waves) break;
        const Outcome events = events_of(row, load, machine, c.shape, c.faults);
        line += fmt::format(" {}:{:.1f}/{:+.1f}%", c.name, events.seconds * 1e3,
                            (waves->seconds / events.seconds - 1) * 100);
      }
      if (!line.empty())
        fmt::print("{} {} {}:{}\n", to_string(row.collective), row.name, bytes, line);
    }
}

}  // namespace
}  // namespace ringwood
