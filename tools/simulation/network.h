// The network of a simulation: which links a message between two hosts passes, and at what rates.
//
//                core 0       core 1     ...         above pods of leaves, where there are any
//                  |            |                    `pod_uplinks` of each pod in a plane
//              spine 0      spine 1      ...         a plane of spines for each rail
//              |      \    /      |
//            leaf 0    \  /     leaf 1               `uplinks` of each leaf in a plane, one to each
//           /  |  \            /  |  \               of its spines, each as fast as a port
//        host host host     host host host           a port for each rail of a host and direction
//
// - The rails of a host together are its network interface (NetworkParameters), in equal parts.
// - A message that is striped is cut into pieces, which go over all rails that both hosts have
//   alive, most of them over those that are least busy; a small one has a single piece (as in
//   transports/verbs). Or each rank has a rail of its own, by its index on its host, as GPUs have;
//   a message takes that of the lower of its two ranks (machine_model.h).
// - From one host to another one there may be less than their ports could take: of all pairs, as
//   where one flow gets only its part of a port, or of one, whose link is slow.
// - Between leaves, and pods, the switches choose uplinks by a hash, or route adaptively
//   (switches.h). With several queue pairs a message that is cut takes several of them.
// - Between the devices of a memory node each rank has a port of its own, in and out (NVLink).
//
// A rate is a fraction of the host's whole network interface, or, of an island, of a rank's port.
// Pure and immutable; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collectives/tuner/busiest.h"
#include "collectives/tuner/machine/machine_model.h"
#include "tools/simulation/faults.h"
#include "tools/simulation/network_shape.h"
#include "tools/simulation/switches.h"

namespace ringwood {

// The links that some pairs of hosts have for themselves, numbered from `first` on.
class PairLinks final {
 public:
  static constexpr int kMaxHosts = 1024;

  PairLinks() = default;
  // Throws as Network does.
  PairLinks(const NetworkShape& shape, int hosts, const std::vector<PairFault>& faults, int first);
  // -1: none.
  int32_t find(int from, int to, int rail) const {
    return links_.empty() ? -1 : links_[index(from, to, rail)];
  }
  const std::vector<double>& rates() const { return rates_; }
  bool has(int32_t link) const { return !rates_.empty() && link >= first_; }
  struct Ends {
    int from, to, rail;
  };
  Ends ends(int32_t link) const;

 private:
  size_t index(int from, int to, int rail) const {
    return (static_cast<size_t>(from) * hosts_ + to) * rails_ + rail;
  }
  int hosts_ = 0, rails_ = 0, first_ = 0;
  std::vector<int32_t> links_;  // by index(); empty: no pair has one
  std::vector<double> rates_;
};

class Network final {
 public:
  using Path = NetworkPath;
  static constexpr int kMaxRails = 16;

  // Throws Error(invalid_argument) where a fault names what is not there, or leaves no way between
  // two hosts.
  Network(const MachineModel& machine, int ranks, const NetworkShape& shape, const Faults& faults);

  int links() const { return static_cast<int>(rates_.size()); }
  double rate(int32_t link) const { return rates_[link]; }
  // "host7/rail1 out", "leaf0/rail0 uplink 3 up"
  std::string name(int32_t link) const;
  Limit kind(int32_t link) const;
  // The link of another network of as many rails and uplinks that is there what `link` is here,
  // with the numbers that hosts and ranks of this one have there.
  struct Numbers {
    std::function<int(int)> host, rank;
  };
  int32_t link_in(const Network& other, int32_t link, const Numbers& numbers) const;
  const NetworkShape& shape() const { return shape_; }
  int hosts() const { return hosts_; }
  int host_of(int rank) const { return host_[rank]; }

  // Between two hosts: the paths that the message's pieces can take, rail by rail; at least one.
  void paths(int from, int to, std::vector<Path>& paths) const;
  // In an island: the sender's and the receiver's port.
  std::array<int32_t, 2> island_path(int from, int to) const;
  // A host's link, and the path over this rail, which is alive at both ends.
  int port(int host, int rail, bool in) const { return (2 * host + in) * shape_.rails + rail; }

 private:
  void add_faults(const std::vector<PortFault>& faults);
  void require_ways() const;
  Path path(int from, int to, int rail, int queue_pair) const;
  void add_paths(int from, int to, int rail, std::vector<Path>& paths) const;

  NetworkShape shape_;
  int hosts_ = 0;
  int first_uplink_ = 0, first_island_ = 0;  // links
  std::vector<int> host_, index_;            // by rank
  std::vector<double> rates_;                // by link; 0: dead
  Switches switches_;
  PairLinks pairs_;  // their links come last
};

}  // namespace ringwood
