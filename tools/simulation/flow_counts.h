// All hosts' flows that are on their way, counted link by link: how much longer a flow takes where
// flows meet on the uplinks of leaf switches, or where rails are dead and others carry their flows.
// It takes longer by what its links have more to carry in its middle than the ports of a network
// where all hosts are alike. Part of flow_delays.h. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/simulation/delays.h"
#include "tools/simulation/events.h"

namespace ringwood {

// How a flow uses its paths.
struct FlowSpread {
  double share = 1;     // of it, that is on each
  bool pieces = false;  // it is cut into pieces for all of them
};
FlowSpread spread_of(const CostMessage& price, RailUse use, int paths);

class FlowCounts final {
 public:
  // All are memory of the caller. `ports_alike`: all hosts' ports carry the same flows, and only
  // uplinks are looked at.
  FlowCounts(const Traffic& traffic, const HostSymmetry& symmetry, const Network& network,
             bool ports_alike);

  // A flow begins on all hosts (1), or ends (-1).
  void count(const JobRecord& flow, double times);
  // In its middle: adds by how much longer it takes, by sender. It is of so many seconds of a
  // host's whole network interface.
  void measure(const JobRecord& flow, double seconds, HostDelays& delays);
  // Seconds of the link at its full rate; for ports only where they are not alike.
  double busy(int32_t link) const { return amount_[link] / network_.rate(link); }

 private:
  int rails() const { return network_.shape().rails; }
  bool by_rank() const { return network_.shape().use == RailUse::by_rank; }
  const TrafficMessage& ends(const JobRecord& flow) const { return traffic_.messages[flow.index]; }
  FlowSpread spread(const JobRecord& flow, int paths) const;
  // Of a flow where all ports are alike.
  int first_rail(const JobRecord& flow) const;
  int paths_of_a_host() const { return by_rank() ? 1 : rails(); }
  template <class Visit>
  void each_crossing(const JobRecord& flow, int rail, const Visit& visit) const;
  void measure_uplinks(const JobRecord& flow, double seconds);
  void find_paths(const JobRecord& flow, int host);
  double slowest(const Network::Path& path) const;
  void measure_links(const JobRecord& flow, double seconds);

  const Traffic& traffic_;
  const HostSymmetry& symmetry_;
  const Network& network_;
  const HostMoves moves_;
  const bool ports_alike_;
  std::vector<int> leaf_;             // by host
  std::vector<double> on_rail_;       // of one host in each direction, where all are alike
  std::vector<double> on_link_;       // of all hosts; of ports where they are not alike
  std::vector<double> amount_;        // by link, seconds of a host's whole interface
  std::vector<double> slow_, speed_;  // by host, of the flow that is measured
  std::vector<Network::Path> paths_;
};

}  // namespace ringwood
