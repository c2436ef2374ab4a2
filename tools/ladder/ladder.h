// `ringwood perf --ladder`: where the time goes between a port and torch.
//
//   port         what the kernel says of it: the time that the bytes take at that rate
//   raw socket   plain sends and receives on one TCP connection
//   raw verbs    RDMA writes of perftest, where it is installed and both hosts have RDMA ports
//   link         a link of ours, over the transport that the group uses
//   collective   an operation of a group
//   torch        the same, called from Python
//
// Every rung does the same (rungs.h): two ranks send each other so many bytes at the same time. All
// of them are measured in one run, in turns, so that a slow moment of a machine hits all; medians
// count. The ranks are rank 0 and the first one on another host, or rank 1.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tools/launch.h"

namespace ringwood::tools {

struct LadderOptions {
  std::vector<size_t> sizes;  // bytes, ascending; empty: 8 B to 16 MiB
  int repeats = 9;
  std::vector<std::string> transports;
  std::chrono::milliseconds timeout{0};  // 0: that of the environment
  LaunchOptions launch;
  std::optional<std::string> json, html;  // files; json "-": standard output
};

// The exit code. Throws Error(invalid_argument) before anything is started.
int run_ladder(const LadderOptions& options);

struct LadderRow {
  std::string name, what;
  // It was not measured, or not to the end: sizes without a time have 0. "": it was.
  std::string why_not;
  std::vector<double> seconds;  // by size
  bool beside = false;          // the rungs above do not stand on it: sockets below a link of verbs

  bool has(size_t size) const { return size < seconds.size() && seconds[size] > 0; }
  bool measured() const;  // for a size at least
};
struct Ladder {
  std::vector<size_t> sizes;
  std::vector<LadderRow> rows;  // from the port up
  std::string ranks;            // "rank 0 on one, rank 1 on other"
};

// What a rung takes more than the one that it stands on: the next one below that was measured and
// is not beside. Negative where it is faster.
struct LadderLoss {
  size_t size = 0;  // an index of Ladder::sizes
  std::string from, to;
  double seconds = 0, factor = 1;
};
// All of a size, from below: the lowest rung's own time and the losses are together the time of the
// highest. A port has no latency: it is the lowest one only where its time is a tenth of the next
// one's at least.
struct LadderSum {
  size_t size = 0;  // an index of Ladder::sizes
  std::string base, whole;
  double base_seconds = 0, whole_seconds = 0;
  std::vector<LadderLoss> losses;
};
// Of each size for which a rung was measured.
std::vector<LadderSum> all_losses(const Ladder& ladder);
// Of each size the rung that takes most more.
std::vector<LadderLoss> largest_losses(const Ladder& ladder);

std::string print_table(const Ladder& ladder);
std::string print_json(const Ladder& ladder);
void write_html(const Ladder& ladder, const std::string& file);

}  // namespace ringwood::tools
