// What is proved of a row's schedules before the choice relies on it. Pure.
//
// A proof follows every chunk through all ranks. In groups of more than kMaxProved ranks it is of
// a sibling (placement.h): hosts and ranks of a host are fewer, but even where they were even,
// powers of two or of several factors where they were, and divide them where they can. Rows of the
// table decide by such properties what a rank does, never by sizes alone;
// tests/tuner/choice/row_proofs.cc shows that their proofs are those of larger groups.
#pragma once

#include "collectives/plan/wire_schedule.h"
#include "collectives/tuner/choice/row_profile.h"

namespace ringwood {

inline constexpr int kMaxProved = 128;

// The group itself where it is small. At most `most` ranks.
SharedPlacement proof_sibling(Siblings& siblings, int most = kMaxProved);

// prove_wire() of the row; the roundings are those of the whole group. A row that does not accept
// the sibling counts as not proved.
WireProof wire_proof(const AlgorithmRow& row, Siblings& siblings);

// How often what a rank gives is rounded on its way into a result, at most, where each
// accumulation ends with a rounding: 1 if no partial sum is added to anything again.
// `schedules`: of all ranks, verified.
int sum_roundings(const std::vector<Schedule>& schedules);
// Of the whole group, or more; kUnknownRoundings of a row that does not accept the sibling.
int sum_roundings(const AlgorithmRow& row, Siblings& siblings);
inline constexpr int kUnknownRoundings = 1 << 20;

}  // namespace ringwood
