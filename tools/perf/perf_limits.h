// The least time that an operation can take on these machines, from what they were seen to do a
// moment before: how fast all ranks at once copy memory, and what hosts send each other.
//
// 1. Memory: a rank has to read what it adds or moves and write what it keeps, all ranks of a host
//    at the same time. Counted are the bytes that buffers shared by all ranks would need, as
//    copies of so many bytes; private buffers need more. The rate is that of memcpy of blocks of
//    the operation's size, so caches help as they help the operation.
// 2. Links: the bytes that have to enter or leave the host with most of them, at the rate at which
//    each host sends to the next one and receives from the one before at the same time, by
//    messages of several MiB of all its ranks.
// The bound is the larger one. A better loop than memcpy can be a little faster. Not given below
// 16 KiB, where times are latencies. Thread safety: none.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "tools/gather.h"
#include "tools/perf/perf_operations.h"

namespace ringwood::tools {

class Limits final {
 public:
  Limits(Communicator& group, const std::vector<HostRanks>& hosts) : group_(group), hosts_(hosts) {}

  // Collective; the same on all ranks. `bytes` as reported: of the whole buffer.
  std::optional<double> min_us(const OperationRow& row, size_t bytes);
  // Bytes/s of a host, each direction; measured at the first call. 0 on one host. Collective.
  double link_rate();
  // Bytes/s that a rank copies while all do, by the size of the copy; so far.
  const std::map<size_t, double>& copy_rates() const { return copy_rates_; }

 private:
  double copy_rate(size_t bytes);
  double round_seconds(const std::vector<std::byte>& out, std::vector<std::byte>& in, int next,
                       int previous);

  Communicator& group_;
  const std::vector<HostRanks>& hosts_;
  std::map<size_t, double> copy_rates_;
  std::optional<double> link_rate_;
};

}  // namespace ringwood::tools
