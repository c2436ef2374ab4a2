#include "tools/simulation/thread_delays.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "transports/base/error.h"

namespace ringwood {

ThreadDelays::ThreadDelays(const HostSymmetry& symmetry, const Faults& faults, double agreed)
    : moves_(symmetry),
      symmetry_(symmetry),
      hosts_(static_cast<size_t>(symmetry.hosts())),
      slow_(symmetry.ranks_of_first_host().size()),
      late_(slow_.size()),
      busy_(slow_.size(), 0) {
  for (const RankFault& fault : faults.slow) {
    const int host = static_cast<int>(host_of(fault.rank));
    std::vector<Slow>& slow = slow_[symmetry.index_of(fault.rank)];
    auto same = std::find_if(slow.begin(), slow.end(), [&](auto& s) { return s.host == host; });
    if (same == slow.end()) same = slow.insert(slow.end(), {host, 1, 0});
    same->times /= fault.value;
  }
  std::vector<std::shared_ptr<HostDelays>> late(slow_.size());
  float last = 0;
  for (const RankFault& fault : faults.late) {
    const size_t host = host_of(fault.rank);
    auto& of_index = late[symmetry.index_of(fault.rank)];
    if (!of_index) of_index = std::make_shared<HostDelays>(hosts_);
    of_index->of[host] += static_cast<float>(fault.value);
    last = std::max(last, of_index->of[host]);
  }
  for (size_t j = 0; j < late.size(); ++j)
    if (late[j]) late_[j] = seal(late[j], 0);
  if (agreed <= 0) return;
  auto all = std::make_shared<HostDelays>(hosts_);
  std::fill(all->of.begin(), all->of.end(), last);
  agreed_ = seal(std::move(all), agreed);
}

size_t ThreadDelays::host_of(int rank) const {
  const auto n = static_cast<int>(hosts_ * slow_.size());
  if (rank >= n)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("there is no rank{}: the last one is rank{}", rank, n - 1));
  return static_cast<size_t>(symmetry_.host_of(rank));
}

// Scale by the slowdown; end no earlier than the thread's backlog, which the recording may have
// caught up in gaps. A job that shared its thread with many had no gaps.
template <class DelayOf>
void ThreadDelays::add(const JobRecord& job, End end, double thread, const DelayOf& delay_of) {
  constexpr double kMany = 12;
  const bool shared = thread > end.seconds * kMany;
  double& known = busy_[end.rank];
  if (!shared) known = std::max(known, job.began) + end.seconds;
  for (Slow& slow : slow_[end.rank]) {
    float& delay = delay_of(slow.host);
    const double began = job.began + static_cast<double>(delay);
    delay += static_cast<float>(std::max(0.0, thread * slow.times - (job.ended - job.began)));
    if (shared) continue;
    slow.busy = std::max(slow.busy, began) + end.seconds * slow.times;
    delay = std::max(delay, static_cast<float>(slow.busy - std::max(known, job.ended)));
  }
}

Delay ThreadDelays::end(const JobRecord& job, const Delay& begun) {
  const double lasted = job.ended - job.began;
  if (slow_[job.rank].empty()) return after(begun, lasted);
  auto delays = changeable(after(begun, lasted), job.ended, hosts_);
  add(job, {job.rank, static_cast<double>(job.seconds)}, static_cast<double>(job.thread),
      [&](int host) -> float& { return delays->of[host]; });
  return seal(std::move(delays), job.ended);
}

void ThreadDelays::end_flow(const JobRecord& flow, End from, End to, int far, HostDelays& delays) {
  add(flow, from, static_cast<double>(flow.thread),
      [&](int host) -> float& { return delays.of[host]; });
  add(flow, to, static_cast<double>(flow.receiver),
      [&](int host) -> float& { return delays.of[moves_.sender(host, far)]; });
}

}  // namespace ringwood
