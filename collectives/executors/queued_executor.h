// Carries out any plan: each peer's messages wait in link order for what the graph says, and are
// posted, taken and reduced as they come.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/executors/additions.h"
#include "collectives/executors/executor.h"
#include "collectives/executors/fused_pass.h"
#include "collectives/executors/message_agreement.h"
#include "collectives/executors/peer_link.h"
#include "collectives/executors/ready_steps.h"
#include "collectives/executors/slot_agreement.h"

namespace ringwood {

class QueuedExecutor final : public Executor {
 public:
  // Over this channel of the mesh; the slots are likewise of it. Both outlive it.
  QueuedExecutor(Mesh& mesh, int channel, EagerSlots& slots);

  void start(const PlanExecution& execution) override;
  Status step(Pass& pass) override;
  bool agreed() const override { return agreed_; }
  void release() override { held_ = false; }
  void add_waits(WaitList& waits) const override;
  // Of all executions: reductions carried out in one pass (fusion.h).
  uint64_t fused() const { return fused_pass_.count(); }

 private:
  bool running() const { return agreed_ && !held_; }
  Status serve(QueuedLink& link, bool& progressed);
  Status post_sends(QueuedLink& link, bool& progressed);
  Status post_send(QueuedLink& link, const BoundStep& step);
  Status post_receives(QueuedLink& link, bool& progressed);
  bool postable(int32_t receive) const;
  Status poll(QueuedLink& link, bool& progressed);
  void complete_messages(QueuedLink& link);
  bool take_in_place(QueuedLink& link);
  bool take_piece(QueuedLink& link, std::span<const std::byte> piece);
  void run_ready(bool& progressed);

  Mesh& mesh_;
  const int channel_;
  const PlanExecution* execution_ = nullptr;
  std::vector<QueuedLink> links_;  // of Plan::peers
  ReadySteps steps_;
  Additions additions_;
  FusedPass fused_pass_{additions_};
  MessageAgreement by_messages_;
  SlotAgreement by_slots_;
  Agreement* agreement_ = nullptr;
  bool agreed_ = false, held_ = false;
};

}  // namespace ringwood
