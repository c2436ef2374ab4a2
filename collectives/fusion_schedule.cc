// What fusion.cc finds in the plan of a schedule, found without a plan of its own: for predictions.
#include <algorithm>

#include "collectives/plan.h"

namespace ringwood {
namespace {

PeerQueue& queue_of(Plan& plan, int peer) {
  const auto known = std::find_if(plan.peers.begin(), plan.peers.end(),
                                  [&](const PeerQueue& q) { return q.peer == peer; });
  if (known != plan.peers.end()) return *known;
  plan.peers.push_back({peer, 0, 0, {}, {}, {}});
  return plan.peers.back();
}

}  // namespace

Fusions fusions_of(const Schedule& schedule, const Graph& graph,
                   std::span<const size_t> chunk_bytes) {
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
    PeerQueue& queue = queue_of(plan, step.peer);
    (step.kind == StepKind::send ? queue.sends : queue.receives).push_back(index);
  }
  find_fusions(plan);
  Fusions found{std::move(plan.fusions), {}};
  for (const BoundStep& step : plan.steps) found.answer.push_back(step.answer);
  return found;
}

}  // namespace ringwood
