// A row of the table among some ranks, as the tests of the simulation use it.
#pragma once

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/plan/plan.h"
#include "tools/simulation/events.h"

namespace ringwood::testing {

// Ranks numbered host by host.
inline MachineModel on_hosts(MachineModel machine, int hosts, int ranks_per_host) {
  machine.hosts.clear();
  for (int r = 0; r < hosts * ranks_per_host; ++r) machine.hosts.push_back(r / ranks_per_host);
  return machine;
}

inline constexpr int kRanksOfAHost = 8;
inline MachineModel hosts_of_eight(int hosts) {
  MachineModel base;
  base.cores = kRanksOfAHost;
  return on_hosts(base, hosts, kRanksOfAHost);
}

// Only the network costs anything: alpha seconds for a message, beta for each byte.
inline MachineModel network_only(int n, double alpha, double beta) {
  constexpr double kFree = 1e17;  // bytes/s
  MachineModel m;
  m.hosts.resize(n);
  std::iota(m.hosts.begin(), m.hosts.end(), 0);
  m.cores = 64;
  m.copy = m.reduce = {kFree, kFree, kFree};
  m.exchanged = {kFree, kFree, kFree};
  m.memory = m.handed = m.net.copied = kFree;
  m.call = m.post = m.look = m.latency = m.yield = m.net.post = 0;
  m.eager = m.net.eager = 1e15;
  m.net.latency = alpha;
  m.net.nic = 1 / beta;
  return m;
}

// As `bytes` of `ringwood simulate`: of the whole buffer, or of n blocks.
inline Load load_of(Collective collective, size_t bytes, int n) {
  Load load{collective, bytes, 4};
  if (in_blocks(collective)) load.bytes = std::max<size_t>(4, bytes / static_cast<size_t>(n));
  if (!moves_data(collective)) load.bytes = 0;
  return load;
}

// What a row takes by the textbooks where only the network costs anything.
struct Closed {
  Collective collective;
  const char* row;
  // Of n ranks and S bytes.
  double (*seconds)(double n, double S, double alpha, double beta);
};

inline double log2_of(double n) { return std::log2(n); }

inline const Closed kClosed[] = {
    {Collective::all_reduce, "ring",
     [](double n, double S, double a, double b) { return 2 * (n - 1) * (a + S / n * b); }},
    {Collective::all_reduce, "halving_doubling",
     [](double n, double S, double a, double b) {
       return 2 * log2_of(n) * a + 2 * (n - 1) / n * S * b;
     }},
    {Collective::all_reduce, "direct",
     [](double n, double S, double a, double b) { return 2 * a + 2 * (n - 1) / n * S * b; }},
    {Collective::all_reduce, "recursive_doubling",
     [](double n, double S, double a, double b) { return log2_of(n) * (a + S * b); }},
    {Collective::all_gather, "ring",
     [](double n, double S, double a, double b) { return (n - 1) * (a + S / n * b); }},
    {Collective::reduce_scatter, "ring",
     [](double n, double S, double a, double b) { return (n - 1) * (a + S / n * b); }},
};

inline TrafficRequest request_of(const AlgorithmRow& row, const Load& load,
                                 const MachineModel& machine, int segments = 1) {
  TrafficRequest request;
  request.n = static_cast<int>(machine.hosts.size());
  request.build = [&row, &machine, n = request.n](int rank) {
    return row.build({rank, n, 0, machine.hosts, machine.nodes});
  };
  request.segments = segments;
  request.load = load;
  return request;
}

inline Outcome events_of(const AlgorithmRow& row, const Load& load, const MachineModel& machine,
                         const NetworkShape& shape = {}, const Faults& faults = {}) {
  const Network network(machine, static_cast<int>(machine.hosts.size()), shape, faults);
  EventsRequest request;
  request.faults = &faults;
  return run_events(bind_traffic(request_of(row, load, machine), machine), machine, network,
                    request);
}

}  // namespace ringwood::testing
