// Carries out any plan: the messages of each peer wait in link order for their predecessors in the
// graph, and are posted, received and reduced as they become ready.
#pragma once

#include <algorithm>
#include <cstddef>
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
  // `channel` is a channel of the mesh, and the slots belong to it. Both outlive the executor.
  QueuedExecutor(Mesh& mesh, int channel, EagerSlots& slots);

  void start(const PlanExecution& execution) override;
  Status step(Iteration& iteration) override;
  bool agreed() const override { return agreed_; }
  uint32_t order() const override { return agreement_->order(); }
  void release() override { delayed_ = false; }
  void drop() noexcept override;
  void add_waits(WaitList& waits) const override;
  int waits_for() const override;
  // Of a plan for memory of a device: what is before it in the user's stream is not done.
  bool waits_for_stream() const { return behind_; }
  // Reductions carried out in one pass over memory (fusion.h), over all executions.
  uint64_t fused() const { return fused_pass_.count(); }

 private:
  bool running() const { return (agreed_ || early_) && !delayed_ && !behind_; }
  Status agree(bool& progressed);
  bool may_receive(const QueuedLink& link) const;
  // All of them, or until about as much is moved as in one iteration.
  Status serve_links(bool& progressed);
  Status serve(QueuedLink& link, bool& progressed);
  Status post_sends(QueuedLink& link, bool& progressed);
  Status post_send(QueuedLink& link, const BoundStep& step);
  Status post_receives(QueuedLink& link, bool& progressed);
  bool postable(int32_t receive) const;
  Status poll(QueuedLink& link, bool& progressed);
  void complete_messages(QueuedLink& link);
  void complete(int32_t step);
  void note_posted(int32_t step) {
    if (execution_->times) [[unlikely]]
      execution_->times->posted(step);
  }
  // What run_ready() and the links may still read or write in this iteration.
  bool room_left() const { return room_ > 0; }
  void take_room(size_t bytes) { room_ -= std::min(room_, bytes); }
  bool take_in_place(QueuedLink& link);
  bool take_piece(QueuedLink& link, std::span<const std::byte> piece);
  Status run_ready(bool& progressed);
  Status run_slice(bool& ran);
  // Memory of a device (PlanExecution::device): completes the copies that are done; begins one; and
  // lets the user's stream go on once the last copy in is begun.
  void serve_device(bool& progressed);
  Status begin_copy(int32_t step);
  Status begin_own_move(bool& progressed);
  Status end_device();

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
  bool agreed_ = false, delayed_ = false;
  bool early_ = false;     // the plan
  size_t first_ = 0;       // the link that is served next
  size_t room_ = 0;        // bytes
  int32_t local_ = -1;     // the local step that is being run, or -1
  size_t local_done_ = 0;  // bytes of it
  // Copies of the device that were begun, in their order. The own move is none of the plan's steps.
  struct Copying {
    int32_t step;  // or -1
    DeviceCopies::Ticket ticket;
  };
  struct Direction {
    std::vector<Copying> begun;
    size_t done = 0;
    size_t left() const { return begun.size() - done; }
    void clear() { begun.clear(), done = 0; }
  };
  Direction out_, in_;
  std::vector<int32_t> arrived_;  // copied out, and still to be multiplied by the factor
  bool ends_ = false;             // the device's operation is still to be ended
  bool rings_ = false;            // copies were begun, and will not ring yet
  bool moves_ = false;            // the own move is still to be begun
  bool behind_ = false;           // the user's stream has not come to the operation
};

}  // namespace ringwood
