#include "tools/perf/perf_memory.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "tools/perf/perf_operations.h"
#include "transports/memory/memory_left.h"

namespace ringwood::tools {
namespace {

// For what transports and other programs take meanwhile: an eighth, 4 GiB at most.
constexpr uint64_t kReservedPart = 8;
constexpr uint64_t kMaxReserve = uint64_t{4} << 30;

}  // namespace

size_t memory_of_rank(Communicator& group, const std::vector<HostRanks>& hosts) {
  const uint64_t left = memory_left().bytes;
  const uint64_t usable = left - std::min(left / kReservedPart, kMaxReserve);
  size_t here = 1;
  for (const HostRanks& host : hosts)
    if (std::ranges::count(host.ranks, group.rank()) > 0) here = host.ranks.size();
  auto bytes =
      static_cast<int64_t>(std::min<uint64_t>(usable / here, std::numeric_limits<int64_t>::max()));
  finish(group.all_reduce(&bytes, 1, DataType::int64, ReduceOp::min, synchronous_call()));
  return static_cast<size_t>(bytes);
}

}  // namespace ringwood::tools
