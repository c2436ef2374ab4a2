#include "tools/simulation/events.h"

#include <algorithm>
#include <utility>

#include "collectives/tuner/cost/message_simulation.h"
#include "tools/simulation/machine_queues.h"

namespace ringwood {
namespace {

std::vector<const Graph*> graphs_of(const Traffic& traffic) {
  std::vector<const Graph*> graphs;
  for (const TrafficRank& rank : traffic.ranks) graphs.push_back(&traffic.shapes[rank.shape].graph);
  return graphs;
}

class Events : private MessageSimulation<Events> {
 public:
  Events(const Traffic& traffic, const MachineModel& machine, const Network& network,
         const EventsRequest& request)
      : MessageSimulation(traffic.ranks.size(), traffic.messages.size()),
        traffic_(traffic),
        request_(request),
        machines_(traffic, machine, network, request.faults ? *request.faults : Faults{}),
        steps_(graphs_of(traffic)) {
    if (!request.traced.empty())
      steps_.trace({request.traced.begin(), request.traced.end()}, request.most_intervals);
  }

  Outcome run() {
    const std::vector<double> late = late_ranks();
    // All ranks have agreed when the last one has called, and the rounds are over.
    const double last = *std::max_element(late.begin(), late.end());
    agreed_ = traffic_.agreed > 0 ? last + traffic_.agreed : 0;
    begin(traffic_.heads, late);
    constexpr size_t kTellEach = 1 << 16;
    size_t events = 0;
    MessageSimulation::run([&] {
      if (request_.progress && events++ % kTellEach == 0) request_.progress(steps_.done());
      return true;
    });
    Prediction times = steps_.result(agreed_);
    Outcome outcome;
    outcome.seconds = std::max(times.seconds, machines_.busiest_port());
    outcome.finish = std::move(times.finish);
    outcome.timeline = std::move(times.timeline);
    outcome.links = machines_.busiest();
    outcome.busiest = machines_.busiest_resource();
    return outcome;
  }

 private:
  friend MessageSimulation;

  std::vector<double> late_ranks() const {
    std::vector<double> late(traffic_.ranks.size(), 0);
    if (!request_.faults) return late;
    for (const RankFault& fault : request_.faults->late) late[fault.rank] += fault.value;
    return late;
  }

  // ---- as MessageSimulation wants it

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
  double agreed() const { return agreed_; }
  double agreeing() const { return traffic_.agreeing; }
  StepProgress& steps() { return steps_; }
  MachineQueues& machines() { return machines_; }

  const Traffic& traffic_;
  const EventsRequest& request_;
  MachineQueues machines_;
  StepProgress steps_;
  double agreed_ = 0;
};

}  // namespace

Outcome run_events(const Traffic& traffic, const MachineModel& machine, const Network& network,
                   const EventsRequest& request) {
  if (request.faults) require_ranks(*request.faults, static_cast<int>(traffic.ranks.size()));
  return Events(traffic, machine, network, request).run();
}

}  // namespace ringwood
