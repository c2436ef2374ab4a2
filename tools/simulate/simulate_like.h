// The cluster that `ringwood matrix` or `ringwood doctor` has measured, for a simulation.
//
// From the matrix: hosts and their ranks, rails, what a port and a pair of hosts can do, and what
// is slow, as faults. What cores and memory do, and latency, are the measured parameters of the
// group (MachineModel) that it carries. A rail that is slow at all hosts, and what is left of rails
// while all of them are busy, are faults of the rail at every host.
#pragma once

#include <string>
#include <vector>

#include "tools/matrix/matrix.h"
#include "tools/simulation/network.h"

namespace ringwood::tools {

struct LikeFault {
  SlowPath::Kind kind = SlowPath::Kind::link;
  int from = -1, to = -1;  // hosts; -1: all of them
  int rail = -1;           // -1: there is one
  double part = 1;         // that is left
  std::string text;        // in the names of the matrix
};

struct LikeCluster {
  MachineModel machine;  // without places
  int hosts = 0;
  int ranks_per_host = 0;  // 0: hosts have different numbers
  double pair = 0;         // NetworkShape::pair
  std::vector<LikeFault> faults;
};

// Throw Error(invalid_argument) for a file that is not one of theirs.
Matrix read_like_matrix(const std::string& file);
LikeCluster read_like(const std::string& file);

// Those between the first `hosts` hosts, which may be more than were measured.
void add_faults(const LikeCluster& cluster, int hosts, Faults& faults,
                std::vector<std::string>& texts);

}  // namespace ringwood::tools
