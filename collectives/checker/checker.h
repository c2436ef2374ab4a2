// The checker of plans: proves that what runs is what was proved.
//
// verify() proves schedules. A plan is what passes have made of a schedule: bytes and places, split
// spans, one round, fusion, accumulations, scaling, wire formats and their staging. All of that is
// checked here for the plans of all ranks together, without the passes' own code:
// 1. Agreement: whatever the ranks must share is equal, and before anything is written each has
//    heard from all others, transitively (where only pairs know sizes: from each directly).
// 2. Links: every send has its receive, with as many bytes in the same format, in queues that list
//    each message once and in order. Hosts decide what is encoded. The number of a put is that of
//    the receive it replaces.
// 3. Places: they lie within their buffers, and no write goes to a read-only buffer of the caller.
//    Memory of a device is touched by copies between it and the scratch only, each marked as the
//    device's (DeviceCopy), and none is written before the ranks have agreed.
// 4. Order: two accesses to the same bytes, one of them a write, are ordered by the graph. A send
//    reads from its post to its completion. A peer may put into an exposed buffer at any time from
//    the send's post to the end of the receive. A staging place is written when its message is
//    posted. In one round the steps run in their order and the sends are read until
//    Plan::OneRound::sends_until.
// 5. Values: the steps of all ranks are carried out on symbols, several times: reading as early and
//    as late as links may, with and without fusion, in random order, and without buffering, so that
//    a deadlock shows. Every byte of the user's buffers must end as the schedules say: the same
//    tree of additions, every operand scaled once by its factor, sums divided once, small floats
//    rounded at the end of an accumulation and nowhere else, encoded only between hosts, and
//    equal on all ranks where the schedules' sums are.
//
// Linear in the steps and in the borders between byte ranges, except the order: steps^2 / 64 of
// each rank. Pure; any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/plan/plan.h"
#include "collectives/schedule/schedule.h"

namespace ringwood {

struct PlanFacts {
  std::span<const int> host = {};   // by rank; empty: all on one host
  size_t budget = size_t{1} << 15;  // limit of the steps of all ranks
  uint64_t seed = 1;
};

struct PlanCheck {
  enum class Result { sound, faulty, too_large };
  Result result = Result::sound;
  // faulty: one sentence, "rank 2 step 5 (recv 4096 bytes from rank 1): ..."; too_large: what is.
  std::string words;
};

// `plans[r]` is that of rank r, `proved[r]` its verified schedule, before segments(), publish() and
// with_roundings(). Where the spans were split for trace_sums() (Sums::apart), so are these.
PlanCheck check_plans(std::span<const std::shared_ptr<const Plan>> plans,
                      std::span<const Schedule> proved, const PlanFacts& facts = {});

}  // namespace ringwood
