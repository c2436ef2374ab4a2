// The result of Communicator::explain() for each row of the table.
#pragma once

#include <string>

#include "collectives/kernels/wire_format.h"
#include "collectives/tuner/busiest.h"

namespace ringwood {

struct Candidate {
  std::string algorithm;
  int segments = 1;
  WireFormat wire = WireFormat::exact;
  double seconds = 0;            // predicted, for private buffers; infinity: cannot be chosen
  double zero_copy_seconds = 0;  // the same where the ranks of a host share their buffers
  Busiest busiest;               // with private buffers; of refused rows nothing
  bool simulated = false;  // with all its bytes and segments; otherwise `seconds` is an estimate
  bool bound = false;      // or only a lower bound
  bool chosen = false;
  std::string why_not;  // "" for the chosen one
  // Of the chosen one: how near it is to the best, or where it is not the prediction that chose it,
  // what did: "tuned: ...".
  std::string why;
  // Where that counts (CandidateQuery::Rounding): how often a sum is rounded on its way at most,
  // and what the times are multiplied by for it before they are compared. Infinity: refused.
  int roundings = 0;
  double handicap = 1;
};

}  // namespace ringwood
