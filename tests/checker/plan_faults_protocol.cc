// Faults of the agreement, of one round, and of wire formats and their staging.
#include <algorithm>

#include "collectives/plan/passes.h"
#include "tests/checker/plan_faults.h"
#include "transports/eager_channel.h"

namespace ringwood::testing {
namespace {

using Group = const PlanGroup&;

bool agrees(const Plan& p) { return !p.agreement.empty(); }
bool sends_fingerprint(const Plan::Exchange& e) { return e.to >= 0; }
bool is_encoded_send(const Plan& p, size_t i) {
  return p.steps[i].kind == StepKind::send && p.steps[i].wire != WireFormat::exact;
}

// Another encoded message that may be on its way when i is posted, or none.
size_t staged_besides(const Plan& p, size_t i) {
  const auto at_once = [&](size_t k) { return is_encoded_send(p, k) && !p.steps[k].staged_after; };
  for (size_t j = 0; at_once(i) && j < p.steps.size(); ++j)
    if (j != i && at_once(j) && !leads_to(p, std::min(i, j), std::max(i, j))) return j;
  return p.steps.size();
}

void drop_exchange(Plan& p, size_t at) {
  const Plan::Exchange e = p.agreement[at];
  p.agreement.erase(p.agreement.begin() + static_cast<long>(at));
  if (e.to >= 0) --p.peers[static_cast<size_t>(e.to)].preambles_out;
  if (e.from >= 0) --p.peers[static_cast<size_t>(e.from)].preambles_in;
}

std::vector<PlanFault> agreement_faults() {
  return {
      {"an exchange of fingerprints left out by one rank",
       [](Group g) {
         return at_ranks(g, agrees, [](Plan& p) { drop_exchange(p, p.agreement.size() - 1); });
       }},
      {"the last stage of the agreement left out by all",
       [](Group g) {
         return at_all(g, agrees, [](Plan& p) { drop_exchange(p, p.agreement.size() - 1); });
       }},
      {"no agreement at all",
       [](Group g) {
         return at_all(g, agrees, [](Plan& p) {
           while (!p.agreement.empty()) drop_exchange(p, p.agreement.size() - 1);
         });
       }},
      {"an exchange with another peer",
       [](Group g) {
         return at_ranks(
             g, [](const Plan& p) { return agrees(p) && p.peers.size() > 1; },
             [](Plan& p) {
               int& to = std::ranges::find_if(p.agreement, sends_fingerprint)->to;
               to = (to + 1) % static_cast<int>(p.peers.size());
             });
       }},
      {"a fingerprint that only one end of a link knows of",
       [](Group g) {
         return at_ranks(
             g, [](const Plan& p) { return std::ranges::any_of(p.agreement, sends_fingerprint); },
             [](Plan& p) {
               Plan::Exchange& e = *std::ranges::find_if(p.agreement, sends_fingerprint);
               --p.peers[static_cast<size_t>(e.to)].preambles_out;
               e.to = -1;
             });
       }},
      {"all stages of the agreement at once",
       [](Group g) {
         return at_all(
             g,
             [](const Plan& p) {
               // Three ranks hear from one another anyway.
               return p.agreement.size() > 1 && p.peers.size() > 2 &&
                      p.agreement.back().stage > 0 && !has_blocks_of_pairs(p.key.args);
             },
             [](Plan& p) {
               for (Plan::Exchange& e : p.agreement) e.stage = 0;
             });
       }},
      {"a fingerprint counted that is never sent",
       [](Group g) { return at_ranks(g, agrees, [](Plan& p) { ++p.peers[0].preambles_out; }); }},
      {"a pair that does not greet",
       [](Group g) {
         return at_all(
             g,
             [](const Plan& p) {
               return has_blocks_of_pairs(p.key.args) && p.agreement.size() > 1;
             },
             [](Plan& p) {
               // The first exchange with each peer is the pair's own.
               for (size_t at = 0; p.agreement[at].stage == 0;) drop_exchange(p, at);
               for (PeerQueue& q : p.peers) q.preambles_out = q.preambles_in = 0;
               for (Plan::Exchange& e : p.agreement) {
                 if (e.to >= 0) e.nth_to = p.peers[static_cast<size_t>(e.to)].preambles_out++;
                 if (e.from >= 0) e.nth_from = p.peers[static_cast<size_t>(e.from)].preambles_in++;
               }
             });
       }},
      {"another algorithm on one rank",
       [](Group g) {
         return at_ranks(
             g, [](const Plan&) { return true; }, [](Plan& p) { p.form.algorithm = "another"; });
       }},
      {"other segments on one rank",
       [](Group g) {
         return at_ranks(
             g, [](const Plan&) { return true; }, [](Plan& p) { ++p.form.segments; });
       }},
      {"another fingerprint on all ranks",
       [](Group g) {
         return at_all(
             g, [](const Plan&) { return true; }, [](Plan& p) { ++p.fingerprint.count; });
       }},
      {"another count on one rank",
       [](Group g) {
         return at_ranks(
             g, [](const Plan& p) { return p.key.args.blocks.empty(); },
             [](Plan& p) { ++p.key.args.count; });
       }},
  };
}

std::vector<PlanFault> early_faults() {
  const auto writes_user = [](const Plan& p, size_t i) {
    return is_early(p) && p.steps[i].kind != StepKind::send && p.steps[i].dst.buffer != kScratch;
  };
  const auto receives = [](const Plan& p, size_t i) {
    return is_early(p) &&
           (p.steps[i].kind == StepKind::recv || p.steps[i].kind == StepKind::recv_reduce);
  };
  return {
      {"the user's buffer written before all have been heard",
       [=](Group g) {
         return at_steps(g, writes_user, [](Plan& p, size_t i) { p.steps[i].early = true; });
       }},
      {"a sum in the user's buffer before all have been heard",
       [=](Group g) {
         return at_steps(g, receives, [](Plan& p, size_t i) { p.steps[i].dst = {0, 0}; });
       }},
      {"a receive that waits where the ranks agree meanwhile",
       [=](Group g) {
         return at_steps(g, receives, [](Plan& p, size_t i) { p.steps[i].early = false; });
       }},
      {"a plan that begins early as it is",
       [](Group g) {
         const auto receives_for_user = [](const BoundStep& s) {
           return s.peer >= 0 && s.kind != StepKind::send && s.bytes > 0 &&
                  s.dst.buffer != kScratch;
         };
         return at_ranks(
             g, [=](const Plan& p) { return std::ranges::any_of(p.steps, receives_for_user); },
             [](Plan& p) {
               for (BoundStep& step : p.steps) step.early = true;
             });
       }},
  };
}

std::vector<PlanFault> round_faults() {
  const auto round = [](const Plan& p) { return p.protocol == Protocol::one_round; };
  return {
      {"one round on one rank only",
       [](Group g) {
         return at_ranks(
             g, [](const Plan&) { return true; },
             [](Plan& p) { p.protocol = in_round(p) ? Protocol::queued : Protocol::one_round; });
       }},
      {"one round of what is none",
       [](Group g) {
         const bool fits =
             g.plans[0]->key.args.collective == Collective::barrier ||
             (g.plans[0]->form.segments == 1 && std::ranges::all_of(g.proved, fits_one_round));
         return at_all(
             g, [=](const Plan& p) { return !in_round(p) && !fits; },
             [](Plan& p) {
               p.protocol = Protocol::one_round;
               p.agreement.clear();
               const size_t n = p.peers.size() + 1;
               for (PeerQueue& q : p.peers) q.preambles_out = q.preambles_in = 1;
               p.one_round.receives.assign(n, -1);
               p.one_round.sends.assign(n, -1);
               for (const PeerQueue& q : p.peers) {
                 const auto peer = static_cast<size_t>(q.peer);
                 if (peer < n && !q.sends.empty()) p.one_round.sends[peer] = q.sends[0];
                 if (peer < n && !q.receives.empty()) p.one_round.receives[peer] = q.receives[0];
               }
             });
       }},
      {"eager slots on one rank only",
       [](Group g) {
         return at_ranks(
             g, [](const Plan&) { return true; }, [](Plan& p) { p.slots = !p.slots; });
       }},
      {"fingerprints over links besides the eager slots",
       [](Group g) {
         return at_all(
             g, [](const Plan& p) { return p.slots; },
             [](Plan& p) {
               for (PeerQueue& q : p.peers) q.preambles_out = q.preambles_in = 1;
             });
       }},
      {"more in one round than fits into a slot",
       [](Group g) {
         return at_all(
             g,
             [](const Plan& p) {
               return p.protocol == Protocol::one_round &&
                      std::ranges::any_of(p.steps, [](const BoundStep& s) {
                        return s.kind == StepKind::send && s.bytes > kEagerSlotBytes;
                      });
             },
             [](Plan& p) { p = add_slots(std::move(p)); });
       }},
      {"a message within the preamble on one side only",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               return p.protocol == Protocol::one_round && p.steps[i].peer >= 0;
             },
             [](Plan& p, size_t i) { p.steps[i].carried = !p.steps[i].carried; });
       }},
      {"a message within the preamble that does not fit into it",
       [](Group g) {
         return at_all(
             g, [](const Plan& p) { return p.protocol == Protocol::one_round && !p.steps.empty(); },
             [](Plan& p) {
               for (BoundStep& s : p.steps) s.carried = s.peer >= 0;
             });
       }},
      {"an eager message forgotten",
       [=](Group g) {
         return at_ranks(
             g,
             [](const Plan& p) {
               return in_round(p) && !p.one_round.receives.empty() && !p.steps.empty();
             },
             [](Plan& p) {
               for (int32_t& s : p.one_round.sends) s = -1;
             });
       }},
      {"a rank that does not hear all in one round",
       [=](Group g) { return at_ranks(g, round, [](Plan& p) { p.peers[0].preambles_in = 0; }); }},
      {"a rank that leaves another out of the one round",
       [=](Group g) {
         return at_all(g, round, [](Plan& p) {
           std::erase_if(p.peers,
                         [](const PeerQueue& q) { return q.sends.empty() && q.receives.empty(); });
           for (PeerQueue& q : p.peers)
             if (q.peer != 0) q.preambles_out = q.preambles_in = 0;
         });
       }},
  };
}

