// What ran in a simulation by events.h, in its order: what waves.h carries out on all hosts.
// Plain values. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/tuner/cost/threads.h"

namespace ringwood {

// A job or a flow. Times are seconds.
struct JobRecord {
  JobKind kind = JobKind::local;
  int32_t rank = -1;   // as in CostJob
  int32_t index = -1;  // likewise
  double began = 0, ended = 0;
  float seconds = 0;  // of its thread, if it had that alone; not of flows
  // From its beginning until it left the thread (of a flow: the sender's), the receiver's thread,
  // and the last link of the network or of an island. 0: it did not use that.
  float thread = 0, receiver = 0, network = 0;
};

struct Recording {
  std::vector<JobRecord> jobs;  // in the order of their beginnings
  // What happened: i, job i began; -1 - i, it ended. A local step that costs nothing has a job,
  // too.
  std::vector<int32_t> order;

  int32_t begin(const CostJob& job, double now) {
    const auto number = static_cast<int32_t>(jobs.size());
    jobs.push_back({job.kind, job.rank, job.index, now, now, static_cast<float>(job.seconds)});
    order.push_back(number);
    return number;
  }
  void end(int32_t number, double now) {
    jobs[number].ended = now;
    order.push_back(-1 - number);
  }
};

}  // namespace ringwood
