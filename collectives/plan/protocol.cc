// How an operation begins: the protocol, and which of its data go with the preambles.
#include <algorithm>
#include <utility>

#include "collectives/plan/agreement.h"
#include "collectives/plan/passes.h"
#include "collectives/schedule/compose.h"
#include "collectives/schedule/factors.h"

namespace ringwood {
namespace {

// Ranks; -1: none.
void plan_exchange(Plan& plan, int stage, int to, int from) {
  Plan::Exchange exchange{stage, -1, -1, 0, 0};
  if (to >= 0) {
    exchange.to = static_cast<int>(queue_of(plan, to));
    exchange.nth_to = plan.peers[static_cast<size_t>(exchange.to)].preambles_out++;
  }
  if (from >= 0) {
    exchange.from = static_cast<int>(queue_of(plan, from));
    exchange.nth_from = plan.peers[static_cast<size_t>(exchange.from)].preambles_in++;
  }
  plan.agreement.push_back(exchange);
}

void plan_by_digits(Plan& plan, int stage, int rank, const std::vector<int>& factors) {
  for (const DigitRound& round : digit_rounds(rank, factors)) {
    for (int i = 1; i < round.factor; ++i)
      plan_exchange(plan, stage, round.after(i), round.before(i));
    ++stage;
  }
}

// After round k a rank has heard, transitively, from the 2^(k+1) - 1 ranks before it.
void plan_dissemination(Plan& plan, int stage, int rank, int n) {
  for (int distance = 1; distance < n; distance *= 2)
    plan_exchange(plan, stage++, wrap(rank + distance, n), wrap(rank - distance, n));
}

void plan_by_hosts(Plan& plan, int stage, const AgreementPlace& place) {
  for (const int peer : place.below) plan_exchange(plan, stage, -1, peer);
  ++stage;
  if (place.above >= 0) {
    plan_exchange(plan, stage++, place.above, place.above);
  } else {
    const auto count = static_cast<int>(place.leaders.size());
    for (int distance = 1; distance < count; distance *= 2)
      plan_exchange(plan, stage++, place.told(distance), place.heard(distance));
  }
  for (const int peer : place.below) plan_exchange(plan, stage, peer, -1);
}

// How n ranks agree: as the group does that they are or stand for.
struct Agreeing {
  GroupSize group;
  AgreementWay way;
  // Of n; empty also where ranks stand for others, but have no such digits.
  std::vector<int> factors;

  Agreeing(const Wire& wire, int n)
      : group(wire.group.ranks > 0 ? wire.group : group_size(wire.host, n, n)),
        way(agreement_way(group, wire.apart)),
        factors(way.factors) {
    if (n != group.ranks && !factors.empty())
      factors = agreement_factors(n, group.hosts == 1 && !wire.apart);
  }
};

// The ranks that a rank tells and hears while data may move; none where that is not worth while: by
// slots or in one round, after which data has as far to go as before, and by dissemination, which
// no row's data follows.
struct Partners {
  std::vector<int> told, heard;
  bool last_from_above = false;  // it is below another of its host
};

Partners partners_of(int rank, int n, const Wire& wire) {
  const Agreeing agreeing(wire, n);
  if (agreeing.group.few() && !wire.apart) return {};
  if (agreeing.way.by_hosts) {
    const AgreementPlace place = agreement_place(rank, n, wire.host, agreeing.group.crowded());
    return {place.all_told(), place.all_heard(), place.above >= 0};
  }
  Partners all;
  if (agreeing.way.factors.size() < 2) return all;
  for (const DigitRound& round : digit_rounds(rank, agreeing.factors))
    for (int i = 1; i < round.factor; ++i) all.told.push_back(round.after(i));
  all.heard = all.told;
  return all;
}

// Where sizes belong to pairs, every pair exchanges fingerprints first, and the rest then tells
// every rank that all pairs agree.
void plan_agreement(Plan& plan, int rank, int n, const Wire& wire) {
  int stage = 0;
  if (has_blocks_of_pairs(plan.key.args) && n > 2) {
    for (int distance = 1; distance < n; ++distance)
      plan_exchange(plan, stage, wrap(rank + distance, n), wrap(rank - distance, n));
    ++stage;
  }
  const Agreeing agreeing(wire, n);
  if (agreeing.way.by_hosts)
    plan_by_hosts(plan, stage, agreement_place(rank, n, wire.host, agreeing.group.crowded()));
  else if (agreeing.factors.empty())
    plan_dissemination(plan, stage, rank, n);
  else
    plan_by_digits(plan, stage, rank, agreeing.factors);
}

void plan_one_round(Plan& plan, int rank, int n) {
  for (int distance = 1; distance < n; ++distance) {
    PeerQueue& queue = plan.peers[queue_of(plan, wrap(rank + distance, n))];
    queue.preambles_out = queue.preambles_in = 1;
  }
}

void enclose(Plan& plan, int n) {
  plan.one_round.sends.assign(n, -1);
  plan.one_round.receives.assign(n, -1);
  for (const PeerQueue& queue : plan.peers) {
    if (!queue.sends.empty()) plan.one_round.sends[queue.peer] = queue.sends[0];
    if (!queue.receives.empty()) plan.one_round.receives[queue.peer] = queue.receives[0];
  }
}

size_t first_after_a_send(const Plan& plan) {
  size_t first = plan.steps.size();
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].kind != StepKind::send || plan.steps[i].bytes == 0) continue;
    for (int32_t k = plan.graph.offset[i]; k < plan.graph.offset[i + 1]; ++k)
      first = std::min<size_t>(first, plan.graph.successor[k]);
  }
  return first;
}

