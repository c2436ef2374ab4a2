// The checker of plans: that what runs is what was proved.
//
// verify() proves schedules; a plan is what passes have made of one: bytes and places, spans taken
// apart, one round, fusion, rows of additions, scaling, wire formats and their staging. All of that
// is checked here for the plans of all ranks together, without the passes' own code:
//   1. agreement: whatever the ranks must share is equal, and before anything is written each has
//      heard from all others, transitively (of sizes that pairs know: from each);
//   2. links: every send has its receive, with as many bytes in the same format, in queues that
//      list each message once and in order; hosts decide what is encoded; a put's number is that of
//      the receive it replaces;
//   3. places: within their buffers, and never in a buffer that is the caller's to read;
//   4. order: two accesses to the same bytes, one of them a write, are ordered by the graph. A send
//      reads from its post to its completion; where the peer may put the answer into what is
//      exposed to it, it writes at any time from the send's post to the end of the receive; a
//      staging place is written when its message is posted. In one round the steps run in their
//      order and the sends are read until Plan::sends_until;
//   5. values: all ranks' steps are carried out on symbols, several times: reading as early and as
//      late as links may, with and without fusion, in random order, and with no buffering, so that
//      a deadlock shows. Every byte of the user's must end as the schedules say: the same tree of
//      additions, every operand scaled once by its factor, sums divided once, small floats rounded
//      at the end of a row of additions and nowhere else, encoded only between hosts, and equal on
//      all ranks where the schedules' sums are.
//
// Linear in the steps and in the bytes' borders, but for the order: steps^2 / 64 of each rank.
// Pure; any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/plan/plan.h"
#include "collectives/schedule/schedule.h"

namespace ringwood {

struct PlanFacts {
  std::span<const int> host = {};   // by rank; empty: all on one
  size_t budget = size_t{1} << 15;  // steps of all ranks
  uint64_t seed = 1;
};

struct PlanCheck {
  enum class Result { sound, faulty, too_large };
  Result result = Result::sound;
  // faulty: one sentence, "rank 2 step 5 (recv 4096 bytes from rank 1): ..."; too_large: of what.
  std::string words;
};

// `plans[r]` is rank r's, `proved[r]` its schedule, verified, before segments(), publish() and
// with_roundings(); where the spans were taken apart for trace_sums() (Sums::apart), so are these.
PlanCheck check_plans(std::span<const std::shared_ptr<const Plan>> plans,
                      std::span<const Schedule> proved, const PlanFacts& facts = {});

}  // namespace ringwood
