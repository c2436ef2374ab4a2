// `ringwood schedule cost`: what schedules, of the table or of a text, would take at some sizes, by
// the cost model (collectives/tuner/cost/cost.h), beside what a communicator would take instead.
#pragma once

#include <string>
#include <vector>

#include "tools/prediction.h"
#include "tools/schedule/schedule_source.h"

namespace ringwood::tools {

struct TypedCost {
  std::string sizes, first = "8", last = "64M", type = "float32", op = "sum", parameters = "host";
  int factor = 8;
  LinkWords links;
};

struct ScheduleCost {
  size_t bytes = 0;         // as `ringwood perf` counts them: of the whole buffer, or of n blocks
  size_t priced_bytes = 0;  // whose times are told: at most `bytes`, of size_class()
  double seconds = 0, zero_copy_seconds = 0;
  bool simulated = true;  // false: an estimate
  double busbw_gbs = 0;
  std::string choice;  // of the table
  double choice_seconds = 0;
};

// Prints the table, or JSON. Returns the exit code. Throws Error(invalid_argument) for schedules
// that verify() refutes, with the counterexample.
int print_costs(const TypedSchedule& typed, const TypedCost& cost);

}  // namespace ringwood::tools
