#include "collectives/tuner/cost/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

#include "collectives/plan/passes.h"
#include "collectives/tuner/cost/cost_prices.h"

namespace ringwood {
namespace {

constexpr double kRounding = 1e-9;  // of a whole number of messages

bool local(StepKind kind) { return kind == StepKind::reduce || kind == StepKind::copy; }

DataType type_of(size_t element) {
  switch (element) {
    case 1: return DataType::uint8;
    case 2: return DataType::float16;
    case 8: return DataType::float64;
    case 16: return DataType::complex128;
    default: return DataType::float32;
  }
}

size_t scaled(size_t limit, double times) {
  return times == 1 ? limit : static_cast<size_t>(static_cast<double>(limit) * times);
}

class Binder {
 public:
  Binder(std::vector<Plan> plans, const Load& load, const MachineModel& machine,
         const HostSymmetry* symmetry)
      : load_(load),
        machine_(machine),
        symmetry_(symmetry),
        n_(static_cast<int>(plans.size())),
        prices_(load, machine, plans[0].schedule.n),
        known_(2 * static_cast<size_t>(plans[0].schedule.n)) {
    model_.plans = std::move(plans);
    model_.hosts = symmetry ? 1 : prices_.hosts();
    model_.ports = port_count(machine.net);
    model_.burst = machine.net.burst;
    for (int h = 0; h < model_.hosts; ++h)
      for (int port = 0; port < model_.ports; ++port)
        model_.port_rates.push_back(port_rate(machine.net, h, port));
    if (machine.net.carrier == PathClass::rdma && !machine.net.rail_of_rank)
      model_.rails = machine.net.rails;
    for (int h = 0; h < model_.hosts; ++h)
      for (int rail = 0; rail < model_.rails && model_.rails > 1; ++rail)
        model_.rail_rates.push_back(rail_rate(machine.net, h, rail));
    set_leaves(machine.net);
  }

  CostModel run() {
    model_.ranks.resize(n_);
    std::vector<double> sets(n_);
    for (int r = 0; r < n_; ++r) sets[r] = bind_rank(r);
    for (int r = 0; r < n_; ++r) add_messages(r);
    for (int r = 0; r < n_; ++r) add_fusions(r);
    for (int r = 0; r < n_ && load_.zero_copy; ++r) find_left(r);
    if (symmetry_ && machine_.net.far) find_far_parts();
    set_rates(std::move(sets));
    for (CostMessage& m : model_.messages) set_costs(m);
    if (load_.agreement) {
      const Prices::Agreement agreement = prices_.agreement();
      model_.agreed = agreement.agreed;
      model_.agreeing = agreement.agreeing;
    }
    return std::move(model_);
  }

 private:
  void set_leaves(const NetworkParameters& net) {
    const bool known = !symmetry_ && net.far && std::ssize(net.leaves) == model_.hosts;
    for (int h = 0; h < model_.hosts; ++h) {
      const int leaf = model_.leaf.emplace_back(known ? net.leaves[h] : h);
      if (std::ssize(model_.leaf_hosts) <= leaf) model_.leaf_hosts.resize(leaf + 1);
      ++model_.leaf_hosts[leaf];
    }
    if (known) model_.most_parts = std::max(1.0, net.nic / net.far->rate);
  }

  double bind_rank(int r) {
    const Plan& plan = model_.plans[r];
    CostRank& rank = model_.ranks[r];
    rank.plan = &plan;
    rank.host = symmetry_ ? 0 : prices_.host(r);
    for (const BoundStep& step : plan.steps) rank.bytes.push_back(static_cast<double>(step.bytes));
    rank.message.assign(plan.steps.size(), -1);
    return prices_.bind(plan, rank);
  }

  // The number of a rank in its group.
  int number(int r) const { return model_.plans[r].schedule.rank; }

  // The working set of a rank includes what it reads in place. With a fusion, each rank goes
  // through a part of all ranks' buffers instead of through all of its own.
  void set_rates(std::vector<double> sets) {
    std::vector<double> of_host(model_.hosts, 0);
    for (int r = 0; r < n_; ++r) of_host[model_.ranks[r].host] += sets[r];
    for (const CostMessage& m : model_.messages)
      if (m.in_place && m.path == PathClass::memory && prices_.mapped(m.bytes) &&
          m.send_step >= 0 && model_.plans[m.from].steps[m.send_step].put < 0)
        sets[m.to] += m.bytes;
    for (int r = 0; r < n_; ++r)
      prices_.set_rates(model_.ranks[r], number(r), sets[r], of_host[model_.ranks[r].host]);
  }

