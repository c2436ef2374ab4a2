// The switches above the hosts' ports: a tier of leaves, and one of pods of leaves.
//
// A message between two leaves goes up from one and down to the other, and between two pods, up
// from the pod and down to the other one as well. In each tier switches choose an uplink by a hash
// of the two ranks, the rail, the queue pair and a seed, among those that are alive: at both ends,
// which have the same number, where both are below the same spines, else at each for itself. Or
// they route adaptively, and all uplinks of a leaf, or pod, in a plane are one link as fast as
// those that are alive. Each uplink is as fast as a port.
//
// Pure and immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/simulation/faults.h"
#include "tools/simulation/network_shape.h"

namespace ringwood {

// The links that a message passes between two hosts, over one rail.
struct NetworkPath {
  static constexpr int kMaxLinks = 7;  // two ports, the pair's own, and two in each tier
  std::array<int32_t, kMaxLinks> links{};
  int count = 0;
  int ports = 0;  // the first so many are those of the rail, whatever the queue pair
  int rail = 0;
  bool first_of_rail = true;  // other queue pairs of the rail follow
  void add(int32_t link) { links[count++] = link; }
  std::span<const int32_t> all() const { return {links.data(), static_cast<size_t>(count)}; }
  std::span<const int32_t> of_ports() const { return all().first(static_cast<size_t>(ports)); }
  std::span<const int32_t> above() const { return all().subspan(static_cast<size_t>(ports)); }
};

// Of a leaf or of a pod; the highest that there is, 1 where there are no switches.
int hosts_below(const NetworkShape& shape, UplinkTier tier);
int hosts_of_unit(const NetworkShape& shape);

class Switches final {
 public:
  Switches() = default;
  // Links are numbered from `first` on. Throws Error(invalid_argument) where a fault names what is
  // not there, or leaves no way between two leaves or pods.
  Switches(const NetworkShape& shape, int hosts, const std::vector<UplinkFault>& dead, int first);

  const std::vector<double>& rates() const { return rates_; }  // by link; 0: dead
  // Of two ranks on these hosts.
  struct Flow {
    int from, to;
    int from_host, to_host;
    int rail, queue_pair;
  };
  void add_links(const Flow& flow, NetworkPath& path) const;
  // "leaf0/rail0/3 up"
  std::string name(int32_t link) const;
  // The first host of the link's leaf or pod; and the link of switches of the same shape that is
  // to the leaf, or pod, of one of their hosts what `link` is to its own.
  int first_host(int32_t link) const;
  int32_t link_in(const Switches& other, int32_t link, int host_there) const;

 private:
  struct Tier {
    UplinkTier name;
    int hosts;    // of one of its parts
    int uplinks;  // of a part in each plane
    int parts;
    int first;               // its links, counted from the first of all
    std::vector<char> lame;  // by part: some of its uplinks are dead
  };
  struct Place {
    const Tier* tier;
    int part, rail, index;
    bool down;
  };
  void add_tier(UplinkTier name, int hosts, int uplinks, int all_hosts);
  Place place(int32_t link) const;
  int link(const Tier& tier, int part, int rail, int index, bool down) const {
    return tier.first + ((2 * part + down) * rails_ + rail) * tier.uplinks + index;
  }
  void kill(const UplinkFault& fault);
  void require_ways(const Tier& tier) const;
  // Two parts of a tier. They meet where the same switches are above both.
  struct Ends {
    int from, to;
    bool meet;
  };
  bool meet(const Tier& tier, int host, int other) const;
  // Numbers of uplinks, of those that lead up from one end, or down to the other one.
  std::vector<int> alive(const Tier& tier, const Ends& ends, int rail, bool down) const;
  void join(const Tier& tier);
  int pick(const Tier& tier, const Ends& ends, const Flow& flow, bool down) const;

  int rails_ = 1, first_ = 0;
  bool adaptive_ = false;
  std::vector<Tier> tiers_;  // the lowest first
  std::vector<double> rates_;
  std::vector<uint64_t> salt_;  // by rail, for the hash
};

}  // namespace ringwood
