// How much later than in another, known course of events something is, on each host: what waves.h
// carries from step to step.
//
// A delay is known at a time of that course. Later on it is as much less as time has passed, and
// never less than nothing: what waited in the known course waits less. So a host that nothing has
// disturbed has no delay at all, and 32-bit floats are as exact as is needed, however long the
// course is.
//
// Plain values; the delays of all hosts are shared by all that have the same ones. Times are
// seconds. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/tuner/cost/cost_quotient.h"

namespace ringwood {

struct HostDelays {
  explicit HostDelays(size_t hosts) : of(hosts) {}
  std::vector<float> of;  // by host; at least 0
  float most = 0;         // of all hosts
};

struct Delay {
  double at = 0;
  std::shared_ptr<const HostDelays> by_host;  // null: none

  // Nothing is left of it.
  bool gone(double time) const;
};

// What waits for both; neither is of a time after `at`.
Delay later(const Delay& a, const Delay& b, double at);
// A copy at this time that may be changed; none is all zeros. To be closed by seal().
std::shared_ptr<HostDelays> changeable(const Delay& delay, double at, size_t hosts);
Delay seal(std::shared_ptr<HostDelays> delays, double at);

// From the hosts that send messages to those that receive them, and back.
class HostMoves final {
 public:
  // `symmetry` is memory of the caller.
  explicit HostMoves(const HostSymmetry& symmetry)
      : symmetry_(symmetry), rotates_(symmetry.factors().size() == 1) {}

  // `far`: the host that host 0 sends to.
  Delay to_receivers(const Delay& delay, int far) const;
  Delay to_senders(const Delay& delay, int far) const;
  // The values of senders, by their receivers, and back.
  void to_receivers(const std::vector<float>& from, int far, std::vector<float>& to) const;
  void to_senders(const std::vector<float>& from, int far, std::vector<float>& to) const {
    to_receivers(from, symmetry_.relation(far, 0), to);
  }
  int receiver(int host, int far) const { return symmetry_.host_from(host, far); }
  int sender(int host, int far) const {
    return symmetry_.host_from(host, symmetry_.relation(far, 0));
  }

 private:
  const HostSymmetry& symmetry_;
  const bool rotates_;
};

}  // namespace ringwood
