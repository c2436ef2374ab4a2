// The flags of nccl-tests that `ringwood perf` has for them: taken, or told to mean nothing here.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "tools/perf/perf.h"

namespace CLI {
class App;
}

namespace ringwood::tools {

// As they are typed.
struct NcclTyped {
  std::string format = "ringwood";
  std::string a, average;  // -a, which is the algorithm in our own format
  std::string output_file;
  int gpus = 0, threads = 0;  // 0: not given
  int agg_iters = 1, blocking = 0, timestamps = 0, per_iter = 0, skip = 0, unalign = 0;
  int registered = 0, cpu_time = 0;
  std::map<std::string, std::string> ignored;  // of the flags without a meaning here, by name

  bool chosen() const { return format == "nccl-tests"; }
};

void declare_nccl_options(CLI::App& command, NcclTyped& typed);

// Fills in what the format and its flags say. Throws Error(invalid_argument).
void interpret_nccl_options(const NcclTyped& typed, const CLI::App& command, int checks,
                            PerfOptions& perf);

// The collective of a program's name, "all_reduce_perf" or "alltoall_perf_mpi": so a link of that
// name to this command does what that program of nccl-tests does.
std::optional<std::string> collective_of_program(const std::string& path);

// Throws Error(invalid_argument) for a program of nccl-tests that has no counterpart here.
void refuse_other_programs(const std::string& path);

}  // namespace ringwood::tools
