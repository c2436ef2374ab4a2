// Carries out plans of one round by eager slots: each rank's fingerprint and data are in the slot
// that it writes to each other rank. The steps run in their order and read the slots in place,
// without queues; an iteration costs little more than looking at the slots.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/executors/additions.h"
#include "collectives/executors/eager_slots.h"
#include "collectives/executors/executor.h"

namespace ringwood {

class SlotExecutor final : public Executor {
 public:
  // The slots outlive the executor. Precondition: to_all().
  explicit SlotExecutor(EagerSlots& slots) : slots_(slots) {}

  void start(const PlanExecution& execution) override;
  Status step(Iteration& iteration) override;
  bool agreed() const override { return agreed_; }
  void release() override { delayed_ = false; }
  void add_waits(WaitList& waits) const override;
  int waits_for() const override;

 private:
  void skip_empty();
  Status hear(bool& progressed);
  Status check(int peer, const std::byte* head) const;
  Status mismatch(int peer, const std::byte* head) const;
  void write_data();
  Status receive(const BoundStep& step, bool& taken);
  Status last_look(const BoundStep& step, bool& taken);
  bool take(const BoundStep& step);
  bool take_spread(const BoundStep& step);
  bool use(const BoundStep& step, std::span<const std::byte> data);

  EagerSlots& slots_;
  const PlanExecution* execution_ = nullptr;
  Additions additions_;
  const BoundStep *next_ = nullptr, *end_ = nullptr;  // of the plan's steps
  bool agreed_ = false, delayed_ = false;
  bool data_follows_ = false;  // this rank's data, which was delayed
};

}  // namespace ringwood
