// Measures the paths between hosts, by one rank of each, over the links that the group has.
//
// Rank 0 leads: it sends each host a step, carries out its own, and awaits all reports, so a stage
// begins on all hosts at about the same time (group_model.h).
//
//   stage   a host of number h, of H                             result
//   ping    20 round trips with h^1                              latency of the near path
//   alone   growing transfers to h^1, one way, even h first      rate of the near path, and what
//                                                                it passes at once
//   near    transfers to h^1, both ways, all pairs at once       the same, both ways
//   far     round trips with h + H/2, then transfers to it, both latency and rate of the far
//           ways, all hosts at once                              path, both ways
//   busy    messages of 8 bytes and then transfers with h^1,     a core's time for a message and
//           both ways, all pairs at once, asleep in between      for a byte
//
// Where each rank uses one rail of its host (rail_leaders.h), ping, near and far are repeated for
// each further rail, one after the other, by the first ranks that use it: 20 ms each.
//
// The first rail: meant to take at most 100 ms where the rate is at least 100 Mbit/s; 8 hosts that
// shared 2 cores took up to 146. A rate is that of whole transfers, acknowledged: buffers on the
// way make the end of one look much faster. The first long one does not count, because a token
// bucket's burst makes it faster. Of two others alone the better one does, since interruptions only
// ever add; for that reason near is measured twice.
#pragma once

#include "collectives/tuner/machine/link_talk.h"
#include "collectives/tuner/machine/probe_messages.h"

namespace ringwood {

// The part of a transfer's time that its bytes took. Latencies are part of a long transfer only, so
// one that takes most of its time was measured while something else had the processor.
double seconds_of_bytes(double whole, double latency);

class Probe final {
 public:
  // Both outlive it.
  Probe(LinkTalk& talk, const Mesh& mesh) : talk_(talk), mesh_(mesh) {}
  // Throws Error: as LinkTalk, or for a step that names no rank.
  ProbeReport carry_out(const ProbeStep& step);

 private:
  void measure_rate(int to, ProbeReport& report);
  void receive_transfers(int from);
  double both_ways(const ProbeStep& step);
  int near_results() const;
  double streamed(const ProbeStep& step);
  void measure_core(const ProbeStep& step, ProbeReport& report);

  LinkTalk& talk_;
  const Mesh& mesh_;
  double near_latency_ = 0, far_latency_ = 0;  // 0: not measured
};

}  // namespace ringwood
