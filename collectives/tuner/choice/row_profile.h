// How a row of the table is costed in a group: found once for the group, whatever the size.
//
// In this order: all ranks' schedules, where they are few; one host's, where a symmetry of the
// hosts is found (cost_quotient.h); else two siblings, placements of fewer ranks (placement.h), of
// which each is simulated in one of the first two ways. What they take is extended to the group:
//
//   affine       in the number of ranks, with the same bytes of a chunk: rows with n messages a
//                rank, and those whose steps wait for each other from rank to rank
//   logarithmic  in the number of ranks, with the same bytes of the buffer: trees and the like
//
// Rank counts are reduced by hosts first, then, on hosts of many ranks, by ranks of a host. So an
// estimate is a weighted sum of at most four samples. A row without samples is counted: what rank 0
// sends and receives. Irregular hosts are replaced by the nearest regular ones, except where all
// schedules are simulated; times are scaled by the ratio of inter-host traffic.
//
// A slow host is no slow group: where not all ranks are simulated, siblings have it too; and where
// one host stands for all, as if all were slow, what a sibling with the slow host takes beyond one
// of slow hosts is added, as often as the group is larger. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/choice/siblings.h"
#include "collectives/tuner/cost/cost_quotient.h"

namespace ringwood {

// A placement on which a row is simulated.
struct RowSample {
  SharedPlacement placement;
  std::vector<Schedule> schedules;       // of all ranks, or of those of host 0
  std::optional<HostSymmetry> symmetry;  // those of host 0
  size_t steps = 0;                      // of these schedules, once they are bound
  double weight = 1;                     // of its time
  bool same_chunk = false;               // its chunks are as large as the group's
  double bytes = 1;                      // its Load::bytes, as a multiple of the group's
  double of_bytes = 1;                   // the same of Load::of_bytes
};

struct RowProfile {
  const AlgorithmRow* row = nullptr;
  GroupSize group;      // all ranks
  std::string why_not;  // why it is refused; the rest is not set then
  int chunks = 0;
  // Of rank 0: messages, and the chunks that it sends, or receives if those are more; in large
  // groups, about.
  size_t messages = 0, chunks_moved = 0;
  // Of some ranks of the first host together: the chunks that they send to other hosts, or receive
  // from there if those are more; in large groups, about.
  size_t far_chunks = 0;
  size_t steps = 0;           // of all ranks' plans, about
  size_t schedule_steps = 0;  // of all ranks' schedules, about
  // The most ranks of other hosts from which one rank receives; of those in samples.
  size_t far_senders = 0;
  std::vector<RowSample> samples;

  // Nothing is extended: what the samples say is the group's own.
  bool direct() const { return samples.size() == 1 && samples[0].weight == 1; }
};

RowProfile profile_of(const AlgorithmRow& row, Siblings& siblings);

}  // namespace ringwood
