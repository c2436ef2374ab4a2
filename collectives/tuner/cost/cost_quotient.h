// A schedule on one host in place of many: its quotient by a symmetry of the hosts.
//
// Where hosts are alike, a schedule that treats them alike need be simulated on one of them. Its
// ranks are real; a message to rank j of another host is received by rank j of this host, which
// sends the same message in its turn. Prices are those of the message's true ends; but some hosts
// reach by one relation a near host and others a far one (Binder in cost_model.cc).
//
// No algorithm declares its symmetry: it is tried. A commutative group acts on the numbers of the
// hosts, digit by digit in a mixed radix: {H} is rotation (rings, direct exchange, dissemination),
// {2, 2, ...} exclusive or (recursive doubling and halving), other factors of H what is composed of
// both. A group is that of a row if the ranks of some other hosts do what those of host 0 do,
// turned by the group. The i-th send and the i-th receive then meet that have the same key: sender
// and receiver by their index on their host, and the relation of the two hosts.
//
// The hosts that are compared are samples. A row that is symmetric on these only would be costed
// wrongly, never run wrongly; tests/tuner/cost/cost_quotient.cc compares all hosts, for the rows of
// the table. Pure.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "collectives/tuner/cost/placement.h"

namespace ringwood {

class HostSymmetry final {
 public:
  // Lowest digit first; their product is the placement's number of hosts.
  HostSymmetry(SharedPlacement placement, std::vector<int> factors)
      : placement_(std::move(placement)), factors_(std::move(factors)) {}

  const std::vector<int>& factors() const { return factors_; }
  // How host `to` is reached from host `from`: the digits of the difference. 0: they are the same.
  int relation(int from, int to) const;
  // The host that is reached so. relation(from, host_from(from, r)) == r.
  int host_from(int from, int relation) const;
  // The part of the hosts to which those that are reached so are far; of a sibling, in the group.
  double far_part(int relation) const;
  int host_of(int rank) const { return placement_->hosts.host[rank]; }
  int index_of(int rank) const { return placement_->hosts.index[rank]; }
  int hosts() const { return placement_->hosts.count(); }
  const std::vector<int>& ranks_of(int host) const { return placement_->hosts.ranks[host]; }
  const std::vector<int>& ranks_of_first_host() const { return ranks_of(0); }

 private:
  SharedPlacement placement_;
  std::vector<int> factors_;
};

// Whether `a` and `b`, of ranks with the same index on their hosts, are the same schedule for the
// symmetry.
bool alike(const Schedule& a, const Schedule& b, const HostSymmetry& symmetry);

// All symmetries that are tried, rotation first. Precondition: a regular placement.
std::vector<HostSymmetry> symmetries_of(const SharedPlacement& placement);

// Returns the schedule of one rank; the same each time.
using BuildRank = std::function<Schedule(int rank)>;

// The symmetry that sampled hosts show. `first`: the schedules of the ranks of host 0.
// Precondition: a regular placement of several hosts.
std::optional<HostSymmetry> symmetry_of(const SharedPlacement& placement,
                                        const std::vector<Schedule>& first, const BuildRank& build);

}  // namespace ringwood
