// Faults planted into plans, for the checker: each by its name, with every place where it changes
// what the plans do. A place where it would change nothing is no place.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/plan_groups.h"

namespace ringwood::testing {

using PlanEdit = std::function<void(PlanGroup&)>;

struct PlanFault {
  std::string name;
  std::function<std::vector<PlanEdit>(const PlanGroup&)> edits;
};

std::vector<PlanFault> order_faults();     // plan_faults_order.cc: hazards, fusion, early sends
std::vector<PlanFault> number_faults();    // plan_faults_numbers.cc: rounding, scaling, operations
std::vector<PlanFault> link_faults();      // plan_faults_links.cc: messages, queues, steps, places
std::vector<PlanFault> protocol_faults();  // plan_faults_protocol.cc: agreement, formats, staging
std::vector<PlanFault> device_faults();    // plan_faults_device.cc: who copies a device's memory

inline bool in_round(const Plan& plan) { return plan.protocol != Protocol::queued; }
// Whether step `to` begins after step `from` has ended.
bool leads_to(const Plan& plan, size_t from, size_t to);
bool overlap(const Place& a, size_t a_bytes, const Place& b, size_t b_bytes);
PeerQueue& queue_for(Plan& plan, int peer);
size_t index_in(const std::vector<int32_t>& list, size_t step);

// An edit at every step of every rank for which `where(plan, step)` is true.
template <class Where, class Change>
std::vector<PlanEdit> at_steps(const PlanGroup& group, Where where, Change change) {
  std::vector<PlanEdit> edits;
  for (size_t r = 0; r < group.plans.size(); ++r)
    for (size_t i = 0; i < group.plans[r]->steps.size(); ++i)
      if (group.plans[r]->steps[i].bytes > 0 && where(*group.plans[r], i))
        edits.push_back([=](PlanGroup& g) { change(*g.plans[r], i); });
  return edits;
}
// At every rank.
template <class Where, class Change>
std::vector<PlanEdit> at_ranks(const PlanGroup& group, Where where, Change change) {
  std::vector<PlanEdit> edits;
  for (size_t r = 0; r < group.plans.size(); ++r)
    if (where(*group.plans[r])) edits.push_back([=](PlanGroup& g) { change(*g.plans[r]); });
  return edits;
}
// All ranks at once.
template <class Where, class Change>
std::vector<PlanEdit> at_all(const PlanGroup& group, Where where, Change change) {
  if (!where(*group.plans[0])) return {};
  return {[=](PlanGroup& g) {
    for (auto& plan : g.plans) change(*plan);
  }};
}
// Both ends of every message: `change(sender, send, receiver, recv)`.
template <class Where, class Change>
std::vector<PlanEdit> at_messages(const PlanGroup& group, Where where, Change change) {
  std::vector<PlanEdit> edits;
  for (size_t a = 0; a < group.plans.size(); ++a)
    for (const PeerQueue& queue : group.plans[a]->peers)
      for (size_t k = 0; k < queue.sends.size(); ++k) {
        const auto b = static_cast<size_t>(queue.peer), send = static_cast<size_t>(queue.sends[k]);
        const auto recv =
            static_cast<size_t>(queue_for(*group.plans[b], static_cast<int>(a)).receives[k]);
        if (where(*group.plans[a], send, *group.plans[b], recv))
          edits.push_back([=](PlanGroup& g) { change(*g.plans[a], send, *g.plans[b], recv); });
      }
  return edits;
}

}  // namespace ringwood::testing
