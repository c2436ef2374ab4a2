#include "collectives/tuner/cost/cost.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

#include "collectives/tuner/cost/cost_model.h"
#include "collectives/tuner/cost/machines.h"
#include "collectives/tuner/cost/message_simulation.h"

namespace ringwood {
namespace {

std::vector<const Graph*> graphs_of(const CostModel& model) {
  std::vector<const Graph*> graphs;
  for (const CostRank& rank : model.ranks) graphs.push_back(&rank.plan->graph);
  return graphs;
}

class Simulation : private MessageSimulation<Simulation> {
 public:
  Simulation(const CostModel& model, const Load& load, const MachineModel& machine)
      : MessageSimulation(model.ranks.size(), model.messages.size()),
        model_(model),
        most_work_(load.most_work),
        machines_(model, machine),
        steps_(graphs_of(model)) {
    if (!load.timeline) return;
    std::vector<int> all(model.ranks.size());
    std::iota(all.begin(), all.end(), 0);
    steps_.trace(all, SIZE_MAX);
  }

  // Returns nothing if most_work ended it.
  std::optional<Prediction> run() {
    begin(model_.heads, std::vector<double>(model_.ranks.size(), 0));
    if (!MessageSimulation::run([&] { return most_work_ == 0 || work() <= most_work_; })) return {};
    Prediction result = steps_.result(model_.agreed);
    result.work = work();
    result.seconds = std::max(result.seconds, machines_.busiest_port());
    return result;
  }
  size_t work() const { return machines_.work(); }

 private:
  friend MessageSimulation;

  // ---- as MessageSimulation wants it

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
  double agreed() const { return model_.agreed; }
  double agreeing() const { return model_.agreeing; }
  StepProgress& steps() { return steps_; }
  CostMachines& machines() { return machines_; }

  const CostModel& model_;
  const size_t most_work_;
  CostMachines machines_;
  StepProgress steps_;
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
