// What the ranks of a group recorded (collectives/recorder/trace_dump.h), from their files or from
// the running ranks themselves, read, checked and put together on one clock.
//
// Times are seconds of rank 0's clock from the first record of the group on. Of ranks whose clocks
// are not known they are estimates. The records of all ranks are in memory, but the text of only
// one file at a time. Nothing in a file, or in what a rank has sent, is trusted: what does not fit
// throws Error(invalid_argument) with the file's name, or the rank's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "collectives/kernels/data_types.h"
#include "collectives/kernels/wire.h"
#include "collectives/schedule/collective.h"
#include "collectives/schedule/schedule.h"
#include "collectives/tuner/machine/machine_model.h"

namespace ringwood::tools {

inline constexpr double kUnknown = -1;  // a time

struct TracedStep {
  int step = 0;  // of its rank's plan
  StepKind kind = StepKind::copy;
  int peer = -1;
  double bytes = 0;
  double posted = kUnknown, done = 0;
};

// An operation on one rank.
struct TracedPart {
  // As in records.h. Only of a whole record are `entered` and `begun` known.
  double entered = kUnknown, begun = kUnknown, agreed = kUnknown, ended = 0, waiting = kUnknown;
  int waited_for = -1;
  int steps_planned = 0;
  bool failed = false;
  std::vector<TracedStep> steps;  // by step
};

struct TracedOperation {
  int64_t sequence = 0;
  Collective collective = Collective::barrier;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  int root = 0, segments = 1, track = 0;
  uint64_t bytes = 0, count = 0;
  std::string algorithm;
  WireFormat wire = WireFormat::exact;
  double predicted = 0;             // by the choice; 0: not known
  std::map<int, TracedPart> parts;  // by rank
};

struct TracedRank {
  std::string host, error;
  std::vector<std::string>
      ways;                // by peer: what the link to it goes over, of this rank's; or empty
  double uncertainty = 0;  // seconds, of the clock
  // False: how far its clock is from rank 0's is estimated from the ends of operations.
  bool aligned = true;
};

struct TracedGroup {
  std::string name;
  int size = 1;
  MachineModel machine;
  std::vector<int> hosts;                   // by rank
  std::map<int, TracedRank> ranks;          // those whose records there are
  std::vector<TracedOperation> operations;  // by sequence
  std::vector<std::string> remarks;         // what was left out or does not end, in sentences
};

// Is told what is read now.
using DumpsProgress = std::function<void(const std::string&)>;

// `sources`: folders, whose files *-rankN.json are read, and files. One group for each name.
std::vector<TracedGroup> read_dumps(const std::vector<std::string>& sources,
                                    const DumpsProgress& tell = {});

// What was collected of a group while it runs.
struct LiveRank {
  int rank = 0;
  std::string name;  // "rank 2 of world (node-b, pid 4711)"
  std::string text;  // as a file's
};
struct LiveGroup {
  std::string name;
  std::vector<LiveRank> ranks;       // whose records came; not empty
  std::vector<std::string> remarks;  // on the others
};
TracedGroup read_live_group(LiveGroup group, const DumpsProgress& tell = {});

// "rail 1 (mlx5_1/1)", "tcp over eth0": what the sender's messages go over; "" where no file says
// it.
std::string way_of(const TracedGroup& group, int from, int to);

// "all_reduce 4 MiB".
std::string name_of(const TracedOperation& operation);

}  // namespace ringwood::tools
