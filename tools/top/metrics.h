// A sample in Prometheus' text format (version 0.0.4).
//
// Metrics and labels are those of NCCL Inspector where they mean the same, so that its dashboards
// show our jobs: nccl_bus_bandwidth_gbs and nccl_collective_exec_time_microseconds, by collective,
// size, algorithm and group, of the last 30 seconds, Inspector's shortest interval: of operations
// of some microseconds one in 4,096 has a record. What it has no name for begins with
// ringwood_.
#pragma once

#include <string>

#include "tools/top/sample.h"

namespace ringwood::tools {

// `slurm_job`: "" where there is none.
std::string prometheus_text(const Sample& sample, const std::string& slurm_job);
// "1-2MB": the bucket that Inspector puts a size in.
std::string size_range(uint64_t bytes);

}  // namespace ringwood::tools
