// What a schedule would cost: a simulation of it on a MachineModel, no constants per algorithm.
//
// A fluid model, in the tradition of Hockney (t = alpha + beta bytes) and LogGP (Alexandrov et al.,
// SPAA 1995: the processor's overhead per message apart from latency and gap), with shared
// resources as in max-min fair sharing (cost_share.h) instead of one gap per port:
//   - A rank is one thread. It does one thing at a time: the fixed part of each message (alpha), a
//     copy, a reduction (gamma). Messages that are on their way at one time share it.
//   - A host's ranks share its cores, its memory bandwidth (the part of the data that no cache
//     holds) and, each direction, its network interface.
//   - Inside a host a message is written by its sender's core and then read by its receiver's,
//     piece by piece; between hosts both cores and both interfaces are used at once (beta).
//   - Buffers that all ranks of a host map (`zero_copy`) are read where they lie, and a reduction
//     that goes back to where its operands came from is written there (fusion.h).
//   - Between hosts a message may travel in a wire format: fewer bytes, for a pass of both cores.
//   - What is costed is what runs: the steps, messages and fusions are those of the plans.
//   - Steps wait as in the executor: for what graph.h derives, and for their turn on their link.
//   - A sender may be ahead of its receiver by what the link holds, and waits beyond that.
// Not in the model: contention inside switches, two groups at one time, the kernel's mistakes.
//
// What is too large to be simulated is estimated by two bounds: the busiest resource, and the
// longest chain of steps that wait for each other. They are taken from all ranks' schedules, or, of
// very many, from some ranks' (cost_sketch.h).
//
// Times are seconds from the call on all ranks at once to the last step. Pure: equal arguments,
// equal results, so all ranks of a group may compute it for themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/kernels/wire.h"
#include "collectives/machine/machine_model.h"
#include "collectives/schedule/schedule.h"

namespace ringwood {

struct Load {
  Collective collective = Collective::all_reduce;
  size_t bytes = 0;  // of the whole buffer (all_reduce, reduce, broadcast), else of one block
  size_t element = 4;
  // The ranks agree on what they do before they receive (fingerprint.h). Left out in theory.
  bool agreement = false;
  bool one_round = false;  // with the data, where the plan does so (plan.h)
  bool zero_copy = false;  // every rank's buffers lie in its arena
  // all_gather, gather: a rank's own block comes from elsewhere, and is copied to its place while
  // messages are on their way.
  bool out_of_place = false;
  bool timeline = false;
  // How messages travel between hosts; the schedules are then those of with_roundings().
  WireFormat wire = WireFormat::exact;
  // Bytes of the whole operation where `bytes` is only a part of it; decides which cache holds
  // them. 0: `bytes`.
  size_t of_bytes = 0;
  // Ends the simulation after so much of FairShare::work(), at some 20 ns each. 0: no limit.
  size_t most_work = 0;
};

struct Interval {
  int rank = 0;
  int32_t step = 0;           // of its plan
  double begin = 0, end = 0;  // from the first time that anything is done for it
};

struct Prediction {
  double seconds = 0;     // the slowest rank's
  bool simulated = true;  // false: most_work ended it, and this is the bounds' estimate
  size_t work = 0;
  std::vector<double> finish;      // by rank
  std::vector<Interval> timeline;  // in the order of their ends, if wanted
};

// Of the plans that the passes make of them (cost_model.h). `schedules` are those of all ranks, in
// order, and of a kind that verify.h accepts; `segment_count` of them run side by side. Throws
// Error(invalid_argument) where they cannot finish.
Prediction predict(const std::vector<Schedule>& schedules, const Load& load,
                   const MachineModel& machine, int segment_count = 1);

}  // namespace ringwood
