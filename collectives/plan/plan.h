// A plan is a schedule bound to sizes: flat, with every decision taken, and reusable.
//
// make_plan() gives every chunk its bytes and its place, drops what is empty, derives which step
// waits for which, and lists each peer's messages in link order. Then it decides, pass by pass
// (plan/passes.h), how all of it is carried out. Buffers are not part of a plan: a Place names one
// of the buffers that an execution brings, so plans are cached by their arguments and shared by
// threads (immutable).
//
// Both ends of a message must derive the same size from their own plans. Two rules ensure it.
// Messages of several blocks, which may lie anywhere, travel as one or chunk by chunk by their
// sizes alone (bundle() in passes.h), whatever the caller's layout, and spans of scratch always as
// one (schedule.h). Pieces are cut by one rule (piece()) from numbers on which the fingerprint has
// made all ranks agree.
//
// Between hosts messages may travel in a wire format (wire.h). Each such message then has its own
// encoded size and a place in the scratch where its sender encodes it; its receiver decodes
// from the link's receive buffer.
//
// Accumulation: where several operands are added to one place, one after another
// (accumulations.h), 16- and 8-bit floats are summed in fp32 and rounded once, at the end; so are
// averages, in the type that keeps their sums from overflowing (Wide below, accumulate.h). Where
// the accumulations of the ranks differ, so that they would end with different bits (sums.h), 16-
// and 8-bit floats are rounded at each addition.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/call.h"
#include "collectives/kernels/reduce.h"
#include "collectives/kernels/wire.h"
#include "collectives/plan/agreement.h"
#include "collectives/plan/fingerprint.h"
#include "collectives/plan/fusion.h"
#include "collectives/plan/protocol.h"
#include "collectives/plan/recording.h"
#include "collectives/plan/sums.h"
#include "collectives/schedule/graph.h"
#include "collectives/schedule/schedule.h"

