// Faults of messages, queues, steps and places.
#include <algorithm>

#include "tests/checker/plan_faults.h"

namespace ringwood::testing {
namespace {

using Group = const PlanGroup&;

bool is_send(const Plan& p, size_t i) { return p.steps[i].kind == StepKind::send; }
bool is_receive(const Plan& p, size_t i) {
  return p.steps[i].kind == StepKind::recv || p.steps[i].kind == StepKind::recv_reduce;
}
// Whether anybody reads what a local step writes.
bool is_local(const Plan& p, size_t i) {
  const BoundStep& step = p.steps[i];
  bool used = step.dst.buffer != kScratch;
  for (size_t j = i + 1; j < p.steps.size(); ++j) {
    const BoundStep& s = p.steps[j];
    const bool adds = s.kind == StepKind::recv_reduce || s.kind == StepKind::reduce;
    used = used || (!is_receive(p, j) && overlap(step.dst, step.bytes, s.src, s.bytes)) ||
           (adds && overlap(step.dst, step.bytes, s.dst, s.bytes));
  }
  return step.peer < 0 && used;
}
bool always(const Plan&, size_t, const Plan&, size_t) { return true; }
// A message whose bytes the receiver needs: all are, but for a fraction that could be shorter.
bool divisible(const Plan& p, size_t i) { return p.steps[i].bytes > 2 * p.element; }

void leave_out(Plan& plan, size_t step) {
  PeerQueue& queue = queue_for(plan, plan.steps[step].peer);
  for (auto* list : {&queue.sends, &queue.receives}) std::erase(*list, static_cast<int32_t>(step));
  plan.steps[step].bytes = plan.steps[step].message_bytes = 0;
  for (auto* list : {&plan.one_round.receives, &plan.one_round.sends})
    std::ranges::replace(*list, static_cast<int32_t>(step), -1);
}

// Behind itself, with all that follows moved by one.
void repeat(Plan& plan, size_t step) {
  const auto moved = [&](int32_t s) { return s > static_cast<int32_t>(step) ? s + 1 : s; };
  plan.steps.insert(plan.steps.begin() + static_cast<long>(step), plan.steps[step]);
  for (PeerQueue& q : plan.peers)
    for (auto* list : {&q.sends, &q.receives}) std::ranges::transform(*list, list->begin(), moved);
  for (auto* list : {&plan.one_round.receives, &plan.one_round.sends})
    std::ranges::transform(*list, list->begin(), moved);
  for (Fusion& f : plan.fusions.list)
    for (auto* list : {&f.receives, &f.sends}) std::ranges::transform(*list, list->begin(), moved);
  plan.fusions.of_step.insert(plan.fusions.of_step.begin() + static_cast<long>(step), -1);
  if (plan.one_round.sends_until > step) ++plan.one_round.sends_until;
  // The first of the two comes before the second, which has the edges to the others.
  Graph& graph = plan.graph;
  for (int32_t& s : graph.successor) s = moved(s);
  const int32_t begin = graph.offset[step];
  graph.offset.insert(graph.offset.begin() + static_cast<long>(step), begin);
  graph.successor.insert(graph.successor.begin() + begin, static_cast<int32_t>(step + 1));
  for (size_t k = step + 1; k < graph.offset.size(); ++k) ++graph.offset[k];
  graph.predecessors.insert(graph.predecessors.begin() + static_cast<long>(step) + 1, 1);
}

std::vector<PlanFault> message_faults() {
  return {
      {"message_bytes of one side",
       [](Group g) {
         return at_steps(
             g, [](const Plan& p, size_t i) { return p.steps[i].peer >= 0; },
             [](Plan& p, size_t i) { p.steps[i].message_bytes += p.element; });
       }},
      {"message_bytes of both sides",
       [](Group g) {
         return at_messages(g, always, [](Plan& a, size_t s, Plan& b, size_t r) {
           a.steps[s].message_bytes += a.element;
           b.steps[r].message_bytes += b.element;
         });
       }},
      {"a message an element short on both sides",
       [](Group g) {
         return at_messages(
             g,
             [](const Plan& a, size_t s, const Plan&, size_t) {
               return divisible(a, s) && a.steps[s].wire == WireFormat::exact;
             },
             [](Plan& a, size_t s, Plan& b, size_t r) {
               for (BoundStep* step : {&a.steps[s], &b.steps[r]}) {
                 step->bytes -= a.element;
                 step->message_bytes -= a.element;
               }
             });
       }},
      {"a message left out on both sides",
       [](Group g) {
         return at_messages(g, always, [](Plan& a, size_t s, Plan& b, size_t r) {
           leave_out(a, s);
           leave_out(b, r);
         });
       }},
      {"a message left out by its sender", [](Group g) { return at_steps(g, is_send, leave_out); }},
      {"a message that its receiver leaves out",
       [](Group g) { return at_steps(g, is_receive, leave_out); }},
      {"a peer that is another",
       [](Group g) {
         if (g.plans.size() < 3) return std::vector<PlanEdit>{};
         const auto n = static_cast<int>(g.plans.size());
         return at_steps(
             g, [](const Plan& p, size_t i) { return p.steps[i].peer >= 0; },
             [=](Plan& p, size_t i) { p.steps[i].peer = (p.steps[i].peer + 1) % n; });
       }},
      {"the order of two sends exchanged in a queue",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               return is_send(p, i) &&
                      queue_for(const_cast<Plan&>(p), p.steps[i].peer).sends.back() !=
                          static_cast<int32_t>(i);
             },
             [](Plan& p, size_t i) {
               auto& list = queue_for(p, p.steps[i].peer).sends;
               const size_t k = index_in(list, i);
               std::swap(list[k], list[k + 1]);
             });
       }},
      {"a message that stands in its queue twice",
       [](Group g) {
         return at_steps(g, is_send, [](Plan& p, size_t i) {
           queue_for(p, p.steps[i].peer).sends.push_back(static_cast<int32_t>(i));
         });
       }},
      {"a queue that lacks a message",
       [](Group g) {
         return at_steps(g, is_receive, [](Plan& p, size_t i) {
           std::erase(queue_for(p, p.steps[i].peer).receives, static_cast<int32_t>(i));
         });
       }},
  };
}

