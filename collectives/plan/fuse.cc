#include "collectives/plan/fusion.h"

#include <algorithm>

#include "collectives/plan/passes.h"

namespace ringwood {
namespace {

struct Range {
  int32_t buffer;
  size_t begin, end;
};
Range range(const Place& place, size_t bytes) {
  return {place.buffer, place.offset, place.offset + bytes};
}
bool overlap(const Range& a, const Range& b) {
  return a.buffer == b.buffer && a.begin < b.end && b.begin < a.end;
}
bool same(const Range& a, const Range& b) {
  return a.buffer == b.buffer && a.begin == b.begin && a.end == b.end;
}

bool writes(const BoundStep& s) { return s.kind != StepKind::send; }
bool reads_source(const BoundStep& s) {
  return s.kind == StepKind::send || s.kind == StepKind::reduce || s.kind == StepKind::copy;
}
bool touches(const BoundStep& s, const Range& r) {
  if (s.bytes == 0) return false;
  return (writes(s) && overlap(range(s.dst, s.bytes), r)) ||
         (reads_source(s) && overlap(range(s.src, s.bytes), r));
}

int32_t index_in(const std::vector<int32_t>& list, int32_t step) {
  return static_cast<int32_t>(std::find(list.begin(), list.end(), step) - list.begin());
}

// The end of the search for a fusion: a direct exchange with every peer lies within it, and the
// search stays linear.
size_t window_end(const Plan& plan, size_t i) {
  return std::min(plan.steps.size(), i + 8 * plan.peers.size() + 16);
}

// The receive that overwrites what step i sends, from the same peer, with nothing in between. The
// peer may write as soon as it has read, so no other step may still be reading then: the receive
// may wait for step i only.
int32_t put_to(const Plan& plan, size_t i) {
  // Whatever overwrites it waits for it.
  if (plan.graph.offset[i] == plan.graph.offset[i + 1]) return -1;
  const BoundStep& send = plan.steps[i];
  const Range place = range(send.src, send.bytes);
  for (size_t j = i + 1; j < window_end(plan, i); ++j) {
    const BoundStep& step = plan.steps[j];
    if (!touches(step, place)) continue;
    const bool puts = step.kind == StepKind::recv && step.peer == send.peer &&
                      same(range(step.dst, step.bytes), place) && plan.graph.predecessors[j] == 1;
    return puts ? index_in(queue_to(plan, step.peer)->receives, static_cast<int32_t>(j)) : -1;
  }
  return -1;
}

// Sums that are kept in fp32 must begin and end within the fusion; otherwise a part of them is not
// at the place that the fusion reads.
bool whole_accumulation(const Plan& plan, const Fusion& fusion) {
  if (plan.wide.rounds_each && fusion.receives.size() > 1) return false;
  const Wide& first = plan.steps[fusion.receives.front()].wide;
  const Wide& last = plan.steps[fusion.receives.back()].wide;
  return first.on == first.first && last.on == last.last;
}

// The fusion that begins with step i, or an empty one.
Fusion fusion_at(const Plan& plan, size_t i) {
  const BoundStep& first = plan.steps[i];
  const Range place = range(first.dst, first.bytes);
  Fusion found;
  std::vector<int> peers;
  for (size_t j = i; j < window_end(plan, i); ++j) {
    const BoundStep& step = plan.steps[j];
    if (!touches(step, place)) continue;
    const auto index = static_cast<int32_t>(j);
    if (step.wire != WireFormat::exact) break;
    if (step.kind == StepKind::recv_reduce && found.sends.empty() &&
        same(range(step.dst, step.bytes), place) &&
        std::find(peers.begin(), peers.end(), step.peer) == peers.end()) {
      found.receives.push_back(index);
      peers.push_back(step.peer);
      continue;
    }
    const auto peer = std::find(peers.begin(), peers.end(), step.peer);
    if (step.kind != StepKind::send || peer == peers.end() ||
        !same(range(step.src, step.bytes), place))
      break;
    found.sends.resize(peers.size(), -1);
    int32_t& place_of_peer = found.sends[static_cast<size_t>(peer - peers.begin())];
    if (place_of_peer >= 0) break;
    place_of_peer = index;
    if (std::count(found.sends.begin(), found.sends.end(), -1) > 0) continue;
    return whole_accumulation(plan, found) ? found : Fusion{};
  }
  return {};
}

}  // namespace

Plan add_fusion(Plan plan, const ProtocolLimits& limits) {
  plan.fusions.of_step.assign(plan.steps.size(), -1);
  // There the scratch takes the place of the user's buffers.
  const bool device = plan.key.request.memory == MemoryKind::device;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    BoundStep& step = plan.steps[i];
    if (step.bytes < limits.fused_bytes || step.wire != WireFormat::exact) continue;
    if (step.kind == StepKind::send && (step.src.buffer != kScratch || device))
      step.put = put_to(plan, i);
    if (step.kind != StepKind::recv_reduce || plan.fusions.of_step[i] >= 0) continue;
    Fusion fusion = fusion_at(plan, i);
    if (fusion.receives.empty()) continue;
    fusion.patience = limits.fusion_patience;
    for (int32_t s : fusion.sends) {
      const PeerQueue& queue = *queue_to(plan, plan.steps[s].peer);
      fusion.queues.push_back(static_cast<int32_t>(&queue - plan.peers.data()));
      fusion.numbers.push_back(index_in(queue.sends, s));
    }
    for (int32_t s : fusion.receives)
      plan.fusions.of_step[s] = static_cast<int32_t>(plan.fusions.list.size());
    plan.fusions.list.push_back(std::move(fusion));
  }
  return plan;
}

}  // namespace ringwood