namespace ringwood {

class ProvedSchedules;  // proved_schedules.h

// Where the buffers of a call lie.
enum class MemoryKind : uint8_t { host, device };
inline MemoryKind memory_of(const CallOptions& call) {
  return call.on.device < 0 ? MemoryKind::host : MemoryKind::device;
}

// The arguments of a collective, on which all ranks must agree.
struct CollectiveArgs {
  Collective collective = Collective::barrier;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  // Elements: of the buffer (all_reduce, reduce, broadcast), else of a block. Where block sizes
  // differ: of all blocks (all_gather, reduce_scatter), or 0 (blocks of pairs, below).
  size_t count = 0;
  // Empty: all blocks have one size, and all ranks know it. Else elements: for all_gather and
  // reduce_scatter of each rank's block; for gather, scatter and all_to_all of each user chunk, 0
  // for those of others.
  std::vector<size_t> blocks;
  bool operator==(const CollectiveArgs&) const = default;
};
// What a call asks for besides; the choice is made from both.
struct PlanRequest {
  std::string algorithm;  // empty: chosen
  int segments = 0;       // 0: chosen
  double tolerance = -1;  // negative: that of the options
  // Peers could read this rank's scratch in place, but not the buffer it sends.
  bool private_source = false;
  // The schedules to run instead of an algorithm, or null.
  std::shared_ptr<const ProvedSchedules> own;
  MemoryKind memory = MemoryKind::host;
  bool operator==(const PlanRequest&) const = default;
};
// What a plan depends on, besides the group.
struct PlanKey {
  CollectiveArgs args;
  PlanRequest request;
  bool operator==(const PlanKey&) const = default;
};
// Only two ranks know the size of a block.
inline bool has_blocks_of_pairs(const CollectiveArgs& args) {
  return !args.blocks.empty() && has_sizes_of_pairs(args.collective);
}

// Buffer numbers: 0 for the in-place collectives, the user chunk's number for the block-wise ones,
// or kScratch.
inline constexpr int32_t kScratch = -1;
struct Place {
  int32_t buffer = kScratch;
  size_t offset = 0;  // bytes
};

// A reduction of an accumulation whose sum is kept apart from its destination, in the wide scratch.
struct Wide {
  bool on = false;     // accumulate at `offset` of the wide scratch
  bool first = false;  // widen dst into it first
  bool last = false;   // narrow it into dst at the end
  size_t offset = 0;   // bytes
};

// How the operands of AVG and PREMUL_SUM are scaled (accumulate.h).
struct Scaling {
  bool on = false;
  bool whole = false;  // Sums::whole
  int n = 1;           // ranks
  double scale = 1;    // of an operand of AVG; PREMUL_SUM's factors come with each execution
  double divisor = 1;  // of AVG's sums of such operands
};

// A copy that a device carries out, because the user's buffer is its memory. A device does the
// copies of one direction in the order in which they are begun.
enum class DeviceCopy : uint8_t {
  none,
  out,  // to the scratch, from the user's buffer
  in,   // to the user's buffer
};

struct BoundStep {
  StepKind kind = StepKind::copy;
  DeviceCopy device = DeviceCopy::none;
  // Of a copy out: what it brings is then multiplied by this rank's factor (PREMUL_SUM).
  bool premultiplies = false;
  Wide wide;
  int32_t reduction = -1;  // its number among the schedule's reductions before segments(), or -1
  SumStep sum;             // of a reduction, with Scaling::on
  int32_t peer = -1;
  size_t bytes = 0;  // 0: nothing to do
  Place dst, src;
  // Of a message that is encoded, and of a rounding (a copy onto itself, wire_schedule.h);
  // otherwise exact.
  WireFormat wire = WireFormat::exact;
  size_t message_bytes = 0;  // as sent
  Place staging;             // of an encoded send
  int32_t staged_after = 0;  // it is free when this many of its peer's sends are done
  // Of a send: the number, among its peer's receives, of the message that overwrites it next.
  int32_t put = -1;
  // Of a receive: its data is used only by the next step, which adds it.
  bool folds = false;
  bool carried = false;  // one round over links: small enough for the preamble
  // In an early plan: it may run before the ranks have agreed. A receive, once all fingerprints of
  // its peer have come. Elsewhere only sends do.
  bool early = false;
};

// The messages to and from one peer, in link order, and how many fingerprints precede them
// (fingerprint.h).
struct PeerQueue {
  int peer = 0;
  int preambles_out = 0;                 // fingerprints of this rank that go to the peer
  int preambles_in = 0;                  // fingerprints of the peer that come to this rank
  std::vector<int32_t> sends, receives;  // steps
  Place cut;                             // room for a block that arrives in two pieces (wire.h)
};

// The range that the steps of a plan use of one of its buffers, in bytes from its beginning.
struct BufferUse {
  size_t read = 0, written = 0;
  bool sent = false;  // part of it is sent, also by way of the scratch

  size_t bytes() const { return read > written ? read : written; }
};

// Which executor carries out a plan (executors/executor.h); the same on all ranks.
enum class Protocol : uint8_t {
  queued,       // any plan: messages wait in their links' queues for what graph.h derives
  one_round,    // all preambles and data of a rank leave at once, over links
  eager_slots,  // the same through eager slots (transports/eager_channel.h)
};

struct Plan {
  PlanKey key;
  uint32_t epoch = 0;       // by whose parameters it is planned (epochs/epochs.h)
  Fingerprint fingerprint;  // without a sequence number
  // What the schedule is: that of a row of the table, or the user's, and what was made of it.
  struct Form {
    std::string algorithm;
    int segments = 1;
    bool published = false;  // see publish() in compose.h; may differ between ranks
    int bundles = 0;         // messages of several blocks that travel as one
  } form;
  RecordedFacts recorded;

  size_t element = 1;            // bytes
  Schedule schedule;             // in segments; its spans are cut as messages are: step i is
  std::vector<BoundStep> steps;  // bound to steps[i]
  Graph graph;
  std::vector<PeerQueue> peers;

