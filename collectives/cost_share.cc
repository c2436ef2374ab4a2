#include "collectives/cost_share.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace ringwood {
namespace {

// Ends that differ by rounding alone are one event, so that the symmetry of a schedule is kept.
constexpr double kSameTime = 1e-12;
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
    order_.push_back(0);
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
  order_[index] = started_++;
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
  while (!ends_.empty() && ends_.front().time <= until) {
    const End end_of = ends_.front();
    std::pop_heap(ends_.begin(), ends_.end(), std::greater<>());
    ends_.pop_back();
    if (jobs_[end_of.job].version == end_of.version) end(end_of.job, finished);
  }
  now_ = time;
}

void FairShare::end(int32_t index, std::vector<int32_t>& finished) {
  Job& job = jobs_[index];
  ++job.version;
  touch(job);
  for (int u = 0; u < job.use_count; ++u) {
    auto& jobs = resources_[job.uses[u].resource].jobs;
    const auto it = std::find(jobs.begin(), jobs.end(), index);
    *it = jobs.back();
    jobs.pop_back();
  }
  finished.push_back(job.tag);
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
    double level = 1;
    for (const int32_t r : near_resources_)
      if (resources_[r].load > kFull)
        level = std::min(level, std::max(0.0, resources_[r].room) / resources_[r].load);
    const double full = level * (1 + kFull);
    for (const int32_t index : near_jobs_) {
      Job& job = jobs_[index];
      if (job.frozen) continue;
      job.stops = level >= 1;
      for (int u = 0; u < job.use_count && !job.stops; ++u) {
        const Resource& r = resources_[job.uses[u].resource];
        job.stops = r.room <= r.load * full;
      }
    }
    // Only now, since freezing changes the loads that the others are judged by.
    for (const int32_t index : near_jobs_) {
      if (jobs_[index].frozen || !jobs_[index].stops) continue;
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
  ends_.push_back({now_ + job.left / job.speed, order_[index], index, job.version});
  std::push_heap(ends_.begin(), ends_.end(), std::greater<>());
}

}  // namespace ringwood
