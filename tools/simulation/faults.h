// What is wrong with the hosts and the network of a simulation, in the form in which a user says
// it:
//
//   slow         host7/rail1=0.5, host7=0.5   the port, or all ports of the host, at that rate
//                host7/out=0.5, host7/rail1/in=0.5    only what it sends, or receives
//   slow link    host2-host3=0.25             from one host to the other one, on all rails, or
//                host2-host3/rail1=0.25       on that one
//   dead         host3/rail0                  the port
//   dead uplink  leaf0/3, leaf0/rail1/0-7     uplinks of a leaf switch, in the plane of a rail (0);
//                pod0/3                       or of a pod of leaves
//   slow rank    rank5=0.1                    its thread gets a tenth of its core
//   late         rank3=5ms                    it calls that much later; s, ms, us, ns
//
// Plain values. Numbers are not compared with what the group has; Network and require_ranks() do
// so.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectives/tuner/machine/machine_model.h"

namespace ringwood {

enum class PortWay : uint8_t { both, out, in };
struct PortFault {
  int host = 0, rail = -1;  // -1: all rails
  double rate = 0;          // fraction that remains
  PortWay way = PortWay::both;
};
// Of what one host can send to the other one; not of what they exchange with others.
struct PairFault {
  int from = 0, to = 0;  // hosts
  int rail = -1;         // -1: all rails
  double rate = 1;       // fraction that remains
};
enum class UplinkTier : uint8_t { leaf, pod };
struct UplinkFault {
  UplinkTier tier = UplinkTier::leaf;
  int part = 0;  // the leaf, or pod
  int rail = 0;
  int first = 0, last = 0;
};
struct RankFault {
  int rank = 0;
  double value = 0;  // fraction of its core that remains, or seconds that it is late
};

struct Faults {
  std::vector<PortFault> ports;
  std::vector<PairFault> links;
  std::vector<UplinkFault> uplinks;
  std::vector<RankFault> slow, late;
  bool any() const;
};

// Throws Error(invalid_argument) where a fault names a rank that is not one of n.
void require_ranks(const Faults& faults, int n);

// Each adds one fault. Throws Error(invalid_argument) with the form that is wanted, or for a port,
// link or rank that has one already.
void add_slow_port(Faults& faults, std::string_view text);
void add_slow_link(Faults& faults, std::string_view text);
void add_dead_port(Faults& faults, std::string_view text);
void add_dead_uplink(Faults& faults, std::string_view text);
void add_slow_rank(Faults& faults, std::string_view text);
void add_late_rank(Faults& faults, std::string_view text);

// What a machine model knows of slow ports: the lower rate of both ways, and nothing of dead ones.
std::vector<HostException> exceptions_of(const std::vector<PortFault>& ports);

// "5ms", "2.5us": seconds. `what` is for the error: throws Error(invalid_argument).
double parse_seconds(std::string_view what, std::string_view text);

}  // namespace ringwood
