// The checker's second part: graphs and queues are consistent, messages match, and fusions name the
// right steps.
#include <algorithm>

#include <fmt/format.h>

#include "collectives/checker/checker_parts.h"

namespace ringwood {
namespace {

PlanFlaw check_graph(const Plan& plan, int rank) {
  const Graph& graph = plan.graph;
  const size_t steps = plan.steps.size();
  bool right = graph.offset.size() == steps + 1 && graph.predecessors.size() == steps &&
               plan.fusions.of_step.size() == steps && (steps == 0 || graph.offset[0] == 0);
  std::vector<int32_t> entering(steps);
  for (size_t i = 0; right && i < steps; ++i) {
    right = graph.offset[i] <= graph.offset[i + 1] &&
            static_cast<size_t>(graph.offset[i + 1]) <= graph.successor.size();
    for (int32_t k = graph.offset[i]; right && k < graph.offset[i + 1]; ++k) {
      const int32_t next = graph.successor[static_cast<size_t>(k)];
      right = next > static_cast<int32_t>(i) && static_cast<size_t>(next) < steps;
      if (right) ++entering[static_cast<size_t>(next)];
    }
  }
  if (right && entering == graph.predecessors) return std::nullopt;
  return fmt::format("rank {}'s graph does not fit its {} steps", rank, steps);
}

PlanFlaw check_queues(const PlanSet& set, int rank) {
  const Plan& plan = set.of(rank);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const BoundStep& step = plan.steps[i];
    const bool travels = sends(step) || receives(step);
    if (travels && (step.peer < 0 || step.peer >= set.n() || step.peer == rank))
      return plan_step_words(set, rank, i) + " names a peer that does not exist";
    if (!travels && step.peer >= 0)
      return plan_step_words(set, rank, i) + " is local, and names a peer";
    if (step.bytes % plan.element != 0 && moves_data(plan.key.args.collective))
      return plan_step_words(set, rank, i) + " cuts an element";
    if (!travels || step.bytes == 0) continue;
    const PeerQueue* const queue = queue_to(plan, step.peer);
    if (!queue) return plan_step_words(set, rank, i) + " has no queue";
    const auto& list = sends(step) ? queue->sends : queue->receives;
    const auto times = std::count(list.begin(), list.end(), static_cast<int32_t>(i));
    if (times != 1)
      return plan_step_words(set, rank, i) + fmt::format(" appears {} times in its queue", times);
  }
  for (const PeerQueue& queue : plan.peers)
    for (const auto* list : {&queue.sends, &queue.receives})
      for (size_t k = 0; k < list->size(); ++k) {
        const int32_t at = (*list)[k];
        if (at < 0 || static_cast<size_t>(at) >= plan.steps.size())
          return fmt::format("rank {}'s queue for rank {} names step {}", rank, queue.peer, at);
        const BoundStep& step = plan.steps[static_cast<size_t>(at)];
        const bool belongs = list == &queue.sends ? sends(step) : receives(step);
        if (!belongs || step.peer != queue.peer || step.bytes == 0)
          return plan_step_words(set, rank, static_cast<size_t>(at)) +
                 fmt::format(" does not belong in the queue for rank {}", queue.peer);
        if (k > 0 && at < (*list)[k - 1])
          return plan_step_words(set, rank, static_cast<size_t>(at)) +
                 " follows a later one in its queue";
      }
  return std::nullopt;
}

// Checks one message: its two ends must describe the same.
PlanFlaw check_message(const PlanSet& set, int from, size_t send, int to, size_t recv) {
  const BoundStep& a = set.of(from).steps[send];
  const BoundStep& b = set.of(to).steps[recv];
  const auto meets = [&] {
    return plan_step_words(set, from, send) + " meets " + plan_step_words(set, to, recv);
  };
  if (a.bytes != b.bytes || a.message_bytes != b.message_bytes)
    return meets() +
           fmt::format(": {} bytes travel, {} are expected", a.message_bytes, b.message_bytes);
  const bool fits = !a.carried || a.bytes <= kCarriedBytes;
  if (set.of(from).protocol == Protocol::one_round && (a.carried != b.carried || !fits))
    return meets() + ": not both within the preamble, or more than fits into it";
  const WireFormat right = set.between_hosts(from, to) ? set.format() : WireFormat::exact;
  if (a.wire != right || b.wire != right)
    return meets() + fmt::format(": one sends {}, the other receives {}, and it should be {}",
                                 to_string(a.wire), to_string(b.wire), to_string(right));
  const size_t bytes =
      right == WireFormat::exact ? a.bytes : wire_bytes(right, a.bytes / sizeof(float));
  if (a.message_bytes != bytes)
    return meets() + fmt::format(": {} bytes travel, not {}", a.message_bytes, bytes);
  return std::nullopt;
}

PlanFlaw check_pair(const PlanSet& set, int from, int to) {
  const PeerQueue* const out = queue_to(set.of(from), to);
  const PeerQueue* const in = queue_to(set.of(to), from);
  const size_t sent = out ? out->sends.size() : 0, expected = in ? in->receives.size() : 0;
  for (size_t k = 0; k < std::min(sent, expected); ++k)
    if (PlanFlaw flaw = check_message(set, from, static_cast<size_t>(out->sends[k]), to,
                                      static_cast<size_t>(in->receives[k])))
      return flaw;
  if (sent == expected) return std::nullopt;
  return fmt::format("rank {} sends rank {} {} messages, which expects {}", from, to, sent,
                     expected);
}

// ---- fusion ------------------------------------------------------------------------------------

bool same_place(const Place& a, const Place& b) {
  return a.buffer == b.buffer && a.offset == b.offset;
}

// The message that may be put into an exposed send's place is the one that the receive of that
// number expects.
PlanFlaw check_put(const PlanSet& set, int rank, size_t i) {
  const Plan& plan = set.of(rank);
  const BoundStep& send = plan.steps[i];
  if (send.put < 0) return std::nullopt;
  if (!sends(send) || send.wire != WireFormat::exact || send.bytes == 0)
    return plan_step_words(set, rank, i) + " cannot be overwritten by a put";
  const auto& receives = queue_to(plan, send.peer)->receives;
  const auto number = static_cast<size_t>(send.put);
  if (number < receives.size()) {
    const BoundStep& recv = plan.steps[static_cast<size_t>(receives[number])];
    if (recv.kind == StepKind::recv && recv.wire == WireFormat::exact && recv.bytes == send.bytes &&
        same_place(recv.dst, send.src) && receives[number] > static_cast<int32_t>(i))
      return std::nullopt;
  }
  return plan_step_words(set, rank, i) +
         fmt::format(" is overwritten by the put of message {}, which belongs elsewhere", number);
}

PlanFlaw check_fusion(const PlanSet& set, int rank, size_t f) {
  const Plan& plan = set.of(rank);
  const Fusion& fusion = plan.fusions.list[f];
  const size_t count = fusion.receives.size();
  const auto wrong = [&](const char* what) {
    return fmt::format("rank {}'s fusion {} {}", rank, f, what);
  };
  if (count == 0 || fusion.sends.size() != count || fusion.queues.size() != count ||
      fusion.numbers.size() != count)
    return wrong("has not as many sends as receives");
  const auto steps = static_cast<int32_t>(plan.steps.size());
  for (size_t k = 0; k < count; ++k) {
    const int32_t in = fusion.receives[k], out = fusion.sends[k], q = fusion.queues[k];
    if (in < 0 || in >= steps || out < 0 || out >= steps || q < 0 ||
        q >= static_cast<int32_t>(plan.peers.size()))
      return wrong("names a step or a queue that does not exist");
    const BoundStep& first = plan.steps[static_cast<size_t>(fusion.receives[0])];
    const BoundStep& recv = plan.steps[static_cast<size_t>(in)];
    const BoundStep& send = plan.steps[static_cast<size_t>(out)];
    const PeerQueue& queue = plan.peers[static_cast<size_t>(q)];
    const auto number = static_cast<size_t>(fusion.numbers[k]);
    if (recv.kind != StepKind::recv_reduce || !sends(send) || recv.wire != WireFormat::exact ||
        send.wire != WireFormat::exact || recv.peer != send.peer || recv.peer != queue.peer)
      return wrong("joins steps that are no sum and its return to the same rank");
    if (!same_place(recv.dst, first.dst) || !same_place(send.src, first.dst) ||
        recv.bytes != first.bytes || send.bytes != first.bytes)
      return wrong("joins steps of different places");
    if (number >= queue.sends.size() || queue.sends[number] != out)
      return wrong("names a message that is not its send");
    if (plan.fusions.of_step[static_cast<size_t>(in)] != static_cast<int32_t>(f))
      return wrong("has a receive that does not name it");
    if (k > 0 && in <= fusion.receives[k - 1]) return wrong("adds in another order");
  }
  return std::nullopt;
}

}  // namespace

