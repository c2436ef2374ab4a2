// Messages between hosts in a wire format.
#include <algorithm>

#include "collectives/plan/passes.h"
#include "collectives/plan/wire_schedule.h"

namespace ringwood {
namespace {

// The encoded messages of a queue take turns in this much of the scratch, or in as much as the
// largest needs.
constexpr size_t kStagingBytes = 1 << 20;

// Waiting for earlier messages of the same direction costs nothing extra: a link without buffers
// waits for them anyway.
void stage(Plan& plan, PeerQueue& queue) {
  size_t largest = 0, total = 0;
  for (const int32_t s : queue.sends) {
    if (plan.steps[s].wire == WireFormat::exact) continue;
    largest = std::max(largest, aligned(plan.steps[s].message_bytes));
    total += aligned(plan.steps[s].message_bytes);
  }
  const size_t room = std::max(largest, std::min(total, kStagingBytes));
  const size_t begin = aligned(plan.memory.scratch_bytes);
  plan.memory.scratch_bytes = begin + room;
  size_t at = 0;
  int32_t turn = 0, before = 0;  // first message of this turn, and of the one before
  for (size_t k = 0; k < queue.sends.size(); ++k) {
    BoundStep& send = plan.steps[queue.sends[k]];
    if (send.wire == WireFormat::exact) continue;
    if (at + send.message_bytes > room) {
      at = 0;
      before = turn;
      turn = static_cast<int32_t>(k);
    }
    // The messages of the turn before that overlap this place, and all that precede them.
    const auto overlaps = [&](int32_t j) {
      const BoundStep& old = plan.steps[queue.sends[j]];
      return old.wire != WireFormat::exact && old.staging.offset < begin + at + send.message_bytes;
    };
    for (int32_t j = before; turn > 0 && j < turn && overlaps(j); ++j) send.staged_after = j + 1;
    send.staging = {kScratch, begin + at};
    at += aligned(send.message_bytes);
  }
  queue.cut = {kScratch, plan.memory.scratch_bytes};
  plan.memory.scratch_bytes += aligned(block_of(WireFormat::int8).bytes);
}

}  // namespace

Plan add_wire(Plan plan, const Wire& wire) {
  plan.fingerprint.wire = static_cast<uint8_t>(wire.format);
  if (wire.format == WireFormat::exact) return plan;
  const int rank = plan.schedule.rank;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    BoundStep& step = plan.steps[i];
    const bool encoded = step.peer >= 0 && is_encoded(wire.host, rank, step.peer);
    if (!encoded && !is_rounding(plan.schedule.steps[i])) continue;
    step.wire = wire.format;
    step.message_bytes = wire_bytes(wire.format, step.bytes / sizeof(float));
  }
  for (PeerQueue& queue : plan.peers)
    if (is_encoded(wire.host, rank, queue.peer)) stage(plan, queue);
  return plan;
}

}  // namespace ringwood
