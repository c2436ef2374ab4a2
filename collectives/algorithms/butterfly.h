// Butterflies: all-reduces of 2^k ranks in k rounds of pairs. Internal to algorithms/.
//
// A butterfly is defined by its peer function: the peer of `rank` in `round` of `n` = 2^k ranks. It
// is an involution in each round, and following the rounds from one rank reaches every rank once.
#pragma once

#include "collectives/schedule/schedule.h"

namespace ringwood {

using PeerOf = int (*)(int rank, int round, int n);

// k rounds of S bytes: pairs swap chunk 0 whole and both add. Adds two scratch chunks.
void swap_all(Schedule& s, int n, PeerOf peer);

// 2 k rounds, 2 (n-1)/n S bytes: pairs split what they are responsible for, until each rank has the
// sum of one chunk of n; then backwards. Chunks are numbered along the butterfly, so that every
// message is one span. The responsibilities of a round must be equal or apart (the verifier sees).
void halve_and_double(Schedule& s, PeerOf peer);

}  // namespace ringwood
