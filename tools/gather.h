// What every rank of a group has to say, at every rank.
#pragma once

#include <string>
#include <vector>

#include "collectives/communicator.h"

namespace ringwood::tools {

// Collective: the texts of all ranks, by rank; any bytes, of any size. Throws the group's Error.
std::vector<std::string> gather_texts(Communicator& group, const std::string& mine);

// The ranks of each host, by host_token(); hosts in the order of their first ranks. Collective.
struct HostRanks {
  std::string name;  // as the kernel knows it; the hosts of several containers may share it
  std::vector<int> ranks;
};
std::vector<HostRanks> gather_hosts(Communicator& group);

}  // namespace ringwood::tools