  // The k-th send of one end meets the k-th receive of the other.
  void add_messages(int r) {
    CostRank& rank = model_.ranks[r];
    for (size_t i = 0; i < rank.bytes.size(); ++i) {
      const BoundStep& step = rank.plan->steps[i];
      if (local(step.kind) || step.bytes == 0) continue;
      const bool sends = step.kind == StepKind::send;
      Direction& d = direction(r, step.peer, sends);
      size_t& at = sends ? d.sends : d.receives;
      if (at == d.messages.size()) append(d);
      const int32_t index = d.messages[at++];
      CostMessage& m = model_.messages[index];
      m.bytes = std::max(m.bytes, rank.bytes[i]);
      m.reduces |= step.kind == StepKind::recv_reduce;
      (sends ? m.send_step : m.recv_step) = static_cast<int32_t>(i);
      rank.message[i] = index;
      if (sends) m.scratch = step.src.buffer == kScratch;
      if (!sends) m.behind = step.early && at == 1;
      if (sends && load_.zero_copy) m.in_place = !m.scratch;
    }
  }

  // Fusions whose operands all lie where they can be put back (fusion.h).
  void add_fusions(int r) {
    const std::vector<int32_t>& message = model_.ranks[r].message;
    for (const Fusion& fusion : model_.plans[r].fusions.list) {
      bool put_back = true;
      for (size_t k = 0; k < fusion.receives.size() && put_back; ++k) {
        const CostMessage& operand = model_.messages[message[fusion.receives[k]]];
        put_back = operand.send_step >= 0 && operand.path == PathClass::memory &&
                   model_.plans[operand.from].steps[operand.send_step].put == fusion.numbers[k];
      }
      for (const int32_t send : fusion.sends) model_.messages[message[send]].puts |= put_back;
    }
  }

  // Data that a call reads in place lies in the cache where the previous call left it: in that of
  // its reader, if no other rank writes it (a send buffer, or a buffer that only the reader's
  // puts overwrite).
  void find_left(int r) {
    constexpr int32_t kNone = -1, kOthers = -2;
    const CostRank& rank = model_.ranks[r];
    const Schedule& schedule = rank.plan->schedule;
    std::vector<int32_t> writers(schedule.chunks + schedule.scratch.size(), kNone);
    for (size_t i = 0; i < schedule.steps.size(); ++i) {
      const Step& step = schedule.steps[i];
      if (step.kind == StepKind::send || rank.bytes[i] == 0) continue;
      const int32_t m = rank.message[i];
      const int32_t writer = m >= 0 && model_.messages[m].puts ? step.peer : kOthers;
      for (int c = step.dst.first; c < step.dst.first + step.dst.count; ++c)
        writers[c] = writers[c] == kNone || writers[c] == writer ? writer : kOthers;
    }
    for (size_t i = 0; i < schedule.steps.size(); ++i) {
      const Step& step = schedule.steps[i];
      if (step.kind != StepKind::send || rank.message[i] < 0) continue;
      bool left = true;
      for (int c = step.src.first; c < step.src.first + step.src.count; ++c)
        left &= writers[c] == kNone || writers[c] == step.peer;
      model_.messages[rank.message[i]].as_left = left;
    }
  }

  // By one relation some hosts reach a near host and others a far one. Bytes pass what lies between
  // far hosts from those only. Of messages that follow each other round the hosts, as in a ring, as
  // many are far as it has far hosts on its way; of a single one each waits for the slowest.
  void find_far_parts() {
    for (const Direction& d : directions_) {
      if (!d.like.between_hosts) continue;
      const double far = symmetry_->far_part(d.relation);
      const auto count = static_cast<double>(d.messages.size());
      const double of_latency = std::min(1.0, std::ceil(count * far - kRounding) / count);
      for (const int32_t m : d.messages) prices_.set_far_parts(model_.messages[m], of_latency, far);
    }
  }

  struct Direction {
    CostMessage like;  // without its steps and bytes
    int32_t relation = 0;
    std::vector<int32_t> messages;
    size_t sends = 0, receives = 0;
  };
  // Of the last rank that asked for it.
  struct Known {
    int32_t rank = -1, direction = 0;
  };

  // Of rank r's messages to or from a peer. With a symmetry, the peer's messages are those of the
  // rank of host 0 that has its index; the relation of the two hosts keeps links apart.
  Direction& direction(int r, int peer, bool sends) {
    Known& known = known_[2 * static_cast<size_t>(peer) + (sends ? 1 : 0)];
    if (known.rank != r) known = {r, find_direction(r, peer, sends)};
    return directions_[known.direction];
  }

  int32_t find_direction(int r, int peer, bool sends) {
    const int32_t other = index_of(peer);
    int32_t relation = 0;
    if (symmetry_) {
      const int here = symmetry_->host_of(number(r)), there = symmetry_->host_of(peer);
      relation = sends ? symmetry_->relation(here, there) : symmetry_->relation(there, here);
    }
    const auto [at, is_new] =
        direction_of_.try_emplace(Ends{sends ? r : other, sends ? other : r, relation},
                                  static_cast<int32_t>(directions_.size()));
    if (is_new) {
      Direction& made = directions_.emplace_back();
      made.like = prices_.message(sends ? number(r) : peer, sends ? peer : number(r));
      made.like.from = sends ? r : other;
      made.like.to = sends ? other : r;
      made.relation = relation;
    }
    return at->second;
  }

