// The calls of a recorded run (RINGWOOD_TRACE_DIR), in the order in which they were made, for
// `ringwood simulate --replay` and `ringwood perf --replay`.
//
// A call lasts from when its last rank has called it, and all calls before it have ended, until its
// last rank has the result. The pause before it is the time in which no call was under way: what
// the slowest rank computed. So times and pauses add up to the time of the run.
//
//   rank 0  ##call 0###......compute.......##call 1####..####call 2##
//   rank 1    #call 0##.....compute............#call 1#   ##call 2##
//             |- time -|------- pause --------|- time -|--|- time -|
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/kernels/data_types.h"
#include "collectives/kernels/wire.h"
#include "collectives/schedule/collective.h"
#include "collectives/tuner/machine/machine_model.h"

namespace ringwood::tools {

// Seconds.
struct CallTime {
  double seconds = 0, pause = 0;
  // It was called before the ones before it had ended: so long after the call before it.
  bool overlaps = false;
  double after_call = 0;
};
// `called`, `ended`: of the last rank, by call.
std::vector<CallTime> times_of(const std::vector<double>& called, const std::vector<double>& ended);
// The whole run, if its calls took these times instead. A call that overlapped others is made as
// long after the one before it as it was; any other one has waited for those before it.
double run_seconds(const std::vector<CallTime>& times, const std::vector<double>& seconds);

struct RecordedCall {
  Collective collective = Collective::barrier;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  int root = 0, segments = 1;
  size_t bytes = 0;  // as the size of `ringwood perf`: of the whole buffer
  std::string algorithm;
  WireFormat wire = WireFormat::exact;

  bool operator==(const RecordedCall&) const = default;
};
// "all_reduce 4 MiB"
std::string name_of(const RecordedCall& call);

// Calls that differ only in their times.
struct CallKind {
  RecordedCall call;
  int count = 0;
};

struct RecordedRun {
  std::string source, group;
  int ranks = 1;
  MachineModel machine;            // with the places of the ranks
  std::vector<CallKind> kinds;     // in the order of their first calls
  std::vector<size_t> calls;       // by call: its kind
  std::vector<CallTime> times;     // by call
  std::vector<std::string> notes;  // what was left out, in sentences
};

// `source`: a folder that a job had as RINGWOOD_TRACE_DIR, or the file of a rank. `group` empty:
// the only one with recorded calls. Throws Error(invalid_argument) with a remedy.
RecordedRun read_recorded_run(const std::string& source, const std::string& group);

}  // namespace ringwood::tools
