#include "tools/simulation/events.h"

#include <algorithm>
#include <limits>
#include <queue>

#include <fmt/format.h>

#include "collectives/tuner/cost/message_phases.h"
#include "tools/simulation/machine_queues.h"
#include "tools/simulation/progress_of_steps.h"
#include "transports/base/error.h"

namespace ringwood {
namespace {

struct Timer {
  double time;
  uint64_t order;  // of those at the same time
  TimerKind kind;
  int32_t rank, index;  // index: message or step, or -1
  bool operator>(const Timer& b) const { return time != b.time ? time > b.time : order > b.order; }
};

class Events : private MessagePhases<Events> {
 public:
  Events(const Traffic& traffic, const MachineModel& machine, const Network& network,
         const EventsRequest& request)
      : MessagePhases(traffic.ranks.size(), traffic.messages.size()),
        traffic_(traffic),
        request_(request),
        queues_(traffic, machine, network, request.faults ? *request.faults : Faults{}),
        steps_(traffic, request) {}

  Outcome run() {
    constexpr size_t kTellEach = 1 << 16;
    std::vector<CostJob> jobs;
    begin_all();
    for (size_t events = 0;; ++events) {
      const double job = queues_.next();
      const double timer =
          timers_.empty() ? std::numeric_limits<double>::infinity() : timers_.top().time;
      if (std::min(job, timer) == std::numeric_limits<double>::infinity()) break;
      if (request_.progress && events % kTellEach == 0) request_.progress(steps_.done());
      now_ = std::max(now_, std::min(job, timer));
      if (job <= timer) {
        jobs.clear();
        queues_.leave(jobs);
        for (const CostJob& job_over : jobs) ended(job_over);
      }
      while (!timers_.empty() && timers_.top().time <= now_) ring();
    }
    Outcome outcome = steps_.outcome(agreed_);
    outcome.links = queues_.busiest();
    outcome.busiest = queues_.busiest_resource();
    outcome.seconds = std::max(outcome.seconds, queues_.busiest_port());
    return outcome;
  }

 private:
  friend MessagePhases;

  // ---- the call

  void begin_all() {
    const auto n = static_cast<int>(traffic_.ranks.size());
    std::vector<double> late(n, 0);
    if (request_.faults)
      for (const RankFault& fault : request_.faults->late) {
        if (fault.rank >= n)
          throw Error(ErrorCode::invalid_argument,
                      fmt::format("there is no rank{}: the last one is rank{}", fault.rank, n - 1));
        late[fault.rank] += fault.value;
      }
    // All ranks have agreed when the last one has called, and the rounds are over.
    const double last = *std::max_element(late.begin(), late.end());
    agreed_ = traffic_.agreed > 0 ? last + traffic_.agreed : 0;
    begin_links(traffic_.heads);
    for (int r = 0; r < n; ++r) at(late[r], TimerKind::call, r, -1);
  }

  void call(int r) {
    steps_.at_least(r, now_);
    const TrafficRank& rank = traffic_.ranks[r];
    if (traffic_.agreeing > 0) queue({JobKind::agreeing, r, -1, traffic_.agreeing, 0});
    if (rank.own_block.core > 0) at(std::max(now_, agreed_), TimerKind::own_block, r, -1);
    const auto steps = static_cast<int32_t>(traffic_.shape(r).kinds.size());
    for (int32_t i = 0; i < steps; ++i)
      if (steps_.free(r, i)) ready_or_later(r, i);
  }

  // ---- as MessagePhases wants it

  const TrafficMessage& ends(int32_t m) const { return traffic_.messages[m]; }
  const CostMessage& price(int32_t m) const { return traffic_.prices[traffic_.messages[m].price]; }
  int32_t item(int r, int32_t step) const {
    return traffic_.items[traffic_.ranks[r].first_item + static_cast<uint32_t>(step)];
  }
  int32_t message_of(int r, int32_t step) const { return std::max(-1, item(r, step)); }
  bool sends(int r, int32_t step) const { return traffic_.shape(r).kinds[step] == StepKind::send; }
  bool early(int r, int32_t step) const {
    return sends(r, step) || traffic_.shape(r).early[step] != 0;
  }
  PerByte local_cost(int r, int32_t step) const { return traffic_.local[-1 - item(r, step)]; }
  PerByte own_block_cost(int r) const { return traffic_.ranks[r].own_block; }
  double now() const { return now_; }
  double agreed() const { return agreed_; }
  StepsProgress& steps() { return steps_; }

  void at(double time, TimerKind kind, int32_t rank, int32_t index) {
    timers_.push({time, timers_set_++, kind, rank, index});
  }
  void start(const CostJob& job) { queues_.start(job, now_); }
  void start_flow(JobKind kind, int32_t m, double bytes, bool both_ends) {
    queues_.start_flow(kind, m, bytes, both_ends, now_);
  }

  void ring() {
    const Timer timer = timers_.top();
    timers_.pop();
    if (timer.kind == TimerKind::call) return call(timer.rank);
    rung(timer.kind, timer.rank, timer.index);
  }

  const Traffic& traffic_;
  const EventsRequest& request_;
  MachineQueues queues_;
  StepsProgress steps_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  uint64_t timers_set_ = 0;
  double now_ = 0, agreed_ = 0;
};

}  // namespace

Outcome run_events(const Traffic& traffic, const MachineModel& machine, const Network& network,
                   const EventsRequest& request) {
  return Events(traffic, machine, network, request).run();
}

}  // namespace ringwood
