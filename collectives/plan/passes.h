// The passes that make a plan. Each is a pure function Plan -> Plan that takes one decision and
// writes it into fields of the plan, where the executors, the cost model and the checker read it.
//
//   bundle        which messages of several blocks travel as one
//   bind          bytes and places of every step; queues of each link
//   begins_early, in_scratch (compose.h), add_early     what may begin before the ranks have agreed
//   add_protocol  the protocol of the operation, how the ranks agree on it, and which data may
//                 leave with the preambles
//   in_scratch, add_device_copies       which copies a device carries out
//   add_wire      which messages travel in a wire format, and where they are encoded
//   add_scaling   AVG and PREMUL_SUM: what an addition is scaled and divided by
//   add_rounding  where the sums of an accumulation are rounded
//   add_fusion    which steps are carried out in one pass over memory
//   add_slots     where the group has eager slots: what they carry instead of links
//   add_recording which of its executions are recorded, and how
//
// They are applied in this order (make_plan() in plan.h applies all but add_slots). None changes
// what those before it have set. Pure; any thread.
#pragma once

#include "collectives/plan/plan.h"

namespace ringwood {

// Of every message of several small blocks (ProtocolLimits::bundled): its sender copies them to the
// scratch and sends that, its receiver receives into scratch and copies or adds from there. The
// other messages are taken apart: each block travels by itself, as it lies. So nothing that is
// joined remains, and everything after this pass sees ordinary steps.
//
// Lists of pieces for the links (writev, scatter and gather elements) would save the copies of
// small blocks, which cost less than the list's entries do: an entry is 16 bytes, the kernel's and
// the device's limits of 1024 and some 30 entries would still need a copy beyond them, and a
// receiver in shared memory reads one range instead of many.
struct Bundled {
  Schedule schedule;
  int count = 0;  // messages
};
Bundled bundle(const Schedule& schedule, const CollectiveArgs& args, const ProtocolLimits& limits,
               const Wire& wire);
// Binds every chunk to its bytes and its place. Empty steps are dropped from the queues, not from
// the steps. The result can be run: exact, rounding at each addition.
Plan bind(const Schedule& schedule, const CollectiveArgs& args, const std::string& algorithm,
          int segment_count);
// The steps that bind() makes of a schedule in one segment: blocks travel one by one (plan.h).
size_t bound_steps(const Schedule& schedule, Collective collective);
// Precondition of one_round: fits_one_round() of all ranks' schedules; one segment. `wire` says
// how the ranks agree (agreement.h).
Plan add_protocol(Plan plan, Protocol protocol, const Wire& wire);
// Whether this rank's plan is early (agreement.h). The schedule is then to be in_scratch(), unless
// it moves_in_scratch() already (compose.h).
bool begins_early(const Schedule& schedule, const CollectiveArgs& args, Protocol protocol,
                  const Wire& wire, const ProtocolLimits& limits);
// Precondition: begins_early(), and the plan is of that schedule.
Plan add_early(Plan plan);
// The user's buffers are memory of a device: marks the copies that touch them. Precondition: the
// schedule is in_scratch(), and the protocol queued.
Plan add_device_copies(Plan plan);
// Precondition: the schedule is with_roundings() (wire_schedule.h).
Plan add_wire(Plan plan, const Wire& wire);
// `sums`: of all ranks' schedules, as they were bound. Where nothing is scaled, returns the
// plan unchanged.
Plan add_scaling(Plan plan, const Sums& sums);
// `accumulations_agree`: Sums::accumulations_agree. Sums of an accumulation are kept in a wider
// type where the type has one; where the accumulations of the ranks differ, each addition is
// rounded.
Plan add_rounding(Plan plan, bool accumulations_agree);
Plan add_fusion(Plan plan, const ProtocolLimits& limits);
// For a group in which every rank has eager slots to every other, so that neither fingerprints nor
// the data of one round go over links. What a slot sends is copied before the first step runs, and
// what arrives in a slot stays there until the last step is done. So data that is received only to
// be added is added directly from the slot.
Plan add_slots(Plan plan);
// `predicted_seconds`: of private buffers of about this size; 0: not known, as make_plan() has it.
Plan add_recording(Plan plan, double predicted_seconds);

// The index of a peer in Plan::peers; its queue is made where it is missing.
size_t queue_of(Plan& plan, int peer);

// Parts of the scratch begin on cache lines.
inline size_t aligned(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

}  // namespace ringwood
