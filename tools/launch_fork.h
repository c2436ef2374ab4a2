// Forks ranks, watches over them and names the one that failed; see launch.h for the rules.
#pragma once

#include <functional>
#include <string>

namespace ringwood::tools {

// Tells the parent what went wrong; the first report of all ranks is the one that is printed.
using ErrorReport = std::function<void(const std::string& text)>;

// Runs body(rank, report) in `ranks` children and returns the command's exit code. No thread may
// exist yet. `pin`: rank i runs on the i-th core that this process may use, where there are enough.
// Throws Error(system).
int fork_ranks(int ranks, bool pin,
               const std::function<int(int rank, const ErrorReport& report)>& body);

}  // namespace ringwood::tools
