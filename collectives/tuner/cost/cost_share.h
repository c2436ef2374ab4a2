// Fluid sharing of resources by jobs: how fast each job runs, and which finishes next.
//
// A job is a number of seconds of work at full speed; at full speed it uses a part of each of a few
// resources. At every moment speeds are max-min fair (max_min.h). This is the fluid model of
// flow-level simulators such as SimGrid (Casanova et al., JPDC 2014).
//
// Deterministic: equal calls give equal results; jobs that finish at the same time do so in the
// order of their start. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <vector>

#include "collectives/tuner/cost/max_min.h"

namespace ringwood {

class FairShare final {
 public:
  using Use = MaxMin::Use;

  int32_t add_resource(double capacity) { return speeds_.add_resource(capacity); }
  // Starts a job now. finished() returns its `tag`.
  void start(double seconds, std::span<const Use> uses, int32_t tag);
  double now() const { return now_; }
  // When the next job ends if no other begins; infinity without jobs.
  double next();
  // Advances to `time` <= next(), and appends the tags of the jobs that end there.
  void advance(double time, std::vector<int32_t>& finished);
  // How often the share of a job or a resource was computed: the effort of a simulation,
  // independent of the machine that runs it.
  size_t work() const { return speeds_.work(); }

 private:
  struct Job {
    int32_t tag = 0;
    uint32_t version = 0;  // entries of ends_ with another version are stale
    uint64_t order = 0;    // of its start
  };
  struct End {
    double time;
    uint64_t order;
    int32_t job;
    uint32_t version;
    bool operator>(const End& b) const { return time != b.time ? time > b.time : order > b.order; }
  };

  void share();
  void schedule_end(int32_t index);

  double now_ = 0;
  MaxMin speeds_;
  std::vector<Job> jobs_;  // by their number in speeds_
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  uint64_t started_ = 0;
  std::vector<int32_t> changed_, ending_;
};

}  // namespace ringwood
