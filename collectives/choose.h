// Which algorithm, and how many lanes.
//
// Every rank must come to the same answer, so it is computed only from what all ranks know alike:
// the collective, bytes, type, group size and whether the group spans several hosts. A rank with
// other options is found by the fingerprint.
#pragma once

#include <string>

#include "collectives/reduce.h"
#include "collectives/schedule.h"
#include "transports/options.h"

namespace ringwood {

struct Question {
  Collective collective = Collective::all_reduce;
  size_t bytes = 0;  // of the whole buffer, or of one block
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int n = 1;
  bool several_hosts = false;
  bool uneven = false;  // block sizes differ
};
struct Answer {
  std::string algorithm;
  int lanes = 1;
};
// `algorithm` and `lanes` of the call override the options', which override the choice. Throws
// Error(invalid_argument) for a name that is not in the table or does not accept n, listing those
// that do.
Answer choose(const Question& question, const Options& options, const std::string& algorithm = "",
              int lanes = 0);

}  // namespace ringwood
