#include "collectives/executors/plan_runner.h"

namespace ringwood {

PlanRunner::PlanRunner(Mesh& mesh, int channel)
    : slots_(mesh, channel),
      scratch_(slots_.to_all() && mesh.size > 1 ? Arena::of_process() : nullptr),
      queued_(mesh, channel, slots_),
      one_round_(mesh, channel),
      eager_(slots_) {}

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
  take_scratch();
  executor_ = &executor_of(plan.protocol);
  executor_->start(execution_);
  idle_ = false;
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
