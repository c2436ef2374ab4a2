// The executor's short way for small messages: everybody's opening and data leave at once, and the
// steps then run in their order, reading what arrives where it lies.
#include <algorithm>
#include <cstring>

#include "collectives/executor.h"

namespace ringwood {

Executor::Run& Executor::run_of(int peer) {
  return *std::find_if(runs_.begin(), runs_.end(),
                       [&](const Run& run) { return run.queue->peer == peer; });
}

// The opening, with the data in it where it is small enough and need not wait for the agreement.
Status Executor::open(Run& run) {
  const Plan& plan = *request_.plan;
  const auto& sends = run.queue->sends;
  if (!held_ && !sends.empty() && plan.steps[sends[0]].bytes <= kCarriedBytes) {
    const BoundStep& step = plan.steps[sends[0]];
    std::memcpy(run.mine.payload, at(step.src), step.bytes);
    run.mine.carries = 1;
  }
  run.greetings_posted = run.hearings_posted = 1;
  if (Status s = run.link->post_send(&run.mine, sizeof run.mine); !s) return s;
  return run.link->post_incoming(sizeof(Opening));
}

Status Executor::send_payloads() {
  for (Run& run : runs_) {
    const auto& sends = run.queue->sends;
    if (sends.empty() || run.mine.carries || run.sends_posted > 0) continue;
    const BoundStep& step = request_.plan->steps[sends[0]];
    run.sends_posted = 1;
    if (Status s = run.link->post_send(at(step.src), step.bytes); !s)
      return at_step(s.error(), sends[0]);
  }
  return {};
}

Status Executor::hear_openings(bool& all, bool& progressed) {
  for (Run& run : runs_) {
    if (run.heard == 1) continue;
    Opening& theirs = run.theirs[0];
    auto* const bytes = reinterpret_cast<std::byte*>(&theirs);
    std::span<const std::byte> piece = run.link->incoming();
    if (piece.empty()) {
      Status s = run.link->poll(mesh_.totals[run.queue->peer]);
      piece = run.link->incoming();
      if (piece.empty() && !s) return s;
    }
    for (; !piece.empty() && run.shown_offset < sizeof(Opening); piece = run.link->incoming()) {
      std::memcpy(bytes + run.shown_offset, piece.data(), piece.size());
      run.shown_offset += piece.size();
      run.link->consume(piece.size());
    }
    if (run.shown_offset < sizeof(Opening)) {
      all = false;
      continue;
    }
    progressed = true;
    run.shown_offset = 0;
    if (theirs.fingerprint == request_.fingerprint) [[likely]]
      run.heard = 1;
    else if (Status s = hear(run); !s)
      return s;
    const auto& receives = run.queue->receives;
    if (receives.empty() || theirs.carries) continue;
    run.receives_posted = 1;
    const size_t expected = request_.plan->steps[receives[0]].bytes;
    if (Status s = run.link->post_incoming(expected); !s) return at_step(s.error(), receives[0]);
  }
  return {};
}

// Polls the links of which `open` holds; `none` tells whether it holds of none any more. A peer
// that has finished and left is no fault.
Status Executor::settle(bool (Executor::*open)(const Run&) const, bool& none) {
  none = true;
  for (Run& run : runs_) {
    if (!(this->*open)(run)) continue;
    Status s = run.link->poll(mesh_.totals[run.queue->peer]);
    if (!(this->*open)(run)) continue;
    if (!s) return s;
    none = false;
  }
  return {};
}

// While one link is waited for, what was posted on the others must go on its way.
Status Executor::push() {
  bool none = false;
  return settle(&Executor::outstanding, none);
}

// Takes what has come of one message.
Status Executor::receive(const BoundStep& step, int32_t index, bool& finished, bool& progressed) {
  Run& run = run_of(step.peer);
  // What it is added to may still be on its way out; then it goes through the scratch.
  const auto may_fold = [&] {
    return step.folds && std::none_of(runs_.begin(), runs_.end(),
                                      [&](const Run& other) { return sending(other); });
  };
  const auto take = [&](size_t offset, std::span<const std::byte> piece) {
    if (offset == 0) folded_ = may_fold();
    if (folded_)
      reduce_piece(request_.plan->steps[static_cast<size_t>(index) + 1], offset, piece);
    else if (step.kind == StepKind::recv)
      std::memcpy(at(step.dst) + offset, piece.data(), piece.size());
    else
      reduce_piece(step, offset, piece);
  };
  if (run.theirs[0].carries) {
    if (step.bytes > kCarriedBytes) {
      Error error(ErrorCode::internal, "the peer's opening carries data that cannot fit");
      error.peer = step.peer;
      return error;
    }
    take(0, {run.theirs[0].payload, step.bytes});
    run.shown_offset = step.bytes;
  }
  while (run.shown_offset < step.bytes) {
    std::span<const std::byte> piece = run.link->incoming();
    if (piece.empty()) {
      Status s = run.link->poll(mesh_.totals[step.peer]);
      piece = run.link->incoming();
      if (piece.empty()) return s ? std::move(s) : Status(at_step(s.error(), index));
    }
    take(run.shown_offset, piece);
    run.shown_offset += piece.size();
    run.link->consume(piece.size());
    progressed = true;
  }
  run.receives_done = run.receives_posted;
  finished = true;
  return {};
}

Status Executor::step_one_round(bool& progressed) {
  const Plan& plan = *request_.plan;
  if (exchanged_ == 0) {
    exchanged_ = 1;
    progressed = true;
    for (Run& run : runs_)
      if (Status s = open(run); !s) return s;
  }
  if (!held_)
    if (Status s = send_payloads(); !s) return s;
  if (!agreed_) {
    bool all = true;
    if (Status s = hear_openings(all, progressed); !s) return s;
    if (!all) return push();
    agreed_ = true;
  }
  if (held_) return {};
  for (; cursor_ < plan.steps.size(); ++cursor_) {
    const BoundStep& step = plan.steps[cursor_];
    if (step.bytes == 0 || step.kind == StepKind::send) continue;
    if (cursor_ >= plan.sends_until) {
      bool none = false;
      if (Status s = settle(&Executor::sending, none); !s || !none) return s;
    }
    if (step.peer < 0) {
      if (!folded_) run_local(step);
      folded_ = false;
      continue;
    }
    bool finished = false;
    if (Status s = receive(step, static_cast<int32_t>(cursor_), finished, progressed); !s) return s;
    if (!finished) return push();
  }
  bool none = false;
  if (Status s = settle(&Executor::outstanding, none); !s || !none) return s;
  request_.plan = nullptr;
  progressed = true;
  return {};
}

}  // namespace ringwood
