#include "collectives/executors/fused_pass.h"

#include <algorithm>

namespace ringwood {

void FusedPass::start(const PlanExecution& execution, std::span<QueuedLink> links) {
  execution_ = &execution;
  links_ = links;
  one_by_one_.assign(execution.plan->fusions.list.size(), 0);
  done_.assign(execution.plan->fusions.list.size(), 0);
  waiting_since_ = {};
}

FusedPass::Attempt FusedPass::attempt(int32_t number, size_t& room) {
  if (one_by_one_[number]) return Attempt::one_by_one;
  const Fusion& fusion = execution_->plan->fusions.list[number];
  Attempt attempt = gather(fusion);
  if (attempt == Attempt::done && !carry_out(fusion, done_[number], room))
    attempt = Attempt::one_by_one;
  // A peer has given up, as its link says when it is polled. What is added up already must not be
  // added again.
  if (attempt == Attempt::one_by_one && done_[number] > 0) return Attempt::waiting;
  one_by_one_[number] = attempt == Attempt::one_by_one;
  if (attempt != Attempt::done) return attempt;
  const size_t bytes = execution_->plan->steps[fusion.receives[0]].bytes;
  if (done_[number] < bytes) return Attempt::waiting;
  pass_on(fusion, bytes);
  return Attempt::done;
}

// Whether the operand of the fusion's peer number `k` has arrived and can be put back in place.
FusedPass::Operand FusedPass::look(const Fusion& fusion, size_t k) {
  const BoundStep& step = execution_->plan->steps[fusion.receives[k]];
  QueuedLink& link = links_[fusion.queues[k]];
  if (link.in_place >= link.receives_posted ||
      link.queue->receives[link.in_place] != fusion.receives[k])
    return Operand::absent;
  const std::span<const std::byte> piece = link.link->incoming();
  if (piece.empty()) return Operand::absent;
  if (link.in_place_offset != 0 || piece.size() != step.bytes) return Operand::not_in_place;
  const uint64_t number = static_cast<uint64_t>(link.queue->preambles_out) + fusion.numbers[k];
  std::byte* const place = link.link->put_place(link.base.sent + number);
  if (!place) return Operand::not_in_place;
  // The messages that precede the put on this link must have been posted.
  if (link.sends_posted != static_cast<size_t>(fusion.numbers[k])) return Operand::absent;
  operands_.push_back(piece.data());
  places_.push_back(place);
  return Operand::present;
}

// `done`: all operands are in operands_.
FusedPass::Attempt FusedPass::gather(const Fusion& fusion) {
  void* const own = execution_->at(execution_->plan->steps[fusion.receives[0]].dst);
  places_.assign(1, own);
  operands_.assign(1, own);
  for (size_t k = 0; k < fusion.receives.size(); ++k) {
    const Operand operand = look(fusion, k);
    if (operand == Operand::present) continue;
    if (operand == Operand::not_in_place) return Attempt::one_by_one;
    const auto now = Clock::now();
    if (waiting_since_ == Clock::time_point{}) waiting_since_ = now;
    return now - waiting_since_ > fusion.patience ? Attempt::one_by_one : Attempt::waiting;
  }
  waiting_since_ = {};
  return Attempt::done;
}

bool FusedPass::carry_out(const Fusion& fusion, size_t& done, size_t& room) {
  const Plan& plan = *execution_->plan;
  size_t begun = 0;
  while (begun < fusion.queues.size() && links_[fusion.queues[begun]].link->begin_put()) ++begun;
  const bool all = begun == fusion.queues.size();
  if (all) {
    const size_t bytes = slice(plan.steps[fusion.receives[0]].bytes - done, room);
    for (void*& place : places_) place = static_cast<std::byte*>(place) + done;
    for (const void*& operand : operands_) operand = static_cast<const std::byte*>(operand) + done;
    additions_.add_fused(fusion, places_, operands_, bytes / plan.element);
    done += bytes;
    room -= std::min(room, bytes);
  }
  for (size_t k = 0; k < begun; ++k) links_[fusion.queues[k]].link->end_put();
  return all;
}

void FusedPass::pass_on(const Fusion& fusion, size_t bytes) {
  ++count_;
  for (const int32_t queue : fusion.queues) {
    QueuedLink& link = links_[queue];
    link.link->consume(bytes);
    ++link.in_place;
    ++link.sends_posted;
    (void)link.link->post_put(bytes);  // a link that has failed says so when it is polled
  }
}

}  // namespace ringwood
