// Placements of fewer ranks that resemble a group's, on which rows are costed (row_profile.h).
#pragma once

#include <map>
#include <utility>

#include "collectives/tuner/cost/placement.h"

namespace ringwood {

// By hosts and ranks of a host; each is made once. Not thread-safe.
class Siblings final {
 public:
  Siblings(const MachineModel& machine, int n);

  const SharedPlacement& whole() const { return whole_; }
  // Where hosts are not alike, as if all were: as slow as the slowest, and as many ranks on each.
  const SharedPlacement& regular() const { return regular_; }
  // Of regular(); hosts and ranks of a host are at most its own.
  const SharedPlacement& get(int hosts, int ranks_of_a_host);
  // The same with its leaf switches. Null where they are not known, or one.
  const SharedPlacement& with_leaves(int hosts, int ranks_of_a_host);
  // So many hosts of whole(), among them those that are slow, as they are. Null where there are
  // none, too many, or hosts differ in their ranks, too.
  const SharedPlacement& with_slow_hosts(int hosts);

 private:
  SharedPlacement whole_, regular_;
  std::map<std::pair<int, int>, SharedPlacement> siblings_, with_leaves_;
  std::map<int, SharedPlacement> slow_;
};

// A logarithm to base 2, linear between powers of two: no processor's last bit differs.
double doublings(double times);
// What is left of 1 where each doubling of `count` leaves a part; linear likewise.
double left_of_doublings(double part, double count);

}  // namespace ringwood
