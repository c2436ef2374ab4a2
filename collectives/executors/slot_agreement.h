// The agreement by eager slots: every rank's fingerprint goes to every other rank. The sizes of
// all_to_all belong to pairs of ranks; where they are not all equal, a second round tells every
// rank that all pairs agree.
#pragma once

#include "collectives/executors/agreement.h"
#include "collectives/executors/eager_slots.h"

namespace ringwood {

class SlotAgreement final : public Agreement {
 public:
  explicit SlotAgreement(EagerSlots& slots) : slots_(slots) {}

  void start(const PlanExecution& execution, std::span<QueuedLink> links) override;
  Status step(bool& progressed, bool& agreed) override;
  bool heard(size_t) const override { return false; }
  Status check() override;
  void finish() override { slots_.end_round(); }
  void add_waits(WaitList& waits) const override { slots_.add_waits(waits); }
  int waits_for() const override { return slots_.first_missing(); }

 private:
  void begin_second_round();
  Status hear(int peer, const std::byte* head);

  EagerSlots& slots_;
  const PlanExecution* execution_ = nullptr;
  bool of_pairs_ = false;      // the fingerprints of this round are of pairs
  bool second_round_ = false;  // is needed: some rank's sizes are not all equal
};

}  // namespace ringwood
