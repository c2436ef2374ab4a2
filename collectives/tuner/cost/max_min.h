// Max-min fair speeds. The speeds of all jobs that share resources rise together; when a resource
// is full, its jobs keep their speed, and the others continue up to full speed (Bertsekas and
// Gallager, Data Networks, 6.5.2). Speeds are recomputed only for jobs that share a resource,
// directly or through others, with a job that came or went.
//
// Deterministic; not thread-safe. Part of cost_share.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ringwood {

class MaxMin final {
 public:
  struct Use {
    int32_t resource;
    double part;  // of the resource's capacity unit, at full speed; > 0
  };
  static constexpr int kMaxUses = 8;

  int32_t add_resource(double capacity);
  // Adds a job of this many seconds at full speed, which begins now. Returns its number, which is
  // reused after its removal.
  int32_t add(double seconds, std::span<const Use> uses, double now);
  void remove(int32_t job);
  // Appends the jobs whose speeds changed.
  void share(double now, std::vector<int32_t>& changed);
  // Seconds until the job ends, counted from its last share().
  double lasts(int32_t job) const { return jobs_[job].left / jobs_[job].speed; }
  // How often the share of a job or a resource was computed.
  size_t work() const { return work_; }

 private:
  struct Job {
    double left = 0, speed = 0, since = 0;  // work left at `since`, from when it runs at `speed`
    Use uses[kMaxUses] = {};
    int32_t use_count = 0;
    uint32_t visit = 0;
    bool frozen = false;
  };
  struct Resource {
    double capacity = 0, room = 0, load = 0;
    std::vector<int32_t> jobs;
    uint32_t visit = 0;
    bool dirty = false;
  };

  void touch(const Job& job);
  void gather(int32_t resource);
  void fill(double now, std::vector<int32_t>& changed);
  bool freeze(Job& job, double speed, double now);

  std::vector<Resource> resources_;
  std::vector<Job> jobs_;
  std::vector<int32_t> free_, dirty_, near_jobs_, near_resources_, stopping_;
  size_t work_ = 0;
  uint32_t visit_ = 0;
};

}  // namespace ringwood
