#include "collectives/tuner/cost/cost.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <queue>

#include "collectives/tuner/cost/cost_model.h"
#include "collectives/tuner/cost/machines.h"
#include "collectives/tuner/cost/message_phases.h"
#include "collectives/tuner/cost/steps.h"

namespace ringwood {
namespace {

struct Timer {
  double time;
  uint32_t order;  // of those at the same time
  TimerKind kind;
  int32_t rank, index;  // index: message or step, or -1
  bool operator>(const Timer& b) const { return time != b.time ? time > b.time : order > b.order; }
};

class Simulation : private MessagePhases<Simulation> {
 public:
  Simulation(const CostModel& model, const Load& load, const MachineModel& machine)
      : MessagePhases(model.ranks.size(), model.messages.size()),
        model_(model),
        most_work_(load.most_work),
        machines_(model, machine),
        steps_(model, load.timeline) {}

  // Returns nothing if most_work ended it.
  std::optional<Prediction> run() {
    begin_all();
    std::vector<CostJob> jobs;
    while (true) {
      const double job = machines_.next();
      const double timer =
          timers_.empty() ? std::numeric_limits<double>::infinity() : timers_.top().time;
      if (std::min(job, timer) == std::numeric_limits<double>::infinity()) break;
      if (most_work_ > 0 && work() > most_work_) return {};
      machines_.advance(std::min(job, timer), jobs);
      for (const CostJob& ended_job : jobs) ended(ended_job);
      while (!timers_.empty() && timers_.top().time <= machines_.now()) ring();
    }
    Prediction result = steps_.result();
    result.work = work();
    result.seconds = std::max(result.seconds, machines_.busiest_port());
    return result;
  }
  size_t work() const { return machines_.work(); }

 private:
  friend MessagePhases;

  void begin_all() {
    const auto n = static_cast<int>(model_.ranks.size());
    for (int r = 0; r < n && model_.agreeing > 0; ++r)
      queue({JobKind::agreeing, r, -1, model_.agreeing, 0});
    for (int r = 0; r < n; ++r)
      if (model_.ranks[r].own_block > 0) at(model_.agreed, TimerKind::own_block, r, -1);
    begin_links(model_.heads);
    for (int r = 0; r < n; ++r)
      for (size_t i = 0; i < model_.ranks[r].bytes.size(); ++i)
        if (const auto step = static_cast<int32_t>(i); steps_.free(r, step))
          ready_or_later(r, step);
  }

  // ---- as MessagePhases wants it

  const CostMessage& ends(int32_t m) const { return model_.messages[m]; }
  const CostMessage& price(int32_t m) const { return model_.messages[m]; }
  int32_t message_of(int r, int32_t step) const { return model_.ranks[r].message[step]; }
  bool sends(int r, int32_t step) const {
    return model_.ranks[r].plan->steps[step].kind == StepKind::send;
  }
  bool early(int r, int32_t step) const {
    return sends(r, step) || model_.ranks[r].plan->steps[step].early;
  }
  PerByte local_cost(int r, int32_t step) const {
    const CostRank& rank = model_.ranks[r];
    const double bytes = rank.bytes[step];
    const PerByte cost = rank.plan->steps[step].kind == StepKind::copy ? rank.copies : rank.reduces;
    return {bytes * cost.core, bytes * cost.memory};
  }
  PerByte own_block_cost(int r) const {
    const CostRank& rank = model_.ranks[r];
    return {rank.own_block * rank.copies.core, rank.own_block * rank.copies.memory};
  }
  double now() const { return machines_.now(); }
  double agreed() const { return model_.agreed; }
  CostSteps& steps() { return steps_; }

  void at(double time, TimerKind kind, int32_t rank, int32_t index) {
    timers_.push({time, timers_set_++, kind, rank, index});
  }
  void start(const CostJob& job) { machines_.start(job); }
  void start_flow(JobKind kind, int32_t m, double bytes, bool both_ends) {
    const CostMessage& message = model_.messages[m];
    machines_.start_flow(kind, m, bytes, message.out, both_ends ? message.in : PerByte{});
  }

  void ring() {
    const Timer timer = timers_.top();
    timers_.pop();
    rung(timer.kind, timer.rank, timer.index);
  }

  const CostModel& model_;
  const size_t most_work_;
  CostMachines machines_;
  CostSteps steps_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  uint32_t timers_set_ = 0;
};

}  // namespace

Prediction predict(const CostModel& model, const Load& load, const MachineModel& machine) {
  Simulation simulation(model, load, machine);
  if (auto prediction = simulation.run()) return std::move(*prediction);
  Prediction estimate;
  estimate.seconds = bounds_of(model, machine).estimate();
  estimate.finish.assign(model.ranks.size(), estimate.seconds);
  estimate.simulated = false;
  estimate.work = simulation.work();
  return estimate;
}

Prediction predict(const std::vector<Schedule>& schedules, const Load& load,
                   const MachineModel& machine, int segment_count) {
  return predict(model_of(plans_of(schedules, segment_count, load, machine), load, machine), load,
                 machine);
}

}  // namespace ringwood
