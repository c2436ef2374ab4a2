// What Communicator::explain() says of each row of the table.
#pragma once

#include <string>

#include "collectives/kernels/wire_format.h"

namespace ringwood {

struct Candidate {
  std::string algorithm;
  int segments = 1;
  WireFormat wire = WireFormat::exact;
  double seconds = 0;            // predicted, for private buffers; infinity: it cannot be chosen
  double zero_copy_seconds = 0;  // the same where the ranks of a host share theirs
  bool simulated = false;  // else `seconds` is an estimate, or, where it says so, a lower bound
  bool chosen = false;
  std::string why_not;  // "" for the chosen one
};

}  // namespace ringwood
