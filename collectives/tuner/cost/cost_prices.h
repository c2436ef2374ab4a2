// The cost of single messages, and of a rank's own work, on a MachineModel: the terms of cost.h,
// independent of schedules. For the cost model's files. Pure.
#pragma once

#include <vector>

#include "collectives/tuner/cost/cost_model.h"

namespace ringwood {

// The bytes of every chunk, scratch included, cut as the plan cuts them.
std::vector<size_t> chunk_bytes(const Schedule& schedule, const Load& load);

// The whole group, of which n ranks are simulated.
inline GroupSize group_of(const Load& load, const MachineModel& machine, int n) {
  return load.of_group.ranks > 0 ? load.of_group : machine.size(n);
}
// Whether every rank of it has eager slots to every other (transports/eager_channel.h).
bool eager_slots(const MachineModel& machine, const GroupSize& group);

class Prices final {
 public:
  // Both are memory of the caller. `n` ranks, placed as the machine model says.
  Prices(const Load& load, const MachineModel& machine, int n);

  int hosts() const { return static_cast<int>(on_host_.size()); }
  int host(int rank) const { return machine_.host_of(rank); }
  bool same_host(int a, int b) const { return host(a) == host(b); }
  int on_host(int rank) const { return on_host_[host(rank)]; }

  // Sets own_block, sends and receives of the rank with this plan. Returns its working set, the
  // bytes that it reads and writes repeatedly: its buffers, and the links that it fills.
  double bind(const Plan& plan, CostRank& rank) const;
  // `own` and `of_host`: working sets of this rank and of all ranks of its host together.
  void set_rates(CostRank& rank, int number, double own, double of_host) const;

  // A message with the path between its ends; without its steps, `next`, `in_place` and `puts`,
  // which depend on the schedules.
  // `from`, `to`: the ranks' numbers in their group.
  CostMessage message(int from, int to) const;
  // Of one message in place of one on each host, of which parts are far: of their latency, of the
  // bytes that pass what lies between far hosts.
  void set_far_parts(CostMessage& message, double of_latency, double of_bytes) const;
  // A message of so many bytes is read where it lies, if its buffer is one that both ranks map.
  bool mapped(double bytes) const { return !machine_.staged || bytes >= machine_.zero_copy; }
  // Sets, once, the costs that follow from `bytes`, `reduces`, `in_place` and `puts`.
  void set_costs(CostMessage& message, const CostRank& from, const CostRank& to) const;

  // The cost of the rounds of the agreement (plan/agreement.h), of small messages. In one round, as
  // always by eager slots (transports/eager_channel.h), one message to and from every other rank.
  struct Agreement {
    double agreed = 0, agreeing = 0;  // as in CostModel
  };
  Agreement agreement() const;

 private:
  double working_set(double buffers, std::vector<std::pair<int, double>> sent) const;
  double own_block(int rank) const;
  Agreement agreement_by_hosts() const;
  Agreement agreement_round(int messages, bool once) const;
  double furthest() const;                  // latency of the furthest hosts
  double inside(bool between_nodes) const;  // latency of a message inside a host
  double line(bool between_nodes) const;
  double turn(int on_host, int cores) const;
  double in_turns(double seconds, int of_host) const;
  double handed(const CostMessage& m, const CostRank& from, const CostRank& to) const;
  void set_by_device(CostMessage& m, const CostRank& to) const;
  void set_between_islands(CostMessage& m) const;
  void set_by_link(CostMessage& m, const CostRank& from, const PerByte& takes) const;
  void set_written(CostMessage& m, const CostRank& from, const PerByte& takes, double rate) const;
  void encode(CostMessage& m, const PerByte& copies, const PerByte& takes) const;

  const Load& load_;
  const MachineModel& machine_;
  const GroupSize group_;     // the whole one
  std::vector<int> on_host_;  // ranks on each host
  std::vector<int> index_;    // by rank: its number among those of its host
  bool eager_slots_ = false;  // every rank maps every other's memory
};

}  // namespace ringwood
