#include "collectives/executors/plan_runner.h"

namespace ringwood {

PlanRunner::PlanRunner(Mesh& mesh, int channel)
    : slots_(mesh, channel),
      scratch_(slots_.to_all() && mesh.size > 1 ? Arena::of_process() : nullptr),
      queued_(mesh, channel, slots_),
      one_round_(mesh, channel),
      eager_(slots_) {}

// In the arena, also where peers cannot read it: a device's copies need it pinned.
Scratch& PlanRunner::pinned_scratch() {
  if (!pinned_scratch_) {
    Arena* const arena = Arena::of_process();
    if (!arena)
      throw Error(ErrorCode::system,
                  "memory of a device is copied by way of shared memory, and "
                  "this process has none: see the first warning");
    pinned_scratch_.emplace(arena, Scratch::Outgrown::kept);
  }
  return *pinned_scratch_;
}

Executor& PlanRunner::executor_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::queued: return queued_;
    case Protocol::one_round: return one_round_;
    case Protocol::eager_slots: return eager_;
  }
  throw Error(ErrorCode::internal, "a plan of an unknown protocol");
}

void PlanRunner::start() {
  const Plan& plan = *execution_.plan;
  if (plan.slots && !slots_.to_all())
    throw Error(ErrorCode::internal, "a plan by eager slots, where not every rank has them");
  if (execution_.device) [[unlikely]] {
    try {
      take_pinned_scratch();
    } catch (...) {
      execution_.device->abandon(execution_.entered);
      throw;
    }
  } else {
    take(scratch_);
  }
  executor_ = &executor_of(plan.protocol);
  executor_->start(execution_);
  idle_ = false;
}

void PlanRunner::take_pinned_scratch() {
  take(pinned_scratch());
  const size_t bytes = execution_.plan->memory.scratch_bytes;
  if (bytes == 0) return;
  if (Status s = execution_.device->pin(execution_.scratch, bytes); !s) throw std::move(s.error());
}

void PlanRunner::drop() {
  if (!idle_) executor_->drop();
  idle_ = true;
}

WaitList PlanRunner::waits() const {
  WaitList waits;
  if (!idle_) executor_->add_waits(waits);
  return waits;
}

}  // namespace ringwood
