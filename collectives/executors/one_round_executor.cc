#include "collectives/executors/one_round_executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ringwood {

void OneRoundExecutor::start(const PlanExecution& execution) {
  execution_ = &execution;
  delayed_ = execution.delay_sends;
  agreed_ = begun_ = folded_ = false;
  next_ = 0;
  talks_.clear();
  for (const PeerQueue& queue : execution.plan->peers) {
    talks_.emplace_back(mesh_, channel_, queue);
    talks_.back().mine.fingerprint = fingerprint_to(execution, queue.peer);
  }
  additions_.start(execution);
}

Status OneRoundExecutor::step(Iteration& iteration) {
  if (!begun_)
    if (Status s = post_preambles(iteration.progressed); !s) return s;
  if (!delayed_)
    if (Status s = post_data(); !s) return s;
  if (!agreed_)
    if (Status s = hear_all(iteration.progressed); !s) return s;
  if (!agreed_) return push();
  return delayed_ ? Status() : run(iteration);
}

// Posts the preambles, with the data in them where the plan says so, unless it must wait for
// the agreement.
Status OneRoundExecutor::post_preambles(bool& progressed) {
  begun_ = progressed = true;
  for (Talk& talk : talks_) {
    const auto& sends = talk.queue->sends;
    if (!delayed_ && !sends.empty() && execution_->plan->steps[sends[0]].carried) {
      const BoundStep& step = execution_->plan->steps[sends[0]];
      std::memcpy(talk.mine.payload, execution_->at(step.src), step.bytes);
      talk.mine.carries = 1;
      if (execution_->times) execution_->times->posted(sends[0]);
    }
    talk.preambles_out = talk.preambles_in = 1;
    if (Status s = talk.link->post_send(&talk.mine, sizeof talk.mine); !s) return s;
    if (Status s = talk.link->post_incoming(sizeof(Preamble)); !s) return s;
  }
  return {};
}

Status OneRoundExecutor::post_data() {
  for (Talk& talk : talks_) {
    const auto& sends = talk.queue->sends;
    if (sends.empty() || talk.mine.carries || talk.sends_posted > 0) continue;
    const BoundStep& step = execution_->plan->steps[sends[0]];
    talk.sends_posted = 1;
    if (execution_->times) execution_->times->posted(sends[0]);
    if (Status s = talk.link->post_send(execution_->at(step.src), step.bytes); !s)
      return at_step(s.error(), sends[0]);
  }
  return {};
}

Status OneRoundExecutor::hear_all(bool& progressed) {
  bool all = true;
  for (Talk& talk : talks_) {
    if (talk.heard) continue;
    if (Status s = hear(talk, progressed); !s) return s;
    all = all && talk.heard;
  }
  agreed_ = all;
  return {};
}

Status OneRoundExecutor::hear(Talk& talk, bool& progressed) {
  auto* const bytes = reinterpret_cast<std::byte*>(&talk.theirs);
  std::span<const std::byte> piece = talk.link->incoming();
  if (piece.empty()) {
    Status s = talk.link->poll(*talk.totals);
    piece = talk.link->incoming();
    if (piece.empty() && !s) return s;
  }
  for (; !piece.empty() && talk.offset < sizeof(Preamble); piece = talk.link->incoming()) {
    std::memcpy(bytes + talk.offset, piece.data(), piece.size());
    talk.offset += piece.size();
    talk.link->consume(piece.size());
  }
  if (talk.offset < sizeof(Preamble)) return {};
  progressed = talk.heard = true;
  talk.offset = 0;
  const int peer = talk.queue->peer;
  const Fingerprint& theirs = talk.theirs.fingerprint;
  if (theirs != execution_->fingerprint) {
    const Fingerprint expected = fingerprint_from(*execution_, peer, theirs);
    if (Status s = check_fingerprint(expected, mesh_.rank, theirs, peer); !s) return s;
  }
  const auto& receives = talk.queue->receives;
  if (receives.empty() || talk.theirs.carries) return {};
  talk.receives_posted = 1;
  Status s = talk.link->post_incoming(execution_->plan->steps[receives[0]].bytes);
  return s ? std::move(s) : Status(at_step(s.error(), receives[0]));
}

// Polls the links for which `open` is true; `none` tells whether it is true of none any more. A
// peer that has finished and left is no error.
Status OneRoundExecutor::poll_open(bool (PeerLink::*open)() const, bool& none) {
  none = true;
  for (Talk& talk : talks_) {
    if (!(talk.*open)()) continue;
    Status s = talk.link->poll(*talk.totals);
    if (!(talk.*open)()) continue;
    if (!s) return s;
    none = false;
  }
  return {};
}

