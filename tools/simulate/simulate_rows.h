// Simulates rows of the table of algorithms for `ringwood simulate`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/kernels/wire.h"
#include "tools/simulate/simulate.h"
#include "tools/simulate/simulate_work.h"
#include "tools/simulation/extension.h"

namespace ringwood::tools {

struct SimulatedRow {
  std::string algorithm;
  int segments = 1;
  bool chosen = false;             // what a communicator takes, which knows nothing of faults
  double estimate = 0;             // seconds, by the choice
  double messages = 0;             // of all ranks
  std::string why_not;             // why it is not simulated; the rest is not set then
  bool one_host = false;           // its messages stand for those of all
  std::vector<int> extended_from;  // hosts of the smaller groups (extension.h); or empty
  bool estimated = false;  // by the choice, from smaller groups or from bounds; else simulated
  Outcome healthy;         // without the faults; of a prediction only `seconds` and `busiest`
  std::optional<Outcome> faulty;
  std::vector<double> by_seed;  // seconds, ascending; with the faults where there are some
  WireFormat wire = WireFormat::exact;

  // "ring", or "ring+bf16".
  std::string name() const { return name_of(algorithm, wire); }
  const Outcome& outcome() const { return faulty ? *faulty : healthy; }
  Limit limit() const { return outcome().busiest.limit(outcome().seconds); }
};

// The same of this collective among the same ranks, of so many bytes of the whole buffer, in blocks
// of at least one element.
SimulateOptions with_call(SimulateOptions options, Collective collective, DataType type,
                          size_t bytes);

// Sets what the row takes, or why it is not simulated: by each of its messages, or, of more than 2
// million, by those of one host, or of smaller groups.
void simulate(const SimulateOptions& options, SimulatedRow& row, const Progress& progress);

// The same for a table of rows, with the time that is left. Where the choice's model knows all that
// the network has, and not all messages are wanted, some 300,000 messages are simulated in all, of
// the first rows first; a row that has more left gets the messages of one host, if those fit, or
// what the choice predicts.
void simulate(const SimulateOptions& options, std::vector<SimulatedRow>& rows,
              const Progress& progress);

// The steps of some ranks of a row in time: the slowest ones and the first ones, with the faults.
// Throws Error(invalid_argument) where not all messages were simulated.
struct Trace {
  std::string algorithm;
  Traffic traffic;
  Outcome outcome;
};
Trace trace(const SimulateOptions& options, const SimulatedRow& row, const Progress& progress);

}  // namespace ringwood::tools
