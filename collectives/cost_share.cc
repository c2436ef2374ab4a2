#include "collectives/cost_share.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace ringwood {
namespace {

// Ends this close, as a part of the time since the beginning, are one event: the symmetry of a
// schedule is kept, and a thousand of them in a row still add less than a thousandth.
constexpr double kSameTime = 1e-6;
// A resource with no more room than this is full.
constexpr double kFull = 1e-9;

}  // namespace

int32_t FairShare::add_resource(double capacity) {
  resources_.push_back({});
  resources_.back().capacity = capacity;
  return static_cast<int32_t>(resources_.size()) - 1;
}

void FairShare::start(double seconds, std::span<const Use> uses, int32_t tag) {
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(jobs_.size()));
    jobs_.push_back({});
  }
  const int32_t index = free_.back();
  free_.pop_back();
  Job& job = jobs_[index];
  job.left = seconds;
  job.speed = 0;
  job.since = now_;
  job.tag = tag;
  job.use_count = static_cast<int32_t>(uses.size());
  std::copy(uses.begin(), uses.end(), job.uses);
  job.order = started_++;
  for (const Use& use : uses) resources_[use.resource].jobs.push_back(index);
  if (uses.empty()) {
    job.speed = 1;
    schedule_end(index);
  }
  touch(job);
}

void FairShare::touch(const Job& job) {
  for (int u = 0; u < job.use_count; ++u) {
    Resource& resource = resources_[job.uses[u].resource];
    if (resource.dirty) continue;
    resource.dirty = true;
    dirty_.push_back(job.uses[u].resource);
  }
}

double FairShare::next() {
  share();
  while (!ends_.empty() && jobs_[ends_.front().job].version != ends_.front().version) {
    std::pop_heap(ends_.begin(), ends_.end(), std::greater<>());
    ends_.pop_back();
  }
  return ends_.empty() ? std::numeric_limits<double>::infinity() : ends_.front().time;
}

void FairShare::advance(double time, std::vector<int32_t>& finished) {
  share();
  const double until = time * (1 + kSameTime);
  ending_.clear();
  while (!ends_.empty() && ends_.front().time <= until) {
    const End& first = ends_.front();
    if (jobs_[first.job].version == first.version) ending_.push_back(first.job);
    std::pop_heap(ends_.begin(), ends_.end(), std::greater<>());
    ends_.pop_back();
  }
  std::sort(ending_.begin(), ending_.end(),
            [&](int32_t a, int32_t b) { return jobs_[a].order < jobs_[b].order; });
  for (const int32_t index : ending_) {
    finished.push_back(jobs_[index].tag);
    end(index);
  }
  now_ = time;
}

void FairShare::end(int32_t index) {
  Job& job = jobs_[index];
  ++job.version;
  touch(job);
  for (int u = 0; u < job.use_count; ++u) {
    auto& jobs = resources_[job.uses[u].resource].jobs;
    const auto it = std::find(jobs.begin(), jobs.end(), index);
    *it = jobs.back();
    jobs.pop_back();
  }
  free_.push_back(index);
}

// Speeds of all jobs that a change may reach.
void FairShare::share() {
  for (const int32_t first : dirty_) {
    if (!resources_[first].dirty) continue;
    gather(first);
    fill();
  }
  dirty_.clear();
}

void FairShare::gather(int32_t resource) {
  ++visit_;
  near_jobs_.clear();
  near_resources_.assign(1, resource);
  resources_[resource].visit = visit_;
  for (size_t i = 0; i < near_resources_.size(); ++i) {
    Resource& at = resources_[near_resources_[i]];
    at.dirty = false;
    at.room = at.capacity;
    at.load = 0;
    for (const int32_t index : at.jobs) {
      Job& job = jobs_[index];
      if (job.visit == visit_) continue;
      job.visit = visit_;
      near_jobs_.push_back(index);
      for (int u = 0; u < job.use_count; ++u) {
        Resource& other = resources_[job.uses[u].resource];
        if (other.visit == visit_) continue;
        other.visit = visit_;
        near_resources_.push_back(job.uses[u].resource);
      }
    }
  }
}

void FairShare::fill() {
  work_ += near_jobs_.size() + near_resources_.size();
  for (const int32_t index : near_jobs_) {
    Job& job = jobs_[index];
    job.left = std::max(0.0, job.left - (now_ - job.since) * job.speed);
    job.since = now_;
    job.frozen = false;
    for (int u = 0; u < job.use_count; ++u)
      resources_[job.uses[u].resource].load += job.uses[u].part;
  }
  size_t left = near_jobs_.size();
  while (left > 0) {
    const auto level_of = [](const Resource& r) {
      return r.load > kFull ? std::max(0.0, r.room) / r.load : 1.0;
    };
    double level = 1;
    for (const int32_t r : near_resources_) level = std::min(level, level_of(resources_[r]));
    stopping_.clear();
    if (level >= 1) {
      stopping_ = near_jobs_;
    } else {
      for (const int32_t r : near_resources_)
        if (level_of(resources_[r]) <= level * (1 + kFull))
          stopping_.insert(stopping_.end(), resources_[r].jobs.begin(), resources_[r].jobs.end());
    }
    for (const int32_t index : stopping_) {
      if (jobs_[index].frozen) continue;
      freeze(jobs_[index], level);
      schedule_end(index);
      --left;
    }
  }
}

void FairShare::freeze(Job& job, double speed) {
  job.frozen = true;
  job.speed = speed;
  for (int u = 0; u < job.use_count; ++u) {
    Resource& r = resources_[job.uses[u].resource];
    r.room -= job.uses[u].part * speed;
    r.load -= job.uses[u].part;
  }
}

void FairShare::schedule_end(int32_t index) {
  Job& job = jobs_[index];
  ++job.version;
  ends_.push_back({now_ + job.left / job.speed, job.order, index, job.version});
  std::push_heap(ends_.begin(), ends_.end(), std::greater<>());
}

}  // namespace ringwood
