#include "tools/trace/predicted.h"

#include <algorithm>

#include "collectives/algorithms/algorithms.h"
#include "collectives/algorithms/hosts.h"
#include "collectives/kernels/types.h"
#include "collectives/plan/protocol.h"
#include "collectives/plan/wire_schedule.h"

namespace ringwood::tools {
namespace {

// Of all ranks and segments; a simulation of so many takes about a second.
constexpr size_t kMaxSteps = 40000;

Load load_of(const TracedOperation& operation, bool one_round) {
  Load load;
  load.collective = operation.collective;
  load.element = size_of(operation.type);
  load.bytes = operation.count * load.element;
  load.agreement = true;
  load.one_round = one_round;
  load.out_of_place = true;
  load.timeline = true;
  load.wire = operation.wire;
  return load;
}

// Messages of the model with the times of their ends' steps.
void add_messages(PredictedSteps& predicted, const std::vector<Interval>& steps) {
  std::map<std::pair<int, int>, const Interval*> at;
  for (const Interval& step : steps) at[{step.rank, step.step}] = &step;
  const CostModel& model = predicted.model;
  for (const int32_t head : model.heads) {
    double before = 0;
    int nth = 0;
    for (int32_t i = head; i >= 0; i = model.messages[static_cast<size_t>(i)].next) {
      const CostMessage& m = model.messages[static_cast<size_t>(i)];
      const auto send = at.find({m.from, m.send_step}), recv = at.find({m.to, m.recv_step});
      const int number = nth++;
      if (send == at.end() || recv == at.end()) continue;
      TracedMessage message{m.from, m.to, number, m.send_step, m.recv_step, m.bytes, 0, 0, 0};
      message.begin = std::max(send->second->begin, before);
      message.end = before = recv->second->end;
      predicted.messages[{m.from, m.to, number}] = message;
    }
  }
}

}  // namespace

Predictions::Predictions(const TracedGroup& group) : group_(group), machine_(group.machine) {
  machine_.net.exceptions.clear();
}

std::shared_ptr<const PredictedSteps> Predictions::of(const TracedOperation& o) {
  const Key key{
      static_cast<int>(o.collective), o.algorithm, o.segments, o.root, static_cast<int>(o.type),
      static_cast<int>(o.wire),       o.count};
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  return known_[key] = predict(o);
}

std::shared_ptr<const PredictedSteps> Predictions::predict(const TracedOperation& o) const try {
  const AlgorithmRow* const row = find_algorithm(o.collective, o.algorithm);
  if (!row || group_.size < 2 || (moves_data(o.collective) && o.count == 0)) return nullptr;
  const Hosts hosts = hosts_of({0, group_.size, 0, machine_.hosts});
  const Hosts nodes = hosts_of({0, group_.size, 0, machine_.nodes});
  const auto where = [&](int rank) {
    return Where{rank, group_.size, o.root, {machine_.hosts, &hosts}, {machine_.nodes, &nodes}};
  };
  if (!row->accepts(where(0))) return nullptr;
  std::vector<Schedule> schedules;
  size_t steps = 0;
  bool one_round = o.segments == 1 && o.wire == WireFormat::exact;
  for (int rank = 0; rank < group_.size; ++rank) {
    schedules.push_back(row->build(where(rank)));
    steps += schedules.back().steps.size() * static_cast<size_t>(o.segments);
    if (steps > kMaxSteps) return nullptr;
    one_round = one_round && fits_one_round(schedules.back());
    if (o.wire != WireFormat::exact)
      schedules.back() = with_roundings(schedules.back(), o.collective, machine_.hosts);
  }
  const Load probe = load_of(o, false);
  const bool apart = all_apart(machine_.hosts, group_.size, machine_.loopback);
  one_round = one_round &&
              small_for_one_round(machine_.limits, o.collective, probe.bytes, group_.size, apart);
  const Load load = load_of(o, one_round);
  auto predicted = std::make_shared<PredictedSteps>();
  predicted->model = model_of(plans_of(schedules, o.segments, load, machine_), load, machine_);
  Prediction p = ringwood::predict(predicted->model, load, machine_);
  predicted->seconds = p.seconds;
  add_messages(*predicted, p.timeline);
  predicted->steps = std::move(p.timeline);
  return predicted;
} catch (const Error&) {
  return nullptr;  // a machine model or arguments that do not fit: nothing is predicted
}

}  // namespace ringwood::tools
