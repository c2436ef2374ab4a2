#include "collectives/executors/fused_pass.h"

namespace ringwood {

void FusedPass::start(const PlanExecution& execution, std::span<QueuedLink> links) {
  execution_ = &execution;
  links_ = links;
  one_by_one_.assign(execution.plan->fusions.size(), 0);
  waiting_since_ = {};
}

FusedPass::Verdict FusedPass::attempt(int32_t number) {
  if (one_by_one_[number]) return Verdict::one_by_one;
  const Fusion& fusion = execution_->plan->fusions[number];
  Verdict verdict = gather(fusion);
  if (verdict == Verdict::done && !carry_out(fusion)) verdict = Verdict::one_by_one;
  one_by_one_[number] = verdict == Verdict::one_by_one;
  return verdict;
}

// Whether the operand of the fusion's peer number `k` is there, to be answered where it lies.
FusedPass::Operand FusedPass::look(const Fusion& fusion, size_t k) {
  const BoundStep& step = execution_->plan->steps[fusion.receives[k]];
  QueuedLink& link = links_[fusion.queues[k]];
  if (link.shown >= link.receives_posted || link.queue->receives[link.shown] != fusion.receives[k])
    return Operand::absent;
  const std::span<const std::byte> piece = link.link->incoming();
  if (piece.empty()) return Operand::absent;
  if (link.shown_offset != 0 || piece.size() != step.bytes) return Operand::not_in_place;
  const uint64_t number = static_cast<uint64_t>(link.queue->greets) + fusion.numbers[k];
  std::byte* const place = link.link->answer_place(link.base.sent + number);
  if (!place) return Operand::not_in_place;
  // What goes before the answer on this link must have been posted.
  if (link.sends_posted != static_cast<size_t>(fusion.numbers[k])) return Operand::absent;
  operands_.push_back(piece.data());
  places_.push_back(place);
  return Operand::present;
}

// `done`: all operands are in operands_.
FusedPass::Verdict FusedPass::gather(const Fusion& fusion) {
  const Plan& plan = *execution_->plan;
  void* const own = execution_->at(plan.steps[fusion.receives[0]].dst);
  places_.assign(1, own);
  operands_.assign(1, own);
  for (size_t k = 0; k < fusion.receives.size(); ++k) {
    const Operand operand = look(fusion, k);
    if (operand == Operand::present) continue;
    if (operand == Operand::not_in_place) return Verdict::one_by_one;
    const auto now = Clock::now();
    if (waiting_since_ == Clock::time_point{}) waiting_since_ = now;
    return now - waiting_since_ > plan.fusion_patience ? Verdict::one_by_one : Verdict::waiting;
  }
  waiting_since_ = {};
  return Verdict::done;
}

// False: a peer has given up.
bool FusedPass::carry_out(const Fusion& fusion) {
  const Plan& plan = *execution_->plan;
  size_t begun = 0;
  while (begun < fusion.queues.size() && links_[fusion.queues[begun]].link->begin_answer()) ++begun;
  const bool all = begun == fusion.queues.size();
  const size_t bytes = plan.steps[fusion.receives[0]].bytes;
  if (all) additions_.add_fused(fusion, places_, operands_, bytes / plan.element);
  for (size_t k = 0; k < begun; ++k) links_[fusion.queues[k]].link->end_answer();
  if (all) pass_on(fusion, bytes);
  return all;
}

void FusedPass::pass_on(const Fusion& fusion, size_t bytes) {
  ++count_;
  for (const int32_t queue : fusion.queues) {
    QueuedLink& link = links_[queue];
    link.link->consume(bytes);
    ++link.shown;
    ++link.sends_posted;
    (void)link.link->post_answered(bytes);  // a link that has failed says so when it is polled
  }
}

}  // namespace ringwood
