// What is proved of a row's schedules before the choice relies on it. Pure.
//
// A proof follows every chunk through all ranks. In groups of more than kMaxProved ranks it is of
// a sibling (placement.h): hosts and ranks of a host are fewer, but even where they were even,
// powers of two where they were, and divide them where they can. Rows of the table decide by such
// properties what a rank does, never by sizes alone; tests/choice/row_proofs.cc shows that their
// proofs are those of larger groups.
#pragma once

#include "collectives/choice/row_profile.h"
#include "collectives/plan/wire_schedule.h"

namespace ringwood {

inline constexpr int kMaxProved = 64;

// The group itself where it is small. At most `most` ranks.
SharedPlacement proof_sibling(Siblings& siblings, int most = kMaxProved);

// prove_wire() of the row; the roundings are those of the whole group. A row that does not accept
// the sibling counts as not proved.
WireProof wire_proof(const AlgorithmRow& row, Siblings& siblings);

// True if no partial sum is ever added to anything again: every element is then added in one row of
// additions, with one rounding at its end. `schedules`: of all ranks, verified.
bool adds_once(const std::vector<Schedule>& schedules);
bool adds_once(const AlgorithmRow& row, Siblings& siblings);

}  // namespace ringwood
