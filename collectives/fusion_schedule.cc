// What fusion.cc finds in the plan of a schedule, found without a plan of its own: for predictions.
#include <algorithm>

#include "collectives/plan/passes.h"

namespace ringwood {
Fusions fusions_of(const Schedule& schedule, const Graph& graph,
                   std::span<const size_t> chunk_bytes, const ProtocolLimits& limits) {
  std::vector<Place> places;  // by chunk, one after the other: all that counts is what overlaps
  size_t user = 0, scratch = 0;
  for (size_t c = 0; c < chunk_bytes.size(); ++c) {
    const bool of_user = c < static_cast<size_t>(schedule.chunks);
    size_t& end = of_user ? user : scratch;
    places.push_back({of_user ? 0 : kScratch, end});
    end += chunk_bytes[c];
  }
  Plan plan;
  plan.graph = graph;
  for (const Step& step : schedule.steps) {
    BoundStep bound;
    bound.kind = step.kind;
    bound.peer = step.peer;
    const Span span = step.dst.count ? step.dst : step.src;
    for (int c = span.first; c < span.first + span.count; ++c) bound.bytes += chunk_bytes[c];
    if (step.dst.count) bound.dst = places[step.dst.first];
    if (step.src.count) bound.src = places[step.src.first];
    bound.message_bytes = bound.bytes;
    const auto index = static_cast<int32_t>(plan.steps.size());
    plan.steps.push_back(bound);
    if (step.peer < 0 || bound.bytes == 0) continue;
    PeerQueue& queue = plan.peers[queue_of(plan, step.peer)];
    (step.kind == StepKind::send ? queue.sends : queue.receives).push_back(index);
  }
  plan = add_fusion(std::move(plan), limits);
  Fusions found{std::move(plan.fusions), {}};
  for (const BoundStep& step : plan.steps) found.answer.push_back(step.answer);
  return found;
}

}  // namespace ringwood
