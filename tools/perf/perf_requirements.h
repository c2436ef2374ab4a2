// What a run has to reach so that it is not a failure: --min-busbw and --require.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/gather.h"

namespace ringwood::tools {

// --min-busbw: every line that is added has to reach so many GB/s. Only the worst one is kept.
class BusbwFloor final {
 public:
  explicit BusbwFloor(double min_gbs) : min_gbs_(min_gbs) {}
  // `line`: "all_reduce of 64 B"; `gbs`: of its usual time, since a lucky one says little.
  void add(const std::string& line, double gbs);
  // "" where all did; else a sentence that names the worst.
  std::string why() const;

 private:
  const double min_gbs_;
  std::string worst_;
  double worst_gbs_ = 0;
  size_t lines_ = 0, below_ = 0;
};

// "" where every pair of ranks on different hosts, and at least one pair, uses one of `transports`;
// else a sentence that names the first pair. Collective; the same on all ranks.
std::string other_transport(Communicator& group, const std::vector<HostRanks>& hosts,
                            const std::vector<std::string>& transports);

}  // namespace ringwood::tools
