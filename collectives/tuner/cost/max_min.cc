#include "collectives/tuner/cost/max_min.h"

#include <algorithm>
#include <cmath>

namespace ringwood {
namespace {

// A resource with less capacity left than this is full.
constexpr double kFull = 1e-9;
// A job whose speed changes by less than this part goes on as it was.
constexpr double kSameSpeed = 1e-9;

}  // namespace

int32_t MaxMin::add_resource(double capacity) {
  resources_.push_back({});
  resources_.back().capacity = capacity;
  return static_cast<int32_t>(resources_.size()) - 1;
}

int32_t MaxMin::add(double seconds, std::span<const Use> uses, double now) {
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(jobs_.size()));
    jobs_.push_back({});
  }
  const int32_t index = free_.back();
  free_.pop_back();
  Job& job = jobs_[index];
  job.left = seconds;
  job.speed = uses.empty() ? 1 : 0;
  job.since = now;
  job.use_count = static_cast<int32_t>(uses.size());
  std::copy(uses.begin(), uses.end(), job.uses);
  for (const Use& use : uses) resources_[use.resource].jobs.push_back(index);
  touch(job);
  return index;
}

void MaxMin::touch(const Job& job) {
  for (int u = 0; u < job.use_count; ++u) {
    Resource& resource = resources_[job.uses[u].resource];
    if (resource.dirty) continue;
    resource.dirty = true;
    dirty_.push_back(job.uses[u].resource);
  }
}

void MaxMin::remove(int32_t index) {
  const Job& job = jobs_[index];
  touch(job);
  for (int u = 0; u < job.use_count; ++u) {
    auto& jobs = resources_[job.uses[u].resource].jobs;
    const auto it = std::find(jobs.begin(), jobs.end(), index);
    *it = jobs.back();
    jobs.pop_back();
  }
  free_.push_back(index);
}

void MaxMin::share(double now, std::vector<int32_t>& changed) {
  for (const int32_t first : dirty_) {
    if (!resources_[first].dirty) continue;
    gather(first);
    fill(now, changed);
  }
  dirty_.clear();
}

void MaxMin::gather(int32_t resource) {
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

void MaxMin::fill(double now, std::vector<int32_t>& changed) {
  work_ += near_jobs_.size() + near_resources_.size();
  for (const int32_t index : near_jobs_) {
    Job& job = jobs_[index];
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
      if (freeze(jobs_[index], level, now)) changed.push_back(index);
      --left;
    }
  }
}

// Returns whether the job's speed changed.
bool MaxMin::freeze(Job& job, double speed, double now) {
  job.frozen = true;
  const bool changes = std::abs(speed - job.speed) > kSameSpeed * speed;
  if (changes) {
    job.left = std::max(0.0, job.left - (now - job.since) * job.speed);
    job.since = now;
    job.speed = speed;
  }
  for (int u = 0; u < job.use_count; ++u) {
    Resource& r = resources_[job.uses[u].resource];
    r.room -= job.uses[u].part * speed;
    r.load -= job.uses[u].part;
  }
  return changes;
}

}  // namespace ringwood
