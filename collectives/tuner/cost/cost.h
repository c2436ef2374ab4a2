// Predicts what a schedule costs by simulating it on a MachineModel, without constants
// per algorithm.
//
// A fluid model, in the tradition of Hockney (t = alpha + beta bytes) and LogGP (Alexandrov et al.,
// SPAA 1995: the processor's overhead per message apart from latency and gap), with resources that
// are shared evenly, each a queue of its own (link_queues.h), instead of one gap per port:
// - A rank is one thread. It does one thing at a time: the fixed part of each message (alpha), a
//   copy, a reduction (gamma). Messages in flight at the same time share it.
// - The ranks of a host share its cores, its memory bandwidth (for the part of the data that no
//   cache contains) and, in each direction, its network interface.
// - Inside a host a message is written by its sender's core and then read by its receiver's, piece
//   by piece; between hosts both cores and both interfaces are used at once (beta).
// - Buffers that all ranks of a host map (`zero_copy`) are read in place, and a reduction whose
//   result returns to where its operands came from is put there (fusion.h).
// - Between hosts a message may travel in a wire format: fewer bytes, for a pass of both cores.
// - What is costed is what runs: the steps, messages and fusions are those of the plans.
// - Steps wait as in the executor: for what graph.h derives, and for their turn on their link.
// - A sender may be ahead of its receiver by what the link takes ahead, and waits beyond that. The
//   model omits contention inside switches, two groups at the same time, and the scheduling
//   errors of the kernel.
//
// Where hosts are alike, the ranks of one may stand for those of all (cost_quotient.h). A
// simulation that takes too long is replaced by two bounds: the busiest resource, and the longest
// chain of steps that wait for each other.
//
// Times are seconds from the call, made on all ranks at once, to the last step. Pure: equal
// arguments give equal results, so each rank of a group may compute them for itself.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/kernels/wire.h"
#include "collectives/schedule/schedule.h"
#include "collectives/tuner/machine/machine_model.h"

namespace ringwood {

struct Load {
  Collective collective = Collective::all_reduce;
  size_t bytes = 0;  // of the whole buffer (all_reduce, reduce, broadcast), else of one block
  size_t element = 4;
  // The ranks agree on what they do before they receive (fingerprint.h). Omitted in theory.
  bool agreement = false;
  bool one_round = false;  // fingerprints travel with the data, where the plan does so (plan.h)
  bool zero_copy = false;  // every rank's buffers lie in its arena
  // all_gather, gather: a rank's own block is elsewhere, and is copied to its place while messages
  // are in flight.
  bool out_of_place = false;
  bool timeline = false;
  // How messages travel between hosts. The schedules are then those of with_roundings().
  WireFormat wire = WireFormat::exact;
  // Bytes of the whole operation where `bytes` is only a part of it; decides which cache has room
  // for them. 0: `bytes`.
  size_t of_bytes = 0;
  // The same of a message's blocks: how many of the whole operation's each stands for, and the
  // bytes of one of those as a multiple of its own; decide which travel as one (plan/passes.h).
  double of_blocks = 1, of_block_bytes = 1;
  // The whole group where the schedules are those of a smaller one; decides how ranks agree. No
  // ranks: the schedules' own.
  GroupSize of_group = {};
  // Ends the simulation after this much of HostQueues::work(), at some 20 to 50 ns each. 0: no
  // limit.
  size_t most_work = 0;
};

struct Interval {
  int rank = 0;
  int32_t step = 0;           // of its plan
  double begin = 0, end = 0;  // from the first work that is done for it
};

struct Prediction {
  double seconds = 0;     // of the slowest rank
  bool simulated = true;  // false: most_work ended it, and this is estimated from the bounds
  size_t work = 0;
  std::vector<double> finish;      // by rank
  std::vector<Interval> timeline;  // in the order of their ends, if wanted
};

// Simulates the plans that the passes make of the schedules (cost_model.h). `schedules` are those
// of all ranks, in order, and satisfy verify.h; `segment_count` of them run side by side. Throws
// Error(invalid_argument) where they cannot finish.
Prediction predict(const std::vector<Schedule>& schedules, const Load& load,
                   const MachineModel& machine, int segment_count = 1);

}  // namespace ringwood
