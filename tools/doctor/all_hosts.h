// One snapshot from each host of a job, and what probes find between them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tools/doctor/collect/collect.h"
#include "tools/doctor/present.h"
#include "tools/launch.h"

namespace ringwood::tools::doctor {

struct Examination {
  CollectOptions collect;
  double watch_s = 0;  // between two samples; 0: one
  bool probe = false;
  Wishes wishes;
  std::vector<std::string> ignored;  // rules
};

constexpr int kCannotMeet = 4;

// Two samples of this host, or one.
Snapshot examine(const Examination& what, const std::function<void(const std::string&)>& progress);
// Findings of the snapshots and of the probes.
void conclude(const Examination& what, Outcome& outcome);
// Gathers from all ranks of a launcher's job; rank 0 calls `done`, whose result is the exit code.
// A job that does not come together is an outcome too (unmet.h): incomplete, with the host of rank
// 0 at least. Returns kCannotMeet where this rank has not even reached the store.
int examine_all_hosts(const Examination& what, const LaunchOptions& launch,
                      const std::function<void(const std::string&)>& progress,
                      const std::function<int(Outcome&)>& done);

}  // namespace ringwood::tools::doctor
