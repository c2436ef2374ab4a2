// A plan is a schedule bound to sizes: flat, without decisions left, used again and again.
//
// make_plan() gives every chunk its bytes and its place, drops what is empty, derives who waits for
// whom, lists each peer's messages in link order, and then decides, pass by pass (plan/passes.h),
// how all that is carried out. Buffers are not part of it: a Place names one of the buffers that an
// execution brings, so plans are cached by args and shared by threads (immutable).
//
// Both ends of a message must arrive at the same size from their own plans. So multi-chunk spans of
// block-wise collectives, whose blocks may lie anywhere, always travel chunk by chunk, whatever the
// caller's layout, and spans of scratch as one (schedule.h); and pieces are cut by one rule
// (piece()) from numbers on which the fingerprint has made all ranks agree.
//
// Between hosts messages may travel in a wire format (wire.h): then each has bytes of its own
// there, a place in the scratch where its sender encodes it, and its receiver decodes what it is
// shown.
//
// Accumulation: where several operands are added to one place in a row, 16- and 8-bit floats are
// summed in fp32 and rounded once, at the end of the row, as are averages in what keeps their sums
// from overflowing (Wide below, row_sums.h). Where the rows of the ranks differ, so that they would
// end with different bits (sums.h), 16- and 8-bit floats are rounded at each addition.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/kernels/reduce.h"
#include "collectives/kernels/wire.h"
#include "collectives/plan/fingerprint.h"
#include "collectives/plan/fusion.h"
#include "collectives/plan/protocol.h"
#include "collectives/plan/sums.h"
#include "collectives/schedule/graph.h"
#include "collectives/schedule/schedule.h"

namespace ringwood {

// What all ranks must agree on.
struct CollectiveArgs {
  Collective collective = Collective::barrier;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  // Elements: of the buffer (all_reduce, reduce, broadcast), else of a block; where they differ, of
  // all blocks (all_gather, reduce_scatter), or 0 (blocks of pairs, below).
  size_t count = 0;
  // Empty: all blocks are of one size, as all ranks know. Else elements: all_gather, reduce_scatter
  // of each rank's block; gather, scatter, all_to_all of each user chunk, 0 for those of others.
  std::vector<size_t> blocks;
  bool operator==(const CollectiveArgs&) const = default;
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

// A reduction of a row that keeps its sum beside its place.
struct Wide {
  bool on = false;     // accumulate at `offset` of the wide scratch
  bool first = false;  // widen dst into it before
  bool last = false;   // narrow it into dst after
  size_t offset = 0;   // bytes
};

// How the operands of AVG and PREMUL_SUM are scaled (row_sums.h).
struct Scaling {
  bool on = false;
  bool whole = false;  // Sums::whole
  int n = 1;           // ranks
  double scale = 1;    // of an operand of AVG; PREMUL_SUM's factors come with each execution
  double divisor = 1;  // of AVG's sums of such operands
};

struct BoundStep {
  StepKind kind = StepKind::copy;
  Wide wide;
  int32_t reduction = -1;  // its number among those of the schedule before segments(), or -1
  SumStep sum;             // of a reduction, with Scaling::on
  int32_t peer = -1;
  size_t bytes = 0;  // 0: nothing to do
  Place dst, src;
  // Of a message that is encoded, and of a rounding (a copy onto itself, wire_schedule.h); else
  // exact.
  WireFormat wire = WireFormat::exact;
  size_t message_bytes = 0;  // as they travel
  Place staging;             // of an encoded send
  int32_t staged_after = 0;  // it is free when so many of its peer's sends are done
  int32_t put = -1;    // of a send: the number, in its peer's receives, of what overwrites it next
  bool folds = false;  // of a receive: all that is done with it is the next step, which adds it up
  bool carried = false;  // one round over links: small enough to go within its preamble
};

// One peer's messages, in link order, and how many fingerprints go before them (fingerprint.h).
struct PeerQueue {
  int peer = 0;
  int preambles_out = 0;                 // fingerprints of ours that go to it
  int preambles_in = 0;                  // of its own that come to us
  std::vector<int32_t> sends, receives;  // steps
  Place cut;                             // room for a block that arrives in two pieces (wire.h)
};

// How far the steps of a plan reach into one of its buffers, in bytes from its begin.
struct BufferUse {
  size_t read = 0, written = 0;
  bool sent = false;  // something is, also by way of the scratch

