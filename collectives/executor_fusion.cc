// The executor's one pass for a reduction whose operands all lie in memory that can be read and
// answered in place (fusion.h).

#include "collectives/executor.h"

namespace ringwood {
namespace {

// Operands of some peers are held back while others' are awaited. In a schedule where those depend
// on these, that would be for ever: after so long the steps are carried out one by one.
constexpr auto kPatience = std::chrono::milliseconds(50);

}  // namespace

// Whether peer number `k`'s operand is there, to be answered where it lies.
bool Executor::ready(const Fusion& fusion, size_t k, Fused& verdict) {
  const BoundStep& step = request_.plan->steps[fusion.receives[k]];
  Run& run = runs_[fusion.queues[k]];
  verdict = Fused::waiting;
  if (run.shown >= run.receives_posted || run.queue->receives[run.shown] != fusion.receives[k])
    return false;
  const std::span<const std::byte> piece = run.link->incoming();
  if (piece.empty()) return false;
  verdict = Fused::impossible;
  if (run.shown_offset != 0 || piece.size() != step.bytes) return false;
  const uint64_t number = static_cast<uint64_t>(greets(run)) + fusion.numbers[k];
  std::byte* const place = run.link->answer_place(run.base.sent + number);
  if (!place) return false;
  verdict = Fused::waiting;  // for what goes before the answer on this link
  if (run.sends_posted != static_cast<size_t>(fusion.numbers[k])) return false;
  operands_.push_back(piece.data());
  places_.push_back(place);
  return true;
}

Executor::Fused Executor::fuse(const Fusion& fusion) {
  void* const own = at(request_.plan->steps[fusion.receives[0]].dst);
  places_.assign(1, own);
  operands_.assign(1, own);
  for (size_t k = 0; k < fusion.receives.size(); ++k) {
    Fused verdict;
    if (ready(fusion, k, verdict)) continue;
    if (verdict == Fused::impossible) return verdict;
    const auto now = Clock::now();
    if (held_back_ == Clock::time_point{}) held_back_ = now;
    return now - held_back_ > kPatience ? Fused::impossible : Fused::waiting;
  }
  held_back_ = {};
  return carry_out(fusion) ? Fused::done : Fused::impossible;
}

bool Executor::carry_out(const Fusion& fusion) {
  const Plan& plan = *request_.plan;
  size_t begun = 0;
  while (begun < fusion.queues.size() && runs_[fusion.queues[begun]].link->begin_answer()) ++begun;
  const bool all = begun == fusion.queues.size();
  const size_t bytes = plan.steps[fusion.receives[0]].bytes;
  if (all) add_fused(fusion, bytes / plan.element);
  for (size_t k = 0; k < begun; ++k) runs_[fusion.queues[k]].link->end_answer();
  if (!all) return false;
  ++fused_;
  for (size_t k = 0; k < fusion.queues.size(); ++k) {
    Run& run = runs_[fusion.queues[k]];
    run.link->consume(bytes);
    ++run.shown;
    ++run.sends_posted;
    (void)run.link->post_answered(bytes);  // a link that has failed says so when it is polled
  }
  return true;
}

}  // namespace ringwood