std::vector<PlanFault> step_faults() {
  return {
      {"a local step left out",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               return is_local(p, i) && p.steps[i].wire == WireFormat::exact;
             },
             [](Plan& p, size_t i) { p.steps[i].bytes = 0; });
       }},
      {"an addition done twice",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               // An accumulation that is begun again is the same one.
               return p.steps[i].kind == StepKind::reduce && !p.steps[i].wide.first;
             },
             repeat);
       }},
      {"an addition for a receive, or a receive for an addition",
       [](Group g) {
         return at_steps(g, is_receive, [](Plan& p, size_t i) {
           StepKind& kind = p.steps[i].kind;
           kind = kind == StepKind::recv ? StepKind::recv_reduce : StepKind::recv;
         });
       }},
      {"an addition for a copy, or a copy for an addition",
       [](Group g) {
         return at_steps(g, is_local, [](Plan& p, size_t i) {
           StepKind& kind = p.steps[i].kind;
           kind = kind == StepKind::copy ? StepKind::reduce : StepKind::copy;
         });
       }},
      {"a local step that is an element short",
       [](Group g) {
         return at_steps(
             g, [](const Plan& p, size_t i) { return is_local(p, i) && divisible(p, i); },
             [](Plan& p, size_t i) { p.steps[i].bytes -= p.element; });
       }},
  };
}

// Of fewer elements than there are, so that the place still is one.
void shift(Place& place, const Plan& plan, bool down) {
  place.offset = down ? place.offset - plan.element : place.offset + plan.element;
}

std::vector<PlanFault> place_faults() {
  const auto writes = [](const Plan& p, size_t i) { return !is_send(p, i); };
  const auto reads = [](const Plan& p, size_t i) { return !is_receive(p, i); };
  std::vector<PlanFault> all;
  for (const bool down : {false, true}) {
    const char* const way = down ? "down" : "up";
    all.push_back({fmt::format("a step's result shifted {} by an element", way), [=](Group g) {
                     return at_steps(
                         g,
                         [=](const Plan& p, size_t i) {
                           return writes(p, i) && (!down || p.steps[i].dst.offset >= p.element);
                         },
                         [=](Plan& p, size_t i) { shift(p.steps[i].dst, p, down); });
                   }});
    all.push_back({fmt::format("a step's operand shifted {} by an element", way), [=](Group g) {
                     return at_steps(
                         g,
                         [=](const Plan& p, size_t i) {
                           return reads(p, i) && (!down || p.steps[i].src.offset >= p.element);
                         },
                         [=](Plan& p, size_t i) { shift(p.steps[i].src, p, down); });
                   }});
  }
  all.push_back({"the scratch too small", [](Group g) {
                   return at_steps(
                       g,
                       [=](const Plan& p, size_t i) {
                         return !is_send(p, i) && p.steps[i].dst.buffer == kScratch;
                       },
                       [](Plan& p, size_t i) {
                         p.memory.scratch_bytes = p.steps[i].dst.offset + p.steps[i].bytes - 1;
                       });
                 }});
  all.push_back(
      {"another buffer read", [=](Group g) {
         return at_steps(
             g, [=](const Plan& p, size_t i) { return reads(p, i) && p.steps[i].src.buffer > 0; },
             [](Plan& p, size_t i) { --p.steps[i].src.buffer; });
       }});
  all.push_back(
      {"another buffer written", [=](Group g) {
         return at_steps(
             g, [=](const Plan& p, size_t i) { return writes(p, i) && p.steps[i].dst.buffer > 0; },
             [](Plan& p, size_t i) { --p.steps[i].dst.buffer; });
       }});
  all.push_back({"the scratch sent in place of the user's bytes", [=](Group g) {
                   return at_steps(
                       g,
                       [](const Plan& p, size_t i) {
                         return is_send(p, i) && p.steps[i].src.buffer != kScratch;
                       },
                       [](Plan& p, size_t i) {
                         p.steps[i].src = {kScratch, 0};
                         p.memory.scratch_bytes =
                             std::max(p.memory.scratch_bytes, p.steps[i].bytes);
                       });
                 }});
  all.push_back({"the own block written where it is the caller's input", [](Group g) {
                   return at_ranks(
                       g, [](const Plan& p) { return p.memory.writes_own; },
                       [](Plan& p) { p.memory.writes_own = false; });
                 }});
  all.push_back({"a read-only buffer written", [](Group g) {
                   return at_steps(
                       g,
                       [](const Plan& p, size_t i) {
                         return p.key.args.collective == Collective::all_to_all && !is_send(p, i);
                       },
                       [](Plan& p, size_t i) { p.steps[i].dst.buffer = 0; });
                 }});
  return all;
}

}  // namespace

std::vector<PlanFault> link_faults() {
  std::vector<PlanFault> all = message_faults();
  for (PlanFault& fault : step_faults()) all.push_back(std::move(fault));
  for (PlanFault& fault : place_faults()) all.push_back(std::move(fault));
  return all;
}

}  // namespace ringwood::testing
