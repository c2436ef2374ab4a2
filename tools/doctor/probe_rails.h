// Hosts that have several RDMA rails: each rail by itself, between all pairs of hosts.
//
// What ranks send is spread over all rails of a host, so one slow rail of eight is 6 % of the sum
// and looks like nothing. Here each rail gets a group of its own, whose ranks use that port only,
// and the rounds of tools/matrix over it; rails are then judged by each other (find_slow_rails).
//
// Collective; results are the same on all ranks. Throws the first group's Error; what a rail's own
// group fails with is something that was not checked.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "tools/doctor/rules/rules.h"
#include "tools/matrix/matrix.h"

namespace ringwood::tools::doctor {

// A group of the same ranks, which uses only these ports: RINGWOOD_VERBS_DEVICES. `number`: another
// one for each group.
using MakeGroup =
    std::function<std::unique_ptr<Communicator>(const std::string& ports, int number)>;

struct RailProbe {
  std::optional<Matrix> matrix;  // of each rail that was measured; none: there are not several
  std::vector<NotChecked> not_checked;
};

// `together`: the matrix over all rails.
RailProbe probe_rails(Communicator& group, const Snapshots& hosts, size_t mine,
                      const Matrix& together, const MakeGroup& make,
                      const std::function<void(const std::string&)>& progress);

}  // namespace ringwood::tools::doctor
