// Fluid sharing of resources by jobs: who runs how fast, and who is finished next.
//
// A job has so many seconds of work at full speed and, at full speed, uses a part of each of a few
// resources. At every moment speeds are max-min fair: all jobs speed up together; when a resource
// is full, the jobs on it keep the speed that they have, the others go on, up to full speed.
// (Bertsekas
// and Gallager, Data Networks, 6.5.2; as the fluid model of flow-level simulators such as SimGrid:
// Casanova et al., JPDC 2014.) Only the jobs that share something, directly or through others, with
// one that began or ended are computed anew.
//
// Deterministic: equal calls, equal results; jobs that finish at one time do so in the order of
// their start. Single thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ringwood {

class FairShare final {
 public:
  struct Use {
    int32_t resource;
    double part;  // of the resource's capacity unit, at full speed; > 0
  };
  static constexpr int kMostUses = 6;

  int32_t add_resource(double capacity);
  // Starts now. `tag` is what finished() gives back.
  void start(double seconds, std::span<const Use> uses, int32_t tag);
  double now() const { return now_; }
  // When the next job ends, were nothing else to begin; infinity without jobs.
  double next();
  // Goes on to `time` <= next(), and appends the tags of the jobs that end there.
  void advance(double time, std::vector<int32_t>& finished);
  // How often a job's or a resource's share was computed: what a simulation costs, whatever the
  // machine that runs it.
  size_t work() const { return work_; }

 private:
  struct Job {
    double left = 0, speed = 0, since = 0;  // work left at `since`, done with `speed` from there
    Use uses[kMostUses] = {};
    int32_t use_count = 0, tag = 0;
    uint32_t version = 0;  // entries of ends_ with another one are stale
    uint32_t visit = 0;
    uint64_t order = 0;  // of its start
    bool frozen = false;
  };
  struct Resource {
    double capacity = 0, room = 0, load = 0;
    std::vector<int32_t> jobs;
    uint32_t visit = 0;
    bool dirty = false;
  };
  struct End {
    double time;
    uint64_t order;
    int32_t job;
    uint32_t version;
    bool operator>(const End& b) const { return time != b.time ? time > b.time : order > b.order; }
  };

  void touch(const Job& job);
  void share();
  void gather(int32_t resource);
  void fill();
  void freeze(Job& job, double speed);
  void schedule_end(int32_t index);
  void end(int32_t index);

  double now_ = 0;
  std::vector<Resource> resources_;
  std::vector<Job> jobs_;
  std::vector<int32_t> free_, dirty_, near_jobs_, near_resources_, stopping_, ending_;
  std::vector<End> ends_;  // a heap
  uint64_t started_ = 0;
  size_t work_ = 0;
  uint32_t visit_ = 0;
};

}  // namespace ringwood
