// Faults of order: what runs too early, or where another still reads.
#include <algorithm>

#include "collectives/plan/protocol.h"
#include "tests/checker/plan_faults.h"

namespace ringwood::testing {
namespace {

bool is_send(const BoundStep& s) { return s.kind == StepKind::send; }

void drop_edge(Plan& plan, size_t from, int32_t to) {
  Graph& graph = plan.graph;
  const auto begin = graph.successor.begin();
  const auto at = std::find(begin + graph.offset[from], begin + graph.offset[from + 1], to);
  graph.successor.erase(at);
  for (size_t k = from + 1; k < graph.offset.size(); ++k) --graph.offset[k];
  --graph.predecessors[static_cast<size_t>(to)];
}

// Edges that nothing else implies, between steps that share bytes of which one writes some.
std::vector<PlanEdit> dropped_edges(const PlanGroup& group) {
  std::vector<PlanEdit> edits;
  for (size_t r = 0; r < group.plans.size(); ++r) {
    const Plan& plan = *group.plans[r];
    if (in_round(plan)) continue;
    for (size_t i = 0; i < plan.steps.size(); ++i)
      for (int32_t k = plan.graph.offset[i]; k < plan.graph.offset[i + 1]; ++k) {
        const int32_t to = plan.graph.successor[static_cast<size_t>(k)];
        const auto j = static_cast<size_t>(to);
        if (plan.steps[i].bytes == 0 || plan.steps[j].bytes == 0) continue;
        Plan without = plan;
        drop_edge(without, i, to);
        if (!leads_to(without, i, j))
          edits.push_back([=](PlanGroup& g) { drop_edge(*g.plans[r], i, to); });
      }
  }
  return edits;
}

bool touches(const BoundStep& s, const BoundStep& place) {
  return s.bytes > 0 && ((!is_send(s) && overlap(s.dst, s.bytes, place.src, place.bytes)) ||
                         (s.kind != StepKind::recv && s.kind != StepKind::recv_reduce &&
                          overlap(s.src, s.bytes, place.src, place.bytes)));
}

// The receive that seems to be the put of send i if other readers of its place are overlooked; -1
// if there is none.
int32_t careless_put(const Plan& plan, size_t i) {
  const BoundStep& send = plan.steps[i];
  if (!is_send(send) || send.put >= 0 || send.wire != WireFormat::exact) return -1;
  for (size_t j = i + 1; j < plan.steps.size(); ++j) {
    const BoundStep& s = plan.steps[j];
    if (!touches(s, send)) continue;
    const bool puts = s.kind == StepKind::recv && s.peer == send.peer &&
                      s.dst.buffer == send.src.buffer && s.dst.offset == send.src.offset &&
                      s.bytes == send.bytes && send.src.buffer != kScratch;
    if (!puts || plan.graph.predecessors[j] <= 1) return -1;
    for (const PeerQueue& queue : plan.peers)
      if (queue.peer == send.peer) return static_cast<int32_t>(index_in(queue.receives, j));
  }
  return -1;
}

std::vector<PlanEdit> shared_wide(const PlanGroup& group) {
  std::vector<PlanEdit> edits;
  for (size_t r = 0; r < group.plans.size(); ++r) {
    const Plan& plan = *group.plans[r];
    for (size_t i = 0; !in_round(plan) && i < plan.steps.size(); ++i)
      for (size_t j = i + 1; j < plan.steps.size(); ++j) {
        const Wide &a = plan.steps[i].wide, &b = plan.steps[j].wide;
        const bool alike = plan.steps[i].bytes == plan.steps[j].bytes && plan.steps[i].bytes > 0;
        if (!alike || !a.on || !b.on || a.offset == b.offset || leads_to(plan, i, j)) continue;
        edits.push_back([r, from = b.offset, to = a.offset](PlanGroup& g) {
          for (BoundStep& s : g.plans[r]->steps)
            if (s.wide.on && s.wide.offset == from) s.wide.offset = to;
        });
      }
  }
  return edits;
}

// A second scratch place is moved onto the first: its writer and all who read it.
std::vector<PlanEdit> shared_scratch(const PlanGroup& group) {
  std::vector<PlanEdit> edits;
  const auto fills = [](const BoundStep& s) {
    return s.kind == StepKind::recv && s.bytes > 0 && s.dst.buffer == kScratch;
  };
  for (size_t r = 0; r < group.plans.size(); ++r) {
    const Plan& plan = *group.plans[r];
    for (size_t i = 0; !in_round(plan) && i < plan.steps.size(); ++i)
      for (size_t j = i + 1; j < plan.steps.size(); ++j) {
        const BoundStep &a = plan.steps[i], &b = plan.steps[j];
        if (!fills(a) || !fills(b) || a.bytes != b.bytes || a.dst.offset == b.dst.offset ||
            leads_to(plan, i, j))
          continue;
        edits.push_back([r, from = b.dst.offset, to = a.dst.offset](PlanGroup& g) {
          for (BoundStep& s : g.plans[r]->steps)
            for (Place* p : {&s.dst, &s.src})
              if (p->buffer == kScratch && p->offset == from) p->offset = to;
        });
      }
  }
  return edits;
}

std::vector<PlanEdit> partial_fusions(const PlanGroup& group) {
  std::vector<PlanEdit> edits;
  for (size_t r = 0; r < group.plans.size(); ++r)
    for (size_t f = 0; f < group.plans[r]->fusions.list.size(); ++f) {
      const Fusion& fusion = group.plans[r]->fusions.list[f];
      const auto first = static_cast<size_t>(fusion.receives[0]);
      if (fusion.receives.size() < 2 || !group.plans[r]->steps[first].wide.on) continue;
      edits.push_back([=](PlanGroup& g) {
        Fusion& cut = g.plans[r]->fusions.list[f];
        for (auto* list : {&cut.receives, &cut.sends, &cut.queues, &cut.numbers})
          list->erase(list->begin());
        g.plans[r]->fusions.of_step[first] = -1;
      });
    }
  return edits;
}

std::vector<PlanEdit> fusions_where(const PlanGroup& group,
                                    const std::function<bool(const Plan&)>& where,
                                    const std::function<void(Plan&, Fusion&)>& change) {
  std::vector<PlanEdit> edits;
  for (size_t r = 0; r < group.plans.size(); ++r)
    for (size_t f = 0; f < group.plans[r]->fusions.list.size(); ++f)
      if (where(*group.plans[r]))
        edits.push_back([=](PlanGroup& g) { change(*g.plans[r], g.plans[r]->fusions.list[f]); });
  return edits;
}

bool any(const Plan&) { return true; }

}  // namespace

bool leads_to(const Plan& plan, size_t from, size_t to) {
  std::vector<bool> reached(plan.steps.size());
  reached[from] = true;
  for (size_t i = from; i < to; ++i)
    for (int32_t k = plan.graph.offset[i]; reached[i] && k < plan.graph.offset[i + 1]; ++k)
      reached[static_cast<size_t>(plan.graph.successor[static_cast<size_t>(k)])] = true;
  return reached[to];
}

bool overlap(const Place& a, size_t a_bytes, const Place& b, size_t b_bytes) {
  return a.buffer == b.buffer && a.offset < b.offset + b_bytes && b.offset < a.offset + a_bytes;
}

PeerQueue& queue_for(Plan& plan, int peer) {
  return *std::ranges::find_if(plan.peers, [&](const PeerQueue& q) { return q.peer == peer; });
}

size_t index_in(const std::vector<int32_t>& list, size_t step) {
  return static_cast<size_t>(std::ranges::find(list, static_cast<int32_t>(step)) - list.begin());
}

std::vector<PlanFault> order_faults() {
  using Group = const PlanGroup&;
  const auto has_put = [](const Plan& p, size_t i) { return p.steps[i].put >= 0; };
  const auto late_write = [](const Plan& p) {
    return p.protocol == Protocol::one_round && p.one_round.sends_until < p.steps.size();
  };
  return {
      {"a hazard's edge dropped", dropped_edges},
      {"a predecessor not counted",
       [](Group g) {
         return at_steps(
             g, [](const Plan& p, size_t i) { return !in_round(p) && p.graph.predecessors[i] > 0; },
             [](Plan& p, size_t i) { --p.graph.predecessors[i]; });
       }},
      {"a put allowed where another send reads the place",
       [](Group g) {
         return at_steps(
             g, [](const Plan& p, size_t i) { return careless_put(p, i) >= 0; },
             [](Plan& p, size_t i) { p.steps[i].put = careless_put(p, i); });
       }},
      {"a put's number one too high",
       [=](Group g) { return at_steps(g, has_put, [](Plan& p, size_t i) { ++p.steps[i].put; }); }},
      {"a put's number one too low",
       [=](Group g) {
         return at_steps(
             g, [](const Plan& p, size_t i) { return p.steps[i].put > 0; },
             [](Plan& p, size_t i) { --p.steps[i].put; });
       }},
      {"a fusion's number one too high",
       [](Group g) { return fusions_where(g, any, [](Plan&, Fusion& f) { ++f.numbers[0]; }); }},
      {"a fusion's sends exchanged",
       [](Group g) {
         return fusions_where(
             g, [](const Plan& p) { return p.fusions.list[0].sends.size() > 1; },
             [](Plan&, Fusion& f) {
               std::swap(f.sends[0], f.sends[1]);
               std::swap(f.numbers[0], f.numbers[1]);
             });
       }},
      {"a fusion's queue of another peer",
       [](Group g) {
         return fusions_where(
             g, [](const Plan& p) { return p.peers.size() > 1; },
             [](Plan& p, Fusion& f) {
               f.queues[0] = (f.queues[0] + 1) % static_cast<int32_t>(p.peers.size());
             });
       }},
      {"a fusion of a part of an accumulation", partial_fusions},
      {"a fusion that adds in another order",
       [](Group g) {
         return fusions_where(
             g, [](const Plan& p) { return p.fusions.list[0].sends.size() > 1; },
             [](Plan&, Fusion& f) {
               for (auto* list : {&f.receives, &f.sends, &f.queues, &f.numbers})
                 std::swap((*list)[0], (*list)[1]);
             });
       }},
      {"the wide scratch of one accumulation given to another", shared_wide},
      {"the scratch of one message given to another", shared_scratch},
      {"sends waited for too late",
       [=](Group g) {
         return at_ranks(g, late_write, [](Plan& p) { ++p.one_round.sends_until; });
       }},
      {"sends never waited for",
       [=](Group g) {
         return at_ranks(g, late_write, [](Plan& p) { p.one_round.sends_until = p.steps.size(); });
       }},
      {"a receive folded into what does not add it",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               return in_round(p) && p.steps[i].kind == StepKind::recv && !p.steps[i].folds;
             },
             [](Plan& p, size_t i) { p.steps[i].folds = true; });
       }},
  };
}

}  // namespace ringwood::testing
