#include <algorithm>

#include "collectives/checker/replay.h"

namespace ringwood {
namespace {

// All sends leave at the start; then each rank's steps run in their order.
class OneRoundReplay {
 public:
  OneRoundReplay(const PlanSet& set, const ReplayOrder& order, std::vector<ReplayMemory>& memory)
      : set_(set), order_(order), memory_(memory), n_(static_cast<size_t>(set.n())) {
    // Eager slots contain copies of what is sent.
    if (set.of(0).protocol == Protocol::eager_slots) order_.late = false;
    cursor_.assign(n_, 0);
    taken_.assign(n_ * n_, 0);
    early_.resize(n_ * n_);
    for (size_t r = 0; r < n_; ++r)
      for (size_t p = 0; p < n_; ++p)
        if (const BoundStep* send = sent(r, p))
          early_[r * n_ + p] = memory[r].read(send->src, send->bytes);
  }

  PlanFlaw run() {
    for (bool moved = true; moved && !flaw_;) {
      moved = false;
      for (size_t r = 0; r < n_; ++r)
        while (!flaw_ && advance(r)) moved = true;
    }
    for (size_t r = 0; r < n_ && !flaw_; ++r)
      if (cursor_[r] < plan(r).steps.size())
        flaw_ = "deadlock: " + plan_step_words(set_, static_cast<int>(r), cursor_[r]) +
                " is never reached";
    return flaw_;
  }

 private:
  const Plan& plan(size_t r) const { return *set_.plans[r]; }
  const BoundStep* sent(size_t from, size_t to) const {
    const int32_t step = plan(from).one_round.sends[to];
    return step < 0 ? nullptr : &plan(from).steps[static_cast<size_t>(step)];
  }
  // Whether a message of r has still to be read in place.
  bool sending(size_t r) const {
    for (size_t p = 0; p < n_; ++p)
      if (sent(r, p) && !taken_[r * n_ + p]) return true;
    return false;
  }

  bool advance(size_t r) {
    const std::vector<BoundStep>& steps = plan(r).steps;
    if (cursor_[r] >= steps.size()) return false;
    const BoundStep& step = steps[cursor_[r]];
    const bool nothing = step.bytes == 0 || step.kind == StepKind::send;
    if (!nothing && order_.late && cursor_[r] >= plan(r).one_round.sends_until && sending(r))
      return false;
    if (!nothing && !carry_out(r, step)) return false;
    ++cursor_[r];
    return true;
  }

  bool carry_out(size_t r, const BoundStep& step) {
    if (step.peer < 0) {
      check_read(r, step.src, step.bytes);
      if (step.kind == StepKind::reduce) check_read(r, step.dst, step.bytes);
      if (!flaw_) memory_[r].run(step);
      return true;
    }
    const auto from = static_cast<size_t>(step.peer);
    const BoundStep* const send = sent(from, r);
    if (!send) return false;
    const SymbolRun run =
        order_.late ? memory_[from].read(send->src, send->bytes) : early_[from * n_ + r];
    taken_[from * n_ + r] = 1;
    if (step.kind == StepKind::recv && step.folds && order_.fuses && !sending(r)) {
      memory_[r].add(plan(r).steps[cursor_[r] + 1], run);
      ++cursor_[r];
      return true;
    }
    if (!defined(run)) flaw_ = words(r) + " receives bytes that were never written";
    if (step.kind == StepKind::recv) {
      memory_[r].write(step.dst, run);
      return true;
    }
    check_read(r, step.dst, step.bytes);
    if (!flaw_) memory_[r].add(step, run);
    return true;
  }

  std::string words(size_t r) const {
    return plan_step_words(set_, static_cast<int>(r), cursor_[r]);
  }
  void check_read(size_t r, const Place& place, size_t bytes) {
    if (!flaw_ && !defined(memory_[r].read(place, bytes)))
      flaw_ = words(r) + " reads bytes that were never written";
  }

  const PlanSet& set_;
  ReplayOrder order_;
  std::vector<ReplayMemory>& memory_;
  const size_t n_;
  std::vector<size_t> cursor_;
  std::vector<char> taken_;       // by sender and receiver
  std::vector<SymbolRun> early_;  // likewise
  PlanFlaw flaw_;
};

}  // namespace

PlanFlaw replay_one_round(const PlanSet& set, const ReplayOrder& order, Symbols&,
                          std::vector<ReplayMemory>& memory) {
  return OneRoundReplay(set, order, memory).run();
}

}  // namespace ringwood
