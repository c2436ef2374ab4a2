// Which resource a collective keeps busy for most of its time, and so what limits it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ringwood {

// `latency`: none of the others; steps wait for each other. `core`: a rank's thread, or the cores
// of a host. Ports are those of a rail; uplinks are what lies between far hosts. Links of a pair of
// hosts are only in simulated networks (tools/simulation).
enum class Limit : uint8_t { latency, core, memory, port_out, port_in, uplink, pair, island };

inline constexpr size_t kLimits = 8;
// Seconds by Limit.
using BusyByLimit = std::array<double, kLimits>;

inline const char* to_string(Limit limit) {
  switch (limit) {
    case Limit::latency: return "latency";
    case Limit::core: return "core";
    case Limit::memory: return "memory";
    case Limit::port_out: return "port out";
    case Limit::port_in: return "port in";
    case Limit::uplink: return "uplink";
    case Limit::pair: return "link of a pair";
    case Limit::island: return "island";
  }
  return "";
}

struct Busiest {
  Limit resource = Limit::latency;
  double seconds = 0;

  // Another resource; of those that are as busy the first one counts.
  void add(Limit other, double busy) {
    if (busy > seconds) *this = {other, busy};
  }
  void add(const BusyByLimit& busy) {
    for (size_t i = 0; i < busy.size(); ++i) add(static_cast<Limit>(i), busy[i]);
  }
  // Of a collective that takes so long: latency, where nothing is busy for half of the time.
  Limit limit(double whole) const { return 2 * seconds >= whole ? resource : Limit::latency; }
};

}  // namespace ringwood