  // The agreement (agreement.h): exchanges of fingerprints in stages. A stage begins when the one
  // before has been received.
  struct Exchange {
    int stage = 0;
    int to = -1, from = -1;        // indices into `peers`, or -1: nothing is sent, or received
    int nth_to = 0, nth_from = 0;  // which of the fingerprints to, and from, that peer
  };
  std::vector<Exchange> agreement;
  // Not queued: every message of every rank is small, may leave at once, and each rank receives
  // from all others. Then the preambles carry the data, and there are no exchanges.
  Protocol protocol = Protocol::queued;
  bool slots = false;  // eager_slots, or queued with all fingerprints by eager slots
  // Of a plan in one round.
  struct OneRound {
    std::vector<int32_t> sends, receives;  // by rank, the step of its message or -1
    size_t sends_until = 0;                // the first step that writes what a message carries
  } one_round;

  // Reductions that are carried out in one pass over memory.
  struct Fusions {
    std::vector<Fusion> list;
    std::vector<int32_t> of_step;  // by step: the fusion whose receive it is, or -1
  } fusions;
  // The memory that an execution needs.
  struct Memory {
    std::vector<BufferUse> uses;  // by buffer
    // all_gather: a step writes this rank's own block, so that block cannot be the caller's
    // read-only input.
    bool writes_own = false;
    size_t scratch_bytes = 0;
  } memory;
  // The scratch of sums that are kept apart.
  struct WideScratch {
    size_t bytes = 0;
    size_t element = 0;        // bytes of it for each element of an accumulation
    bool rounds_each = false;  // each addition of 16- or 8-bit floats by itself
  } wide;
  Scaling scaling;
};

// Whether its data moves while the ranks agree (agreement.h): it begins with a copy to scratch. May
// differ between ranks.
inline bool is_early(const Plan& plan) { return !plan.steps.empty() && plan.steps[0].early; }

// Whether a call by this plan, unless it is a pack, may state an order of elements (fingerprint.h).
// Where the data leaves with the fingerprints, nothing would be gained.
inline bool may_state_order(const Plan& plan) {
  return plan.protocol == Protocol::queued && cut_from_one_buffer(plan.key.args.collective) &&
         plan.fingerprint.blocks == 0;
}

// Null: no message goes to that peer or comes from it.
const PeerQueue* queue_to(const Plan& plan, int peer);

// Piece `index` of `count` elements in `parts`, cut in units of `unit` elements where there are
// enough (whole cache lines).
struct Piece {
  size_t first = 0, count = 0;
};
Piece piece(size_t count, int parts, int index, size_t unit);

// How messages travel between ranks on different hosts. Empty: all are on one host.
struct Wire {
  WireFormat format = WireFormat::exact;
  std::span<const int> host = {};  // by rank; memory of the caller
  bool apart = false;              // those of one host, too, share no memory
  // Decides how they agree, also where they stand for a larger group. No ranks: as many as the
  // schedule has, with a core for each.
  GroupSize group = {};
};

// What remains of a schedule once the ranks have agreed: nothing of a barrier, because each rank
// has then heard, transitively, from all others. Pure.
Schedule after_agreement(Schedule schedule, Collective collective);

// Of a call of `n` ranks, as perf counts them: of the whole buffer, which is that of all blocks
// where there are any. Where their sizes differ and only pairs of ranks know them: what this rank
// sends or gets. Pure.
uint64_t bytes_of_call(const CollectiveArgs& args, int n);

// `protocol`: queued or one_round, the same on all ranks. `schedule` is before segments(), and,
// with a wire format, after with_roundings(). `sums`: of all ranks' schedules, before publish();
// null means that all ranks have the same accumulations and nothing is scaled. `memory`: of the
// user's buffers; device memory is queued. Pure. Precondition: with sums, where scales_operands().
std::shared_ptr<Plan> make_plan(const Schedule& schedule, const CollectiveArgs& args,
                                const std::string& algorithm, int segment_count,
                                Protocol protocol = Protocol::queued, const Wire& wire = {},
                                const Sums* sums = nullptr, const ProtocolLimits& limits = {},
                                MemoryKind memory = MemoryKind::host);

// Whether one rank's schedule can run in one round. The group may only if the schedules of all
// ranks can and the data are few (small_for_one_round() in protocol.h).
bool fits_one_round(const Schedule& schedule);

}  // namespace ringwood
