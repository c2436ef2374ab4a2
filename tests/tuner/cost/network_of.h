// Machines of which only the network costs anything, to compare with formulas.
#pragma once

#include <numeric>
#include <utility>
#include <vector>

#include "collectives/tuner/machine/machine_model.h"

namespace ringwood {

inline constexpr double kBeta = 0.8e-9;  // seconds of a host's interface for a byte

// Only the network costs anything.
inline MachineModel network_of(std::vector<int> hosts) {
  constexpr double kFree = 1e17;
  MachineModel f;
  f.hosts = std::move(hosts);
  f.cores = 64;
  f.copy = f.reduce = {kFree, kFree, kFree};
  f.exchanged = {kFree, kFree, kFree};
  f.memory = f.handed = f.net.copied = kFree;
  f.call = f.post = f.look = f.latency = f.yield = f.net.latency = f.net.post = 0;
  f.eager = f.net.eager = 1e12;
  f.net.nic = 1 / kBeta;
  return f;
}

// One rank on each.
inline MachineModel network_of(int hosts) {
  std::vector<int> places(hosts);
  std::iota(places.begin(), places.end(), 0);
  return network_of(std::move(places));
}

}  // namespace ringwood
