// A trace as a time line for ui.perfetto.dev and chrome://tracing (Chrome's JSON): a process for
// each rank with its operations, their steps, and arrows from each send to its receive; and a
// second one with what the cost model predicts, from the last rank's call on.
#pragma once

#include <deque>
#include <ostream>
#include <vector>

#include "tools/trace/dumps.h"
#include "tools/trace/predicted.h"

namespace ringwood::tools {

// `predictions`: by group.
void write_perfetto(std::ostream& out, const std::vector<TracedGroup>& groups,
                    std::deque<Predictions>& predictions, const DumpsProgress& tell = {});

}  // namespace ringwood::tools
