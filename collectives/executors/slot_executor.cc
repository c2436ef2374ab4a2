#include "collectives/executors/slot_executor.h"

#include <cstring>
#include <utility>

namespace ringwood {
namespace {

static_assert(sizeof(Fingerprint) == kHeadBytes);

// The message to, or from, a peer; null for none.
const BoundStep* message_of(const Plan& plan, const std::vector<int32_t>& by_peer, int peer) {
  return by_peer[peer] < 0 ? nullptr : &plan.steps[by_peer[peer]];
}

}  // namespace

void SlotExecutor::start(const PlanExecution& execution) {
  const Plan& plan = *execution.plan;
  execution_ = &execution;
  held_ = data_follows_ = execution.hold_sends;
  slots_.begin_round();
  for (EagerSlots::Slot& slot : slots_.slots()) {
    const BoundStep* const out = message_of(plan, plan.letters_out, slot.peer);
    slot.out_bytes = out ? out->bytes : 0;
    const bool now = out && !held_;
    slot.box->write(&execution.fingerprint, now ? execution.at(out->src) : nullptr,
                    now ? out->bytes : 0);
  }
  // The rest while they are on their way.
  for (EagerSlots::Slot& slot : slots_.slots()) {
    const BoundStep* const in = message_of(plan, plan.letters_in, slot.peer);
    slot.in_bytes = in ? in->bytes : 0;
  }
  agreed_ = false;
  next_ = 0;
  skip_empty();
  additions_.start(execution);
}

// What is sent has left when the steps are run.
void SlotExecutor::skip_empty() {
  const auto& steps = execution_->plan->steps;
  while (next_ < steps.size() && (steps[next_].bytes == 0 || steps[next_].kind == StepKind::send))
    ++next_;
}

Status SlotExecutor::hear(bool& progressed) {
  const Fingerprint& mine = execution_->fingerprint;
  const auto check = [&](int peer, const std::byte* head) -> Status {
    if (std::memcmp(head, &mine, sizeof mine) == 0) [[likely]]
      return {};
    Fingerprint theirs;
    std::memcpy(static_cast<void*>(&theirs), head, sizeof theirs);
    return check_fingerprint(mine, slots_.rank(), theirs, peer);
  };
  if (Status s = slots_.look(check); !s) return s;
  agreed_ = slots_.all_here();
  progressed = progressed || agreed_;
  return {};
}

Status SlotExecutor::step(Pass& pass) {
  if (!agreed_)
    if (Status s = hear(pass.progressed); !s || !agreed_) return s;
  if (held_) return {};
  if (std::exchange(data_follows_, false)) write_data();
  const auto& steps = execution_->plan->steps;
  for (; next_ < steps.size(); ++next_, skip_empty()) {
    const BoundStep& step = steps[next_];
    if (step.peer < 0) {
      run_local(*execution_, additions_, step);
      continue;
    }
    bool taken = false;
    if (Status s = receive(step, taken); !s || !taken) return s;
    pass.progressed = true;
  }
  slots_.end_round();
  pass.progressed = pass.finished = true;
  return {};
}

void SlotExecutor::write_data() {
  const Plan& plan = *execution_->plan;
  for (const EagerSlots::Slot& slot : slots_.slots())
    if (const BoundStep* const out = message_of(plan, plan.letters_out, slot.peer))
      slot.box->write_data(execution_->at(out->src), out->bytes);
}

Status SlotExecutor::receive(const BoundStep& step, bool& taken) {
  for (int look = 0; look < slots_.looks() && !taken; ++look) taken = take(step);
  if (taken || !slots_.at(step.peer).closed()) return {};
  taken = take(step);  // what was written before the end
  return taken ? Status() : slots_.gone(step.peer);
}

bool SlotExecutor::take(const BoundStep& step) {
  alignas(64) std::byte room[kStampedBytes];
  const std::span<const std::byte> data = slots_.at(step.peer).data(step.bytes, room);
  if (data.empty()) return false;
  if (step.kind == StepKind::recv)
    std::memcpy(execution_->at(step.dst), data.data(), step.bytes);
  else
    additions_.add(step, 0, data);
  return true;
}

void SlotExecutor::add_waits(WaitList& waits) const {
  slots_.add_waits(waits);
  const auto& steps = execution_->plan->steps;
  if (agreed_ && next_ < steps.size() && steps[next_].peer >= 0)
    waits.add_data(steps[next_].peer, next_);
}

}  // namespace ringwood