// While this rank waits for one link, what was posted on the others must make progress.
Status OneRoundExecutor::push() {
  bool none = false;
  return poll_open(&PeerLink::outstanding, none);
}

Status OneRoundExecutor::run(Iteration& iteration) {
  const Plan& plan = *execution_->plan;
  bool none = false;
  for (; next_ < plan.steps.size(); ++next_) {
    const BoundStep& step = plan.steps[next_];
    if (step.bytes == 0 || step.kind == StepKind::send) continue;
    if (next_ >= plan.one_round.sends_until)
      if (Status s = poll_open(&PeerLink::sending, none); !s || !none) return s;
    if (step.peer < 0) {
      if (!std::exchange(folded_, false)) run_local(*execution_, additions_, step, 0, step.bytes);
      continue;
    }
    if (Status s = receive(next_, iteration.progressed); !s) return s;
    if (!talk_with(step.peer).taken) return push();
    if (execution_->times) execution_->times->completed(static_cast<int32_t>(next_));
  }
  if (Status s = poll_open(&PeerLink::outstanding, none); !s || !none) return s;
  if (execution_->times) note_sent();
  iteration.progressed = iteration.finished = true;
  return {};
}

// Nobody has looked when each of them was sent.
void OneRoundExecutor::note_sent() {
  for (const Talk& talk : talks_)
    if (const auto& sends = talk.queue->sends; !sends.empty())
      execution_->times->completed(sends[0]);
}

OneRoundExecutor::Talk& OneRoundExecutor::talk_with(int peer) {
  return *std::find_if(talks_.begin(), talks_.end(),
                       [&](const Talk& talk) { return talk.queue->peer == peer; });
}

bool OneRoundExecutor::any_sending() const {
  return std::any_of(talks_.begin(), talks_.end(), [](const Talk& t) { return t.sending(); });
}

// The destination of a fold may still be being sent; the sum then goes through the scratch.
void OneRoundExecutor::take(Talk& talk, size_t index, std::span<const std::byte> piece) {
  const Plan& plan = *execution_->plan;
  const BoundStep& step = plan.steps[index];
  if (talk.offset == 0) folded_ = step.folds && !any_sending();
  if (folded_)
    additions_.add(plan.steps[index + 1], talk.offset, piece);
  else if (step.kind == StepKind::recv)
    std::memcpy(execution_->at(step.dst) + talk.offset, piece.data(), piece.size());
  else
    additions_.add(step, talk.offset, piece);
  talk.offset += piece.size();
  talk.taken = talk.offset == step.bytes;
}

Status OneRoundExecutor::receive_carried(Talk& talk, size_t index) {
  const BoundStep& step = execution_->plan->steps[index];
  if (step.carried) {
    take(talk, index, {talk.theirs.payload, step.bytes});
    return {};
  }
  Error error(ErrorCode::internal, "the peer's preamble carries data that cannot fit");
  error.peer = step.peer;
  return error;
}

// Consumes what has arrived of one message.
Status OneRoundExecutor::receive(size_t index, bool& progressed) {
  const BoundStep& step = execution_->plan->steps[index];
  Talk& talk = talk_with(step.peer);
  if (talk.theirs.carries) return receive_carried(talk, index);
  while (!talk.taken) {
    std::span<const std::byte> piece = talk.link->incoming();
    if (piece.empty()) {
      Status s = talk.link->poll(*talk.totals);
      piece = talk.link->incoming();
      if (piece.empty())
        return s ? std::move(s) : Status(at_step(s.error(), static_cast<int32_t>(index)));
    }
    take(talk, index, piece);
    talk.link->consume(piece.size());
    progressed = true;
  }
  return {};
}

int OneRoundExecutor::waits_for() const {
  for (const Talk& talk : talks_)
    if ((talk.preambles_in > 0 && !talk.heard) || (talk.receives_posted > 0 && !talk.taken))
      return talk.queue->peer;
  return -1;
}

void OneRoundExecutor::add_waits(WaitList& waits) const {
  const Plan& plan = *execution_->plan;
  for (const Talk& talk : talks_) {
    const int peer = talk.queue->peer;
    if (talk.preambles_in > 0 && !talk.heard)
      waits.add_fingerprint(peer);
    else if (talk.receives_posted > 0 && !talk.taken)
      waits.add_message(peer, plan, talk.queue->receives[0]);
    else if (talk.sends_posted > 0 && talk.sending())
      waits.add_message(peer, plan, talk.queue->sends[0]);
  }
}

}  // namespace ringwood
