// `ringwood tune`: measures, on a group's own hosts, what else could carry out each collective than
// the predicted best, and writes the tuning file (collectives/tuner/tuning/tuning_file.h) that
// groups on such hosts then use.
//
// For each size every row of the table is predicted, in several segments; those within --factor of
// the best are measured against one another (contest.h). A row takes the place of the default only
// where its interval clears the default's by 2 %, and only for sizes at which the default is the
// one that it has beaten.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/kernels/reduce.h"
#include "tools/launch.h"
#include "tools/perf/perf_operations.h"

namespace CLI {
class App;
}

namespace ringwood::tools {

struct TuneOptions {
  std::vector<const OperationRow*> operations;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  std::vector<size_t> sizes;  // bytes, ascending
  int root = 0;
  double tolerance = 0;
  std::string memory = "private";
  std::vector<std::string> files;  // schedules as texts: FILE, or COLLECTIVE=FILE
  double factor = 3;               // of the best prediction
  int most = 12;                   // contenders for a size
  double seconds = 120;            // for all of them
  int repetitions = 25;            // at most
  bool links = false;              // first the settings of the links (link_settings.h)
  uint64_t seed = 0;               // 0: of the clock
  std::string output;              // the file; empty: as RINGWOOD_TUNING_FILE says, or the cache
  std::optional<std::string> json, html;
  LaunchOptions launch;
};

// Declares the subcommand. When it is given, `exit_code` is set: 0; 1 if a contender's result was
// wrong or the run failed.
void add_tune_command(CLI::App& app, int& exit_code);

// Throws Error(invalid_argument) for what cannot be tuned, before anything is started.
int run_tune(const TuneOptions& options);

}  // namespace ringwood::tools