PlanFlaw check_links(const PlanSet& set) {
  for (int r = 0; r < set.n(); ++r) {
    if (PlanFlaw flaw = check_graph(set.of(r), r)) return flaw;
    if (PlanFlaw flaw = check_queues(set, r)) return flaw;
  }
  for (int a = 0; a < set.n(); ++a)
    for (int b = 0; b < set.n(); ++b)
      if (PlanFlaw flaw = a == b ? std::nullopt : check_pair(set, a, b)) return flaw;
  return check_protocol(set);
}

PlanFlaw check_fusions(const PlanSet& set) {
  for (int r = 0; r < set.n(); ++r) {
    const Plan& plan = set.of(r);
    for (size_t i = 0; i < plan.steps.size(); ++i)
      if (PlanFlaw flaw = check_put(set, r, i)) return flaw;
    for (size_t f = 0; f < plan.fusions.list.size(); ++f)
      if (PlanFlaw flaw = check_fusion(set, r, f)) return flaw;
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      const int32_t f = plan.fusions.of_step[i];
      const auto& list = f >= 0 && f < static_cast<int32_t>(plan.fusions.list.size())
                             ? plan.fusions.list[static_cast<size_t>(f)].receives
                             : std::vector<int32_t>{};
      if (f != -1 && std::ranges::count(list, static_cast<int32_t>(i)) != 1)
        return plan_step_words(set, r, i) + " names a fusion that it is not part of";
    }
  }
  return std::nullopt;
}

}  // namespace ringwood
