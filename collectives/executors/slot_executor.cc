#include "collectives/executors/slot_executor.h"

#include <cstring>
#include <memory>

namespace ringwood {
namespace {

static_assert(sizeof(Fingerprint) == kHeadBytes);

// The message to, or from, a peer; null if there is none. Plain pointers, because the checked
// indices of vectors cost more than the rest.
const BoundStep* message_of(const Plan& plan, const std::vector<int32_t>& by_peer, int peer) {
  const int32_t step = by_peer.data()[peer];
  return step < 0 ? nullptr : plan.steps.data() + step;
}

}  // namespace

void SlotExecutor::start(const PlanExecution& execution) {
  const Plan& plan = *execution.plan;
  execution_ = &execution;
  delayed_ = data_follows_ = execution.delay_sends;
  slots_.begin_round();
  for (EagerSlots::Slot& slot : slots_.slots()) {
    const BoundStep* const out = message_of(plan, plan.one_round.sends, slot.peer);
    slot.out_bytes = out ? out->bytes : 0;
    const bool now = out && !delayed_;
    slot.box->write(&execution.fingerprint, now ? execution.at(out->src) : nullptr,
                    now ? out->bytes : 0);
  }
  // Sets the rest while the stores are on their way.
  for (EagerSlots::Slot& slot : slots_.slots()) {
    const BoundStep* const in = message_of(plan, plan.one_round.receives, slot.peer);
    slot.in_bytes = in ? in->bytes : 0;
  }
  agreed_ = false;
  next_ = plan.steps.data();
  end_ = std::to_address(plan.steps.end());
  skip_empty();
  additions_.start(execution);
}

// Sends have left by the time the steps run; they need no step.
void SlotExecutor::skip_empty() {
  while (next_ != end_ && (next_->bytes == 0 || next_->kind == StepKind::send)) ++next_;
}

inline Status SlotExecutor::check(int peer, const std::byte* head) const {
  if (std::memcmp(head, &execution_->fingerprint, sizeof(Fingerprint)) == 0) [[likely]]
    return {};
  return mismatch(peer, head);
}

Status SlotExecutor::mismatch(int peer, const std::byte* head) const {
  Fingerprint theirs;
  std::memcpy(static_cast<void*>(&theirs), head, sizeof theirs);
  return check_fingerprint(execution_->fingerprint, slots_.rank(), theirs, peer);
}

inline Status SlotExecutor::hear(bool& progressed) {
  const auto check_head = [this](int peer, const std::byte* head) { return check(peer, head); };
  if (Status s = slots_.look(check_head); !s) return s;
  agreed_ = slots_.all_here();
  progressed = progressed || agreed_;
  return {};
}

Status SlotExecutor::step(Iteration& iteration) {
  if (!agreed_)
    if (Status s = hear(iteration.progressed); !s || !agreed_) return s;
  if (delayed_) return {};
  if (data_follows_) write_data();
  for (; next_ != end_; ++next_, skip_empty()) {
    const BoundStep& step = *next_;
    if (step.peer < 0) {
      run_local(*execution_, additions_, step, 0, step.bytes);
      continue;
    }
    bool taken = false;
    if (Status s = receive(step, taken); !s || !taken) return s;
    iteration.progressed = true;
  }
  slots_.end_round();
  iteration.progressed = iteration.finished = true;
  return {};
}

void SlotExecutor::write_data() {
  data_follows_ = false;
  const Plan& plan = *execution_->plan;
  for (const EagerSlots::Slot& slot : slots_.slots())
    if (const BoundStep* const out = message_of(plan, plan.one_round.sends, slot.peer))
      slot.box->write_data(execution_->at(out->src), out->bytes);
}

inline Status SlotExecutor::receive(const BoundStep& step, bool& taken) {
  for (int look = 0; look < slots_.looks() && !taken; ++look) taken = take(step);
  return taken ? Status() : last_look(step, taken);
}

Status SlotExecutor::last_look(const BoundStep& step, bool& taken) {
  if (!slots_.at(step.peer).closed()) return {};
  taken = take(step);  // what was written before the peer ended
  return taken ? Status() : slots_.gone(step.peer);
}

inline bool SlotExecutor::take(const BoundStep& step) {
  if (EagerChannel::is_stamped(step.bytes)) return take_spread(step);
  return use(step, slots_.at(step.peer).data(step.bytes, nullptr));
}

bool SlotExecutor::take_spread(const BoundStep& step) {
  alignas(64) std::byte room[kStampedBytes];
  return use(step, slots_.at(step.peer).data(step.bytes, room));
}

// An empty step consumes nothing.
inline bool SlotExecutor::use(const BoundStep& step, std::span<const std::byte> data) {
  if (data.empty()) return false;
  if (step.kind != StepKind::recv) {
    additions_.add(step, 0, data);
  } else {
    std::byte* const dst = execution_->at(step.dst);
    if (!copy_usual(dst, data.data(), step.bytes)) std::memcpy(dst, data.data(), step.bytes);
  }
  return true;
}

int SlotExecutor::waits_for() const {
  const int missing = slots_.first_missing();
  return missing < 0 && next_ != end_ ? next_->peer : missing;
}

void SlotExecutor::add_waits(WaitList& waits) const {
  slots_.add_waits(waits);
  if (agreed_ && next_ != end_ && next_->peer >= 0)
    waits.add_data(next_->peer, static_cast<size_t>(next_ - execution_->plan->steps.data()));
}

}  // namespace ringwood