  size_t bytes() const { return read > written ? read : written; }
};

// Which executor carries a plan out (executors/executor.h): all ranks have the same.
enum class Protocol : uint8_t {
  queued,       // any plan: messages wait in their links' queues, for what graph.h derives
  one_round,    // every rank's preamble and data leave for all others at once, over links
  eager_slots,  // the same through eager slots (transports/eager_channel.h)
};

struct Plan {
  CollectiveArgs args;
  Fingerprint fingerprint;  // without a sequence number
  std::string algorithm;
  int segments = 1;
  bool published = false;        // see publish() in compose.h; each rank as it likes
  size_t element = 1;            // bytes
  Schedule schedule;             // in segments, its spans cut as messages are: step i is
  std::vector<BoundStep> steps;  // bound to steps[i]
  Graph graph;
  std::vector<PeerQueue> peers;
  // The agreement: exchanges of fingerprints in stages; a stage begins when the one before has been
  // heard.
  struct Exchange {
    int stage = 0;
    int to = -1, from = -1;        // indices into `peers`
    int nth_to = 0, nth_from = 0;  // which of the fingerprints to, and from, that peer
  };
  std::vector<Exchange> agreement;
  // Not queued: every message of every rank is small, may leave at once, and each rank hears from
  // all others. Then the preambles go along with the data instead of the exchanges.
  Protocol protocol = Protocol::queued;
  bool slots = false;  // eager_slots, or queued with fingerprints by eager slots to all others
  std::vector<int32_t> sends_by_rank,
      receives_by_rank;    // one round: by rank, the step of its message or -1
  size_t sends_until = 0;  // one round: the first step that writes what a message carries
  std::vector<Fusion> fusions;
  std::vector<int32_t> fusion_of;  // by step: the fusion whose receive it is, or -1
  Duration fusion_patience{};
  std::vector<BufferUse> uses;  // by buffer
  // all_gather: a step writes this rank's own block, so it cannot be the caller's read-only input.
  bool writes_own = false;
  size_t scratch_bytes = 0;
  size_t wide_bytes = 0;
  size_t wide_element = 0;   // of them, for each element of a row
  bool rounds_each = false;  // addition of 16- or 8-bit floats: there are no rows
  Scaling scaling;
};

// Null: nothing goes to that peer, or comes from it.
const PeerQueue* queue_to(const Plan& plan, int peer);

// Piece `index` of `count` elements in `parts`, in units of `unit` elements where there are enough
// (whole cache lines).
struct Piece {
  size_t first = 0, count = 0;
};
Piece piece(size_t count, int parts, int index, size_t unit);

// How messages travel between ranks whose host differs; empty: all are on one.
struct Wire {
  WireFormat format = WireFormat::exact;
  std::span<const int> host = {};  // by rank; the caller's memory
};

// What is left of a schedule once the ranks have agreed: nothing of a barrier, because each has
// then heard, transitively, from all others. Pure.
Schedule after_agreement(Schedule schedule, Collective collective);

// `protocol`: queued or one_round; all ranks must say the same.
// `schedule` is before segments(), and, with a wire format, after with_roundings(). `sums`: of all
// ranks' schedules, before publish(); null: all ranks have the same rows, and nothing is scaled.
// Pure. Precondition: with sums, where scales_operands().
std::shared_ptr<Plan> make_plan(const Schedule& schedule, const CollectiveArgs& args,
                                const std::string& algorithm, int segment_count,
                                Protocol protocol = Protocol::queued, const Wire& wire = {},
                                const Sums* sums = nullptr, const ProtocolLimits& limits = {});

// Whether one rank's schedule can run in one round; the group may only if all ranks' can, and the
// data are few (small_for_one_round() in protocol.h).
bool fits_one_round(const Schedule& schedule);

}  // namespace ringwood
