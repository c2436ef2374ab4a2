// Forks ranks, watches over them and names the one that failed; see launch.h for the rules.
#pragma once

#include <functional>
#include <string>

namespace ringwood::tools {

// Tells the parent what went wrong; the first report of all ranks is the one that is printed.
using ErrorReport = std::function<void(const std::string& text)>;

struct ForkOptions {
  int ranks = 1;
  bool pin = true;        // rank i runs on the i-th core that this process may use, if enough are
  bool finishes = false;  // rule 3 of launch.h
};

// Runs body(rank, report) in each child and returns the command's exit code. No thread may exist
// yet. Throws Error(system).
int fork_ranks(const ForkOptions& options,
               const std::function<int(int rank, const ErrorReport& report)>& body);

}  // namespace ringwood::tools
