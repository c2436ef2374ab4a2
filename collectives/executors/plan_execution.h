// One execution of a plan: the arguments of its caller, and the addresses of the plan's places.
//
// A plain value; not thread-safe. Everything it points to lives until the execution has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "collectives/plan/fingerprint.h"
#include "collectives/plan/plan.h"
#include "collectives/recorder/track_recorder.h"
#include "transports/base/error.h"
#include "transports/device_copies.h"

namespace ringwood {

struct PlanExecution {
  const Plan* plan = nullptr;
  Fingerprint fingerprint;
  std::span<void* const> buffers;  // as the plan numbers them; null for those that this rank lacks
  // all_to_all: elements to each rank, and expected from each. Only of queued plans.
  std::span<const uint64_t> send_counts, recv_counts;
  bool delay_sends = false;  // the caller will change the buffers after the agreement
  // PREMUL_SUM of a type whose operands are scaled as they are added: the factors by rank.
  const std::vector<double>* factors = nullptr;
  // Of Plan::Memory::scratch_bytes and Plan::WideScratch::bytes; owned by PlanRunner, but for the
  // scratch of plans for memory of a device, which the caller gives: it is pinned.
  std::byte* scratch = nullptr;
  std::byte* wide = nullptr;
  StepTimes* times = nullptr;  // where the times of the steps go; null: they are not recorded
  // Of a plan for memory of a device: who copies it, for an operation that has entered. Null: the
  // host copies. Once PlanRunner::start() has returned, the runner ends the operation, or abandons
  // it. `own_move`: after the agreement, and with delay_sends before anything else.
  DeviceCopies* device = nullptr;
  DeviceCopies::Operation entered = 0;
  DeviceMove own_move;
  double factor = 1;  // of BoundStep::premultiplies

  std::byte* at(Place place) const {
    std::byte* const base =
        place.buffer == kScratch ? scratch : static_cast<std::byte*>(buffers[place.buffer]);
    return base + place.offset;
  }
};

// Whether `blocks` of its fingerprints is an order of elements (fingerprint.h).
inline bool states_order(const PlanExecution& execution) {
  return may_state_order(*execution.plan) && execution.fingerprint.even != Fingerprint::kPacked;
}

// The fingerprint for a peer, and the one that is expected from it once `theirs` has arrived.
inline Fingerprint fingerprint_to(const PlanExecution& execution, int peer) {
  Fingerprint f = execution.fingerprint;
  if (!execution.send_counts.empty())
    set_pair(f, execution.send_counts[peer], execution.recv_counts[peer]);
  return f;
}
inline Fingerprint fingerprint_from(const PlanExecution& execution, int peer,
                                    const Fingerprint& theirs) {
  Fingerprint f = execution.fingerprint;
  if (states_order(execution)) f.blocks = theirs.blocks;
  if (execution.send_counts.empty()) return f;
  set_pair(f, execution.recv_counts[peer], execution.send_counts[peer]);
  // Whether the peer's other sizes are equal concerns only the peer, unless the call requires it.
  if (theirs.even != Fingerprint::kOneSize && f.even != Fingerprint::kOneSize) f.even = theirs.even;
  return f;
}

// The error, with the step that it ended added unless it names one already.
inline Error at_step(Error error, int32_t step) {
  if (error.step < 0) error.step = step;
  return error;
}

}  // namespace ringwood