void find_folds(Plan& plan) {
  for (size_t i = 0; i + 1 < plan.steps.size(); ++i) {
    BoundStep& step = plan.steps[i];
    const BoundStep& next = plan.steps[i + 1];
    const int32_t first = plan.graph.offset[i], end = plan.graph.offset[i + 1];
    step.folds = step.kind == StepKind::recv && next.kind == StepKind::reduce &&
                 step.dst.buffer == kScratch && next.src.buffer == kScratch &&
                 next.src.offset == step.dst.offset && next.bytes == step.bytes &&
                 end - first == 1 && plan.graph.successor[first] == static_cast<int32_t>(i + 1);
  }
}

void find_carried(Plan& plan) {
  for (BoundStep& step : plan.steps) step.carried = step.peer >= 0 && step.bytes <= kCarriedBytes;
}

}  // namespace

// All of its data goes the way of the agreement: where only what it receives does, others that do
// not begin early would keep it waiting. Peers may put into a buffer of the user's that fusion
// exposes, so no block may be large enough for one. A rank below another hears last of that one,
// and so has no time to gain by copies.
bool begins_early(const Schedule& schedule, const CollectiveArgs& args, Protocol protocol,
                  const Wire& wire, const ProtocolLimits& limits) {
  const size_t bytes = args.count * size_of(args.type);
  const bool copies = !moves_in_scratch(schedule);
  if (protocol != Protocol::queued || wire.format != WireFormat::exact) return false;
  if (copies && args.collective != Collective::all_reduce) return false;
  if (bytes == 0 || bytes > limits.early_bytes || bytes >= limits.fused_bytes) return false;
  const Partners partners = partners_of(schedule.rank, schedule.n, wire);
  if (partners.told.empty() || (copies && partners.last_from_above)) return false;
  return std::ranges::all_of(schedule.steps, [&](const Step& step) {
    if (step.peer < 0) return true;
    const std::vector<int>& of = step.kind == StepKind::send ? partners.told : partners.heard;
    return std::ranges::find(of, step.peer) != of.end();
  });
}

Plan add_early(Plan plan) {
  for (BoundStep& step : plan.steps) step.early = step.peer >= 0 || step.dst.buffer == kScratch;
  return plan;
}

Plan add_slots(Plan plan) {
  plan.slots = true;
  plan.agreement.clear();
  for (PeerQueue& queue : plan.peers) queue.preambles_out = queue.preambles_in = 0;
  for (BoundStep& step : plan.steps) step.early = false;
  if (plan.protocol != Protocol::one_round) return plan;
  plan.protocol = Protocol::eager_slots;
  for (size_t i = 0; i + 1 < plan.steps.size(); ++i) {
    BoundStep &step = plan.steps[i], &next = plan.steps[i + 1];
    if (!std::exchange(step.folds, false)) continue;
    step.kind = StepKind::recv_reduce;
    step.dst = next.dst;
    step.wide = next.wide;
    step.sum = next.sum;
    next.bytes = next.message_bytes = 0;
  }
  return plan;
}

bool fits_one_round(const Schedule& s) {
  const Graph graph = derive(s);
  std::vector<int> sends(s.n), receives(s.n);
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const Step& step = s.steps[i];
    if (step.peer < 0) continue;
    if (std::max(step.src.count, step.dst.count) != 1) return false;
    if (step.kind == StepKind::send && graph.predecessors[i] != 0) return false;
    if (++(step.kind == StepKind::send ? sends : receives)[step.peer] > 1) return false;
  }
  return true;
}

Plan add_protocol(Plan plan, Protocol protocol, const Wire& wire) {
  const int rank = plan.schedule.rank, n = plan.schedule.n;
  if (protocol == Protocol::one_round) {
    plan.protocol = Protocol::one_round;
    plan_one_round(plan, rank, n);
    enclose(plan, n);
    find_folds(plan);
    find_carried(plan);
  } else {
    plan_agreement(plan, rank, n, wire);
  }
  plan.one_round.sends_until = first_after_a_send(plan);
  return plan;
}

}  // namespace ringwood
