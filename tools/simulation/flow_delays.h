// By how much the network delays a flow between two hosts, on each pair of hosts to which a
// symmetry carries it, compared with a network where all hosts are alike: what waves.h asks.
//
// Two ways. Where only the rates of some ports differ, a flow over them takes longer by what they
// are slower, and not before what has been sent over them. Where flows meet on the uplinks of leaf
// switches, or rails are dead and others carry their flows, they are counted (flow_counts.h). Part
// of waves.h. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "tools/simulation/flow_counts.h"

namespace ringwood {

class FlowDelays final {
 public:
  // All are memory of the caller. `traffic` has a symmetry; `network` is that of all ranks.
  FlowDelays(const Traffic& traffic, const HostSymmetry& symmetry, const Network& network);

  // Whether each flow is to be measured in its middle.
  bool counts() const { return counts_.has_value(); }
  // A flow of that many seconds of a host's whole network interface begins, on all hosts, and ends.
  // In the order of the known course; delays are by sender, and are added.
  void enter(const JobRecord& flow, double seconds);
  void measure(const JobRecord& flow, double seconds, HostDelays& delays);
  void leave(const JobRecord& flow);
  // What slow ports add: at the end of the flow.
  bool delays(const JobRecord& flow) const;
  void end(const JobRecord& flow, double seconds, HostDelays& delays);

  // The delay with which a flow has begun, by what it is at its end: where the others on its ports
  // were less late, it has had more of the ports than in the known course since they were over.
  Delay catch_up(const JobRecord& flow, double seconds, const Delay& delay);
  // Of messages to hosts that far from their senders: those between leaves take so much longer.
  Delay add_latency(int far, double seconds, const Delay& delay, double now) const;

  std::vector<LinkUse> busiest() const;

 private:
  // Until then the ports of a host have been busy with what they have sent: by direction, and by
  // rail where each rank has one.
  using Busy = std::array<std::vector<double>, 2>;

  bool by_rank() const { return network_.shape().use == RailUse::by_rank; }
  int rails() const { return network_.shape().rails; }
  bool broken(int host) const;
  // Of all rails, or of one where each rank has one.
  double rate_of(int host, bool in, int own) const;
  int rail_of(const JobRecord& flow, int from, int to) const;
  bool cut(const JobRecord& flow) const;
  double port_stretch(const JobRecord& flow, double seconds, int from, int to) const;

  const Traffic& traffic_;
  const Network& network_;
  const HostMoves moves_;
  std::optional<FlowCounts> counts_;
  bool others_carry_ = false;            // what dead rails would carry
  std::vector<int> broken_;              // hosts with ports that are not like the others
  std::vector<Busy> busy_;               // of them
  std::vector<double> known_;            // by rail: in the known course, both directions
  std::vector<float> out_, in_, moved_;  // by host: how late flows on its ports are, about
  std::vector<double> sent_;             // seconds of rails' work, of a host, by rail
};

}  // namespace ringwood
