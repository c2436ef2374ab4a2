#include "collectives/executors/slot_agreement.h"

#include <cstring>

namespace ringwood {
namespace {

static_assert(sizeof(Fingerprint) == kHeadBytes);
// The fingerprint of the second round.
Fingerprint without_pairs(const PlanExecution& execution) {
  Fingerprint f = execution.fingerprint;
  f.even = 0;
  return f;
}

}  // namespace

void SlotAgreement::start(const PlanExecution& execution, std::span<QueuedLink>) {
  execution_ = &execution;
  of_pairs_ = !execution.send_counts.empty();
  second_round_ = of_pairs_ && slots_.size() > 2 && !execution.fingerprint.even;
  begin_order(execution);
  slots_.begin_round();
  for (EagerSlots::Slot& slot : slots_.slots()) {
    const Fingerprint mine = fingerprint_to(execution, slot.peer);
    slot.box->write(&mine, nullptr, 0);
    slot.out_bytes = slot.in_bytes = 0;
  }
}

Status SlotAgreement::check() {
  return slots_.look([this](int peer, const std::byte* head) { return hear(peer, head); });
}

Status SlotAgreement::step(bool& progressed, bool& agreed) {
  if (Status s = check(); !s || !slots_.all_here()) return s;
  progressed = true;
  if (second_round_)
    begin_second_round();
  else
    agreed = true;
  return {};
}

// Sent to every rank, by a rank whose own pairs agree: all fingerprints look the same.
void SlotAgreement::begin_second_round() {
  slots_.end_round();
  of_pairs_ = second_round_ = false;
  const Fingerprint mine = without_pairs(*execution_);
  slots_.begin_round();
  for (const EagerSlots::Slot& slot : slots_.slots()) slot.box->write(&mine, nullptr, 0);
}

Status SlotAgreement::hear(int peer, const std::byte* head) {
  Fingerprint theirs;
  std::memcpy(static_cast<void*>(&theirs), head, sizeof theirs);
  const bool news = !of_pairs_ && !execution_->send_counts.empty();
  const Fingerprint expected =
      news ? without_pairs(*execution_) : fingerprint_from(*execution_, peer, theirs);
  second_round_ = second_round_ || (of_pairs_ && slots_.size() > 2 && theirs.even == 0);
  hear_order(theirs);
  return check_fingerprint(expected, slots_.rank(), theirs, peer);
}

}  // namespace ringwood