  int32_t index_of(int rank) const { return symmetry_ ? symmetry_->index_of(rank) : rank; }

  void append(Direction& d) {
    const auto index = static_cast<int32_t>(model_.messages.size());
    if (d.messages.empty())
      model_.heads.push_back(index);
    else
      model_.messages[d.messages.back()].next = index;
    d.messages.push_back(index);
    model_.messages.push_back(d.like);
  }

  void set_costs(CostMessage& m) const {
    if (m.send_step < 0 || m.recv_step < 0)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("cost: a message from rank {} to rank {} has only one end", m.from, m.to));
    prices_.set_costs(m, model_.ranks[m.from], model_.ranks[m.to]);
  }

  using Ends = std::array<int32_t, 3>;  // from, to, relation
  struct Hash {
    size_t operator()(const Ends& e) const {
      return static_cast<size_t>(e[0]) * 0x9e3779b97f4a7c15u ^
             static_cast<size_t>(e[1]) * 0xc2b2ae3d27d4eb4fu ^ static_cast<size_t>(e[2]);
    }
  };

  const Load& load_;
  const MachineModel& machine_;
  const HostSymmetry* const symmetry_;  // null: all ranks are here
  const int n_;                         // of the ranks that are here
  const Prices prices_;
  CostModel model_;
  std::vector<Direction> directions_;
  std::unordered_map<Ends, int32_t, Hash> direction_of_;
  std::vector<Known> known_;  // by peer, what comes from it and what goes to it
};

}  // namespace

double buffer_bytes(const Plan& plan) {
  size_t elements = plan.key.args.count;
  if (in_blocks(plan.key.args.collective)) {
    const auto blocks = static_cast<size_t>(plan.schedule.chunks / plan.form.segments);
    elements = std::accumulate(plan.key.args.blocks.begin(), plan.key.args.blocks.end(), size_t{0});
    if (plan.key.args.blocks.empty()) elements = plan.key.args.count * blocks;
  }
  return static_cast<double>(elements * plan.element + plan.memory.scratch_bytes);
}

CollectiveArgs args_of(const Schedule& s, const Load& load) {
  CollectiveArgs args{load.collective, type_of(load.element), ReduceOp::sum, 0, 0, {}};
  args.count = load.bytes / load.element;
  const int blocks = required_chunks(load.collective, s.n);
  if (blocks == 0 || s.chunks <= blocks) return args;
  const std::vector<size_t> bytes = chunk_bytes(s, load);
  for (int c = 0; c < s.chunks; ++c) args.blocks.push_back(bytes[c] / load.element);
  return args;
}

std::vector<Plan> plans_of(const std::vector<Schedule>& schedules, int segment_count,
                           const Load& load, const MachineModel& machine) {
  ProtocolLimits limits = machine.limits;
  limits.bundled = scaled(limits.bundled, 1 / load.of_block_bytes);
  limits.bundled_in_memory =
      std::max<size_t>(2, scaled(limits.bundled_in_memory, 1 / load.of_blocks));
  limits.bundled_bytes_in_memory =
      scaled(limits.bundled_bytes_in_memory, 1 / (load.of_blocks * load.of_block_bytes));
  if (!load.zero_copy) limits.fused_bytes = std::numeric_limits<size_t>::max();
  std::vector<Plan> plans;
  plans.reserve(schedules.size());
  if (schedules.empty()) return plans;
  const GroupSize group = group_of(load, machine, schedules[0].n);
  const bool slots = eager_slots(machine, group);
  const Wire wire{load.wire, machine.hosts, machine.loopback, group};
  for (const Schedule& s : schedules) {
    const auto plan =
        make_plan(s, args_of(s, load), "", segment_count,
                  load.one_round ? Protocol::one_round : Protocol::queued, wire, nullptr, limits);
    plans.push_back(slots ? add_slots(std::move(*plan)) : std::move(*plan));
  }
  return plans;
}

CostModel model_of(std::vector<Plan> plans, const Load& load, const MachineModel& machine,
                   const HostSymmetry* symmetry) {
  if (plans.empty()) throw Error(ErrorCode::invalid_argument, "cost: no schedules");
  const size_t n = symmetry ? static_cast<size_t>(plans[0].schedule.n) : plans.size();
  if (!machine.hosts.empty() && machine.hosts.size() != n)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("cost: {} schedules, but the machine has {} ranks", n, machine.hosts.size()));
  for (size_t i = 0; i < plans.size(); ++i) {
    const Schedule& s = plans[i].schedule;
    const int rank = symmetry ? symmetry->ranks_of_first_host()[i] : static_cast<int>(i);
    if (s.rank != rank || s.n != static_cast<int>(n))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("cost: schedule {} is of rank {} of {}", i, s.rank, s.n));
  }
  return Binder(std::move(plans), load, machine, symmetry).run();
}

}  // namespace ringwood
