// What RAS's reports say of a rank, taken from a sample. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collectives/schedule/collective.h"
#include "tools/top/sample.h"

namespace ringwood::tools {

// NCCL's word for a collective, "AllReduce".
std::string nccl_name(Collective collective);

struct RasRank {
  int rank = 0, device = 0, pid = 0;
  std::string host, node;  // node: equal on one host, and on no other
  bool missing = false, unresponsive = false, dead = false, aborted = false;
  std::map<std::string, uint64_t> counts;  // calls begun, by collective
};

std::vector<RasRank> ras_ranks(const GroupView& view, const GroupLines& lines);

}  // namespace ringwood::tools
