// `ringwood perf`: times collectives, checks their results, says which algorithm and transport were
// used.
//
// What is timed. A batch is a row of operations behind one barrier; its time per operation is that
// of the slowest rank. Reported are the best and the median of several batches. Touched: every
// operation has its own barrier and clock; every rank writes its input before the barrier and reads
// its output before the clock stops, as an application does. Without that, an operation may find
// its data in the caches where the last one left them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/kernels/reduce.h"
#include "collectives/plan/proved_schedules.h"
#include "tools/launch.h"
#include "tools/perf/perf_operations.h"
#include "tools/perf/perf_report.h"
#include "tools/perf/perf_trial.h"

namespace CLI {
class App;
}

namespace ringwood::tools {

struct NcclTestsOptions;  // nccl_tests/nccl_trial.h

// Instead of operations, the calls of a recorded run (perf_replay.h).
struct ReplayOptions {
  std::string trace, group;  // "": none; its only one
  bool gaps = false;         // with the run's pauses
};

struct PerfOptions {
  std::vector<const OperationRow*> operations;
  std::vector<DataType> types;
  std::vector<ReduceOp> ops;
  std::vector<size_t> sizes;  // bytes, ascending
  TrialOptions trial;
  bool check = true;
  BufferKind memory = BufferKind::ordinary;
  int root = 0;
  bool all_roots = false;
  // None: chosen by the communicator. Several, or "all": each in turn.
  std::vector<std::string> algorithms;
  bool all_algorithms() const { return algorithms == std::vector<std::string>{"all"}; }
  bool compares() const { return algorithms.size() > 1 || all_algorithms(); }
  int segments = 0;  // 0 = chosen
  // Run instead of an algorithm (`ringwood schedule run`); of the one operation that is measured.
  std::shared_ptr<const ProvedSchedules> schedules;
  double tolerance = -1;  // negative: that of the environment
  std::vector<std::string> transports;
  double timeout_s = 0;  // 0: that of the environment
  bool ladder = false;   // instead of operations: ladder/ladder.h
  ReplayOptions replay;
  int cycles = 1;         // of the table; 0: until stopped
  double interval_s = 5;  // that each line takes, where the table is repeated in our own format
  bool repeats() const { return cycles != 1; }
  LaunchOptions launch;
  int ranks_by_gpus = 0;  // of -g and -t, where no launcher has started ranks; 0: not given
  ReportOptions report;
  double min_busbw = 0;              // GB/s that every line has to reach
  std::vector<std::string> require;  // transports, one of which all hosts have to use
  // Not null: --format nccl-tests.
  std::shared_ptr<NcclTestsOptions> nccl;
  std::vector<std::string> warnings;  // for standard error

  // Of every measured call, but for the factor of PREMUL_SUM.
  CallOptions call_options() const;
};
// One, or each.
std::vector<int> roots_of(const PerfOptions& perf, int ranks);

// Declares the subcommand. When it is given, `exit_code` is set: 0, or 1 if a result was wrong or
// the run failed. Parsing throws CLI::ParseError or Error(invalid_argument).
void add_perf_command(CLI::App& app, int& exit_code);

// What the options of a command line mean: those of `ringwood perf`, declared for another command.
// The result may be taken when the command line is parsed.
std::function<PerfOptions()> declare_perf_options(CLI::App& command);

// Throws Error(invalid_argument), before anything is started, for what cannot be measured.
int run_perf(const PerfOptions& options);

}  // namespace ringwood::tools
