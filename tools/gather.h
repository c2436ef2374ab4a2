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
// Whether it is the first rank of its host.
bool leads_host(const std::vector<HostRanks>& hosts, int rank);
// Whether it is so at one rank at least. Collective.
bool at_any_rank(Communicator& group, bool mine);
// What ranks call "a+b" and "b+c" is "a+b+c", in the order of the ranks. Collective.
std::string gather_names(Communicator& group, const std::string& mine);

}  // namespace ringwood::tools
