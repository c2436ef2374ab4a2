// A group of fewer hosts that resembles a group of many, faults and all, for rows of more messages
// than can be simulated one by one: what it takes with faults beyond what it takes without is
// extended to the group (extension.h).
//
// It has whole pods or leaf switches, or whole hosts where neither is known. Of those that are not
// like the others, as they have faults, late or slow ranks or the root, none is left out: each
// keeps its number, or where there are fewer what is left of it divided by theirs, so that it lies
// to powers of two as it does; the next free number where two would be one. Plain values; pure.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "collectives/tuner/cost/placement.h"
#include "tools/simulation/faults.h"
#include "tools/simulation/network.h"

namespace ringwood {

class SmallerGroup final {
 public:
  // `whole` is regular. `faults`: all that are to be carried out, of what there is. Nothing where
  // `hosts` are not fewer, not whole leaves or pods of `shape`, or not enough for those that are
  // kept.
  static std::optional<SmallerGroup> of(const Placement& whole, int hosts,
                                        const NetworkShape& shape, const Faults& faults, int root);

  const MachineModel& machine() const { return small_->machine; }
  const SharedPlacement& placement() const { return small_; }
  int n() const { return small_->n; }
  int hosts() const { return small_->hosts.count(); }
  // The rank that stands for one of the group, and so for its faults.
  int rank(int of_group) const;
  Faults faults(const Faults& of_group) const;
  // The group's link for which one of this group's network stands.
  int32_t link_of_group(const Network& small, int32_t link, const Network& group) const;

 private:
  SmallerGroup(Hosts group, const NetworkShape& shape);
  int host(int of_group) const;
  int unit(int of_group) const;

  Hosts group_;  // its hosts
  SharedPlacement small_;
  NetworkShape shape_;        // of both
  int size_ = 1;              // hosts of a unit
  std::vector<int> numbers_;  // by unit: its number in the group
  std::vector<int> kept_;     // by unit of the group: its number here; -1: it is like the others
};

}  // namespace ringwood