std::vector<PlanFault> wire_faults() {
  const auto encoded = [](const Plan& a, size_t s, const Plan&, size_t) {
    return is_encoded_send(a, s);
  };
  const auto turns = [](const Plan& p, size_t i) {
    return is_encoded_send(p, i) && p.steps[i].staged_after > 0;
  };
  return {
      {"a format that only the receiver takes",
       [](Group g) {
         return at_steps(g, is_encoded_send, [](Plan& p, size_t i) {
           p.steps[i].wire = WireFormat::exact;
           p.steps[i].message_bytes = p.steps[i].bytes;
         });
       }},
      {"fp32 between two hosts",
       [=](Group g) {
         return at_messages(g, encoded, [](Plan& a, size_t s, Plan& b, size_t r) {
           for (BoundStep* step : {&a.steps[s], &b.steps[r]}) {
             step->wire = WireFormat::exact;
             step->message_bytes = step->bytes;
           }
         });
       }},
      {"a format inside a host",
       [](Group g) {
         return at_messages(
             g,
             [](const Plan& a, size_t s, const Plan&, size_t) {
               return a.steps[s].wire == WireFormat::exact && a.fingerprint.wire != 0;
             },
             [](Plan& a, size_t s, Plan& b, size_t r) {
               for (Plan* p : {&a, &b}) {
                 BoundStep& step = p == &a ? a.steps[s] : b.steps[r];
                 step.wire = static_cast<WireFormat>(p->fingerprint.wire);
                 step.message_bytes = wire_bytes(step.wire, step.bytes / sizeof(float));
                 step.staging = {kScratch, p->memory.scratch_bytes};
                 p->memory.scratch_bytes += step.message_bytes;
               }
             });
       }},
      {"another format on one rank",
       [](Group g) {
         return at_ranks(
             g, [](const Plan& p) { return p.fingerprint.wire != 0; },
             [](Plan& p) { p.fingerprint.wire ^= 3; });
       }},
      {"a rounding left out",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               return p.steps[i].kind == StepKind::copy && p.steps[i].wire != WireFormat::exact;
             },
             [](Plan& p, size_t i) { p.steps[i].bytes = 0; });
       }},
      {"a staging place shared by two messages",
       [](Group g) {
         return at_steps(
             g, [](const Plan& p, size_t i) { return staged_besides(p, i) < p.steps.size(); },
             [](Plan& p, size_t i) { p.steps[i].staging = p.steps[staged_besides(p, i)].staging; });
       }},
      {"a staging place taken too early",
       [=](Group g) {
         return at_steps(g, turns, [](Plan& p, size_t i) { --p.steps[i].staged_after; });
       }},
      {"a staging place waited for in vain",
       [=](Group g) {
         return at_steps(g, is_encoded_send, [](Plan& p, size_t i) {
           const auto& sends = queue_for(p, p.steps[i].peer).sends;
           p.steps[i].staged_after = static_cast<int32_t>(index_in(sends, i)) + 1;
         });
       }},
      {"a staging place beyond the scratch",
       [](Group g) {
         return at_steps(g, is_encoded_send, [](Plan& p, size_t i) {
           p.steps[i].staging.offset = p.memory.scratch_bytes - p.steps[i].message_bytes + 1;
         });
       }},
      {"the room for a cut block given to a message",
       [](Group g) {
         return at_steps(
             g,
             [](const Plan& p, size_t i) {
               const auto& q = queue_for(const_cast<Plan&>(p),
                                         p.steps[i].peer < 0 ? p.peers[0].peer : p.steps[i].peer);
               return is_encoded_send(p, i) && !q.receives.empty();
             },
             [](Plan& p, size_t i) { queue_for(p, p.steps[i].peer).cut = p.steps[i].staging; });
       }},
  };
}

}  // namespace

std::vector<PlanFault> protocol_faults() {
  std::vector<PlanFault> all = agreement_faults();
  for (PlanFault& fault : early_faults()) all.push_back(std::move(fault));
  for (PlanFault& fault : round_faults()) all.push_back(std::move(fault));
  for (PlanFault& fault : wire_faults()) all.push_back(std::move(fault));
  return all;
}

}  // namespace ringwood::testing
