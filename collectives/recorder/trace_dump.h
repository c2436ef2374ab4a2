// What a rank recorded, as the text of a file for `ringwood trace`: one JSON object, at most about
// 10 MB.
//   format      "ringwood-trace-1"
//   group, session, rank, size, hosts     RecordedGroup; hosts by rank
//   host        this host's name
//   machine     the parameters by which the group chose (machine_model.h), as one line
//   clock       [[at_ns, offset_ns, uncertainty_ns], ...]: to be added to times of this file for
//               those of rank 0; between two entries linear. Empty: nothing is known
//   error       why the group ended, or ""
//   now_ns      when this was written
//   ways        by rank: what the link to it goes over, "rail 1 (mlx5_1/1)", "tcp over eth0"
//   operations  records.h, in the order of their ends; names instead of numbers; times in ns
//   running     likewise, those that have not ended
//   steps       [[sequence, step, kind, peer, bytes, posted_ns, completed_ns], ...]
#pragma once

#include <string>
#include <vector>

#include "collectives/recorder/recorder.h"
#include "transports/control/clock_messages.h"

namespace ringwood {

std::string print_dump(const Recorder& recorder, const std::vector<ClockSample>& clock,
                       const std::string& machine, const std::string& error);

// The file appears whole or not at all. Throws Error(system).
void write_whole(const std::string& path, const std::string& text);

}  // namespace ringwood
