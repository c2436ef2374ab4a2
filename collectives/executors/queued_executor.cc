#include "collectives/executors/queued_executor.h"

#include <utility>

#include "collectives/executors/wire_messages.h"

namespace ringwood {
namespace {

// A receive whose bytes go straight to their place; the others are read in place on the link.
bool goes_to_its_place(const BoundStep& step) {
  return step.kind == StepKind::recv && step.wire == WireFormat::exact;
}

}  // namespace

QueuedExecutor::QueuedExecutor(Mesh& mesh, int channel, EagerSlots& slots)
    : mesh_(mesh), channel_(channel), by_messages_(mesh.rank), by_slots_(slots) {}

void QueuedExecutor::start(const PlanExecution& execution) {
  const Plan& plan = *execution.plan;
  execution_ = &execution;
  delayed_ = execution.delay_sends;
  agreed_ = false;
  early_ = is_early(plan);
  links_.clear();
  for (const PeerQueue& queue : plan.peers) links_.emplace_back(mesh_, channel_, queue);
  if (plan.slots)
    agreement_ = &by_slots_;
  else
    agreement_ = &by_messages_;
  agreement_->start(execution, links_);
  additions_.start(execution);
  fused_pass_.start(execution, links_);
  steps_.start(plan);
  first_ = 0;
  local_ = -1;
  ends_ = behind_ = execution.device != nullptr;
  moves_ = behind_ && execution.own_move.bytes > 0;
  if (behind_) [[unlikely]] {
    out_.clear(), in_.clear(), arrived_.clear();
    rings_ = false;
  }
}

Status QueuedExecutor::step(Iteration& iteration) {
  room_ = kIterationBytes;
  if (execution_->device) [[unlikely]]
    serve_device(iteration.progressed);
  if (!agreed_)
    if (Status s = agree(iteration.progressed); !s) return s;
  if (moves_ && agreed_ && !behind_) [[unlikely]]
    if (Status s = begin_own_move(iteration.progressed); !s) return s;
  if (running())
    if (Status s = run_ready(iteration.progressed); !s) return s;
  if (Status s = serve_links(iteration.progressed); !s) {
    // A fingerprint that differs explains why its sender has left.
    if (!agreed_)
      if (Status different = agreement_->check(); !different) return different;
    return s;
  }
  if (!running()) return {};
  if (Status s = run_ready(iteration.progressed); !s) return s;
  if (execution_->device)
    if (Status s = end_device(); !s) return s;
  if (!agreed_ || steps_.left() > 0 || ends_) return {};
  for (const QueuedLink& link : links_)
    if (link.outstanding()) return {};
  agreement_->finish();
  iteration.progressed = iteration.finished = true;
  return {};
}

Status QueuedExecutor::agree(bool& progressed) {
  if (Status s = agreement_->step(progressed, agreed_); !s) return s;
  if (agreed_) steps_.agreed();
  return {};
}

// Before the agreement only what comes behind the right fingerprint.
bool QueuedExecutor::may_receive(const QueuedLink& link) const {
  return agreed_ || agreement_->heard(static_cast<size_t>(&link - links_.data()));
}

Status QueuedExecutor::serve_links(bool& progressed) {
  for (size_t served = 0; served < links_.size(); ++served) {
    if (first_ >= links_.size()) first_ = 0;
    QueuedLink& link = links_[first_++];
    if (Status s = serve(link, progressed); !s) return s;
    // The others have their turn in the next iteration.
    if (!room_left() || (link.open() && link.totals->more)) return {};
  }
  return {};
}

Status QueuedExecutor::serve(QueuedLink& link, bool& progressed) {
  if (!delayed_)
    if (Status s = post_sends(link, progressed); !s) return s;
  if (running() && may_receive(link))
    if (Status s = post_receives(link, progressed); !s) return s;
  return link.open() ? poll(link, progressed) : Status();
}

Status QueuedExecutor::post_sends(QueuedLink& link, bool& progressed) {
  const auto& sends = link.queue->sends;
  if (link.preambles_out < link.queue->preambles_out) return {};
  while (link.sends_posted < sends.size() && !steps_.waits(sends[link.sends_posted])) {
    const int32_t index = sends[link.sends_posted];
    const BoundStep& step = execution_->plan->steps[index];
    const bool encoded = step.wire != WireFormat::exact;
    if (encoded && link.sends_done < static_cast<size_t>(step.staged_after)) return {};
    ++link.sends_posted;
    progressed = true;
    note_posted(index);
    if (Status s = post_send(link, step); !s) return at_step(s.error(), index);
    if (encoded) return {};  // one at a time: it leaves before the next is encoded
  }
  return {};
}

Status QueuedExecutor::post_send(QueuedLink& link, const BoundStep& step) {
  if (step.wire != WireFormat::exact)
    return link.link->post_send(encode_message(*execution_, step), step.message_bytes);
  std::byte* const data = execution_->at(step.src);
  if (step.put < 0) return link.link->post_send(data, step.bytes);
  const uint64_t put = link.base.received + link.queue->preambles_in + step.put;
  return link.link->post_exposed(data, step.bytes, put);
}

// Each operand of a fusion would wait for the one before. Read in place, they write nothing, so all
// are posted with the first.
bool QueuedExecutor::postable(int32_t receive) const {
  if (!steps_.waits(receive)) return true;
  const Plan& plan = *execution_->plan;
  const int32_t fusion = plan.fusions.of_step[receive];
  return fusion >= 0 && !steps_.waits(plan.fusions.list[fusion].receives[0]);
}

Status QueuedExecutor::post_receives(QueuedLink& link, bool& progressed) {
  const auto& receives = link.queue->receives;
  while (link.receives_posted < receives.size() && postable(receives[link.receives_posted])) {
    const int32_t index = receives[link.receives_posted++];
    const BoundStep& step = execution_->plan->steps[index];
    progressed = true;
    note_posted(index);
    Status s = goes_to_its_place(step) ? link.link->post_recv(execution_->at(step.dst), step.bytes)
                                       : link.link->post_incoming(step.message_bytes);
    if (!s) return at_step(s.error(), index);
  }
  return {};
}

// An error counts only if something is still expected from this peer: one that has finished and
// left is no error.
Status QueuedExecutor::poll(QueuedLink& link, bool& progressed) {
  while (true) {
    const Completions before = *link.totals;
    const size_t room = room_;
    Status s = link.link->poll(*link.totals);
    bool again = link.totals->sent != before.sent || link.totals->received != before.received;
    complete_messages(link);
    again |= take_in_place(link);
    progressed |= again || link.totals->more || room_ < room;
    if (!s) {
      if (!link.outstanding()) return {};
      const auto& receives = link.queue->receives;
      return link.receives_done < receives.size() ? at_step(s.error(), receives[link.receives_done])
                                                  : std::move(s);
    }
    if (!again || link.totals->more || !room_left()) return {};
  }
}

void QueuedExecutor::complete_messages(QueuedLink& link) {
  while (link.sends_done + link.preambles_out < link.sent())
    complete(link.queue->sends[link.sends_done++]);
  while (link.receives_done + link.preambles_in < link.received())
    complete(link.queue->receives[link.receives_done++]);
}

void QueuedExecutor::complete(int32_t step) {
  if (execution_->times) [[unlikely]]
    execution_->times->completed(step);
  steps_.complete(step);
}

bool QueuedExecutor::take_in_place(QueuedLink& link) {
  const Plan& plan = *execution_->plan;
  const auto& receives = link.queue->receives;
  for (bool moved = false;; moved = true) {
    while (link.in_place < link.receives_posted &&
           goes_to_its_place(plan.steps[receives[link.in_place]]))
      ++link.in_place;
    if (link.in_place >= link.receives_posted || !room_left()) return moved;
    const std::span<const std::byte> piece = link.link->incoming();
    if (piece.empty() || !take_piece(link, piece)) return moved;
  }
}

// False: it must wait.
bool QueuedExecutor::take_piece(QueuedLink& link, std::span<const std::byte> piece) {
  const Plan& plan = *execution_->plan;
  const int32_t index = link.queue->receives[link.in_place];
  const BoundStep& step = plan.steps[index];
  if (plan.fusions.of_step[index] >= 0 && link.in_place_offset == 0) {
    const FusedPass::Attempt attempt = fused_pass_.attempt(plan.fusions.of_step[index], room_);
    if (attempt != FusedPass::Attempt::one_by_one) return attempt == FusedPass::Attempt::done;
  }
  if (steps_.waits(index)) return false;  // posted early, for a fusion
  piece = piece.first(slice(piece.size(), room_));
  take_room(piece.size());
  if (step.wire == WireFormat::exact)
    additions_.add(step, link.in_place_offset, piece);
  else
    decode_piece(*execution_, additions_, step, execution_->at(link.queue->cut),
                 link.in_place_offset, piece);
  link.link->consume(piece.size());
  link.in_place_offset += piece.size();
  if (link.in_place_offset < step.message_bytes) return true;
  ++link.in_place;
  link.in_place_offset = 0;
  return true;
}

Status QueuedExecutor::run_ready(bool& progressed) {
  const Plan& plan = *execution_->plan;
  for (bool ran = true; ran && room_left(); progressed |= ran)
    if (Status s = run_slice(ran); !s) return s;
  if (!room_left()) return {};
  const int32_t rounding = steps_.take_rounding();
  if (rounding < 0) return {};
  progressed = true;
  note_posted(rounding);
  round_in_place(*execution_, plan.steps[rounding]);
  complete(rounding);
  return {};
}

// Runs the next part of a local step, if one may run.
Status QueuedExecutor::run_slice(bool& ran) {
  const Plan& plan = *execution_->plan;
  ran = true;
  if (local_ < 0 && !arrived_.empty()) {
    local_ = arrived_.back();
    arrived_.pop_back();
    local_done_ = 0;
  } else if (local_ < 0) {
    local_ = steps_.take();
    local_done_ = 0;
    ran = local_ >= 0;
    if (!ran) return {};
    const BoundStep& step = plan.steps[local_];
    if (step.peer >= 0) {
      steps_.complete(std::exchange(local_, -1));
      return {};
    }
    note_posted(local_);
    if (execution_->device && step.device != DeviceCopy::none)
      return begin_copy(std::exchange(local_, -1));
  }
  const BoundStep& step = plan.steps[local_];
  const size_t before = local_done_;
  local_done_ = run_local(*execution_, additions_, step, before, room_);
  take_room(local_done_ - before);
  if (local_done_ == step.bytes) complete(std::exchange(local_, -1));
  return {};
}

// ---- memory of a device -------------------------------------------------------------------------

void QueuedExecutor::serve_device(bool& progressed) {
  const DeviceCopies& device = *execution_->device;
  if (behind_) {
    behind_ = !device.has_come(execution_->entered);
    if (behind_) return;
    progressed = true;
  }
  const std::vector<BoundStep>& steps = execution_->plan->steps;
  const auto complete_done = [&](Direction& direction, auto is_done) {
    while (direction.left() > 0 && is_done(direction.begun[direction.done].ticket)) {
      const int32_t step = direction.begun[direction.done++].step;
      if (step >= 0 && steps[step].premultiplies)
        arrived_.push_back(step);
      else if (step >= 0)
        complete(step);
      progressed = true;
    }
  };
  complete_done(out_, [&](DeviceCopies::Ticket ticket) { return device.out_done(ticket); });
  complete_done(in_, [&](DeviceCopies::Ticket ticket) { return device.in_done(ticket); });
}

Status QueuedExecutor::begin_copy(int32_t index) {
  const BoundStep& step = execution_->plan->steps[index];
  DeviceCopies& device = *execution_->device;
  std::byte *const to = execution_->at(step.dst), *const from = execution_->at(step.src);
  const bool out = step.device == DeviceCopy::out;
  auto ticket = out ? device.copy_out(to, from, step.bytes) : device.copy_in(to, from, step.bytes);
  if (!ticket) return at_step(std::move(ticket.error()), index);
  (out ? out_ : in_).begun.push_back({index, *ticket});
  rings_ = true;
  return {};
}

// The plan's copies out come behind it in their stream, so they need not wait for it here.
Status QueuedExecutor::begin_own_move(bool& progressed) {
  auto ticket = execution_->device->copy_within(execution_->own_move);
  if (!ticket) return std::move(ticket.error());
  out_.begun.push_back({-1, *ticket});
  moves_ = delayed_ = false;
  rings_ = progressed = true;
  return {};
}

// What is left are copies in, so nothing of the operation is begun after this.
Status QueuedExecutor::end_device() {
  DeviceCopies& device = *execution_->device;
  if (std::exchange(rings_, false))
    if (Status s = device.ring_when_done(); !s) return s;
  if (!ends_ || !agreed_ || moves_ || out_.left() > 0 || steps_.left() > in_.left()) return {};
  ends_ = false;
  return device.end(execution_->entered);
}

void QueuedExecutor::drop() noexcept {
  if (std::exchange(ends_, false)) execution_->device->abandon(execution_->entered);
  behind_ = false;
}

void QueuedExecutor::add_waits(WaitList& waits) const {
  const Plan& plan = *execution_->plan;
  if (waits_for_stream())
    waits.add_device("the stream has not come to this call");
  else if (out_.left() + in_.left() > 0)
    waits.add_device("copies");
  agreement_->add_waits(waits);
  for (const QueuedLink& link : links_)
    if (link.receives_done < link.receives_posted)
      waits.add_message(link.queue->peer, plan, link.queue->receives[link.receives_done]);
    else if (link.sends_done < link.sends_posted)
      waits.add_message(link.queue->peer, plan, link.queue->sends[link.sends_done]);
}

int QueuedExecutor::waits_for() const {
  if (const int peer = agreed_ ? -1 : agreement_->waits_for(); peer >= 0) return peer;
  for (const QueuedLink& link : links_)
    if (link.receives_done < link.receives_posted) return link.queue->peer;
  return -1;
}

}  // namespace ringwood
