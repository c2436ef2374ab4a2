// One clock for all ranks of a group: that of rank 0's host.
//
// The ranks of a host share the monotonic clock. Between hosts rank 0 exchanges messages with the
// first rank of each; of the quickest exchange the middle is taken to be the moment of the answer.
// So the error is at most half of that round trip, plus what the clocks drift apart afterwards
// (some microseconds per second): align() again before a measurement. Thread safety: none.
#pragma once

#include <vector>

#include "tools/gather.h"

namespace ringwood::tools {

class GroupClock final {
 public:
  // Collective, as gather_hosts() has told.
  GroupClock(Communicator& group, const std::vector<HostRanks>& hosts);

  void align();                                       // collective; nothing on one host
  double now_s() const;                               // on rank 0's clock
  double error_us() const { return error_s_ * 1e6; }  // bound of what two ranks differ by

 private:
  double exchange_as_first(int peer);

  Communicator& group_;
  const std::vector<HostRanks>& hosts_;
  double ahead_s_ = 0;  // what this host's clock shows more than rank 0's
  double error_s_ = 0;
};

}  // namespace ringwood::tools
