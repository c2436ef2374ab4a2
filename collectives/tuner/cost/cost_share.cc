#include "collectives/tuner/cost/cost_share.h"

#include <algorithm>
#include <limits>

namespace ringwood {
namespace {

// Ends that differ by less than this, relative to the time since the beginning, are one event:
// the symmetry of a schedule is preserved, and a thousand of them together still add less than
// a thousandth.
constexpr double kSameTime = 1e-6;

}  // namespace

void FairShare::start(double seconds, std::span<const Use> uses, int32_t tag) {
  const int32_t index = speeds_.add(seconds, uses, now_);
  if (static_cast<size_t>(index) == jobs_.size()) jobs_.push_back({});
  jobs_[index].tag = tag;
  jobs_[index].order = started_++;
  if (uses.empty()) schedule_end(index);
}

void FairShare::share() {
  changed_.clear();
  speeds_.share(now_, changed_);
  for (const int32_t index : changed_) schedule_end(index);
}

double FairShare::next() {
  share();
  while (!ends_.empty() && jobs_[ends_.top().job].version != ends_.top().version) ends_.pop();
  return ends_.empty() ? std::numeric_limits<double>::infinity() : ends_.top().time;
}

void FairShare::advance(double time, std::vector<int32_t>& finished) {
  share();
  const double until = time * (1 + kSameTime);
  ending_.clear();
  for (; !ends_.empty() && ends_.top().time <= until; ends_.pop()) {
    const End& first = ends_.top();
    if (jobs_[first.job].version == first.version) ending_.push_back(first.job);
  }
  std::sort(ending_.begin(), ending_.end(),
            [&](int32_t a, int32_t b) { return jobs_[a].order < jobs_[b].order; });
  for (const int32_t index : ending_) {
    finished.push_back(jobs_[index].tag);
    ++jobs_[index].version;
    speeds_.remove(index);
  }
  now_ = time;
}

void FairShare::schedule_end(int32_t index) {
  Job& job = jobs_[index];
  ends_.push({now_ + speeds_.lasts(index), job.order, index, ++job.version});
}

}  // namespace ringwood
