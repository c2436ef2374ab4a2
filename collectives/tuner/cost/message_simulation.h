// A simulation: what happens to a message, from the steps that send and receive it to the threads
// and machines that move it, and when. That of the cost model (cost.cc) and that of large groups
// (tools/simulation/events.cc) are this one; they differ in how they keep messages and in what
// network they have.
//
// The phases of a message:
//   waiting   for its send step, and for its turn on the link
//   head      its sender prepares it and writes the first piece alone
//   halted    the rest is more than the link takes ahead, and the receiver is not ready
//   body      both ends work on it at the same time
//   alone     the sender writes the rest without the receiver
//   flying    no thread works on it
//   arrived   the receiver may read what is left
//   tail      the receiver reads it
//
// Engine, which derives from it, has these functions. Times are seconds.
//   ends(m)          from, to, send_step, recv_step, next of message m, as in CostMessage
//   price(m)         its CostMessage
//   message_of(r, step), sends(r, step)        -1: the step is local
//   early(r, step)                             it may run before the ranks have agreed
//   local_cost(r, step), own_block_cost(r)     PerByte, of all bytes; nothing: 0
//   agreed(), agreeing()                       as in CostModel
//   steps()          a StepProgress
//   machines()       HostQueues with start_flow()
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <vector>

#include "collectives/tuner/cost/cost_model.h"
#include "collectives/tuner/cost/step_progress.h"
#include "collectives/tuner/cost/threads.h"

namespace ringwood {

template <class Engine>
class MessageSimulation {
 protected:
  MessageSimulation(size_t ranks, size_t messages)
      : threads_(static_cast<int>(ranks)), moving_(messages) {}

  // `heads`: the first messages of the links; `late`: by rank when it calls.
  void begin(const std::vector<int32_t>& heads, const std::vector<double>& late) {
    for (const int32_t m : heads) moving_[m].send_turn = moving_[m].recv_turn = true;
    for (size_t r = 0; r < late.size(); ++r)
      at(late[r], TimerKind::call, static_cast<int32_t>(r), -1);
  }

  // Until nothing is left to happen, or goes_on() is false: whether it was not.
  template <class GoesOn>
  bool run(const GoesOn& goes_on) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    std::vector<CostJob> jobs;
    while (true) {
      const double next =
          std::min(machines().next(), timers_.empty() ? kNever : timers_.top().time);
      if (next == kNever) return true;
      if (!goes_on()) return false;
      machines().advance(std::max(now(), next));
      jobs.clear();
      machines().leave(jobs);
      for (const CostJob& job : jobs) ended(job);
      while (!timers_.empty() && timers_.top().time <= now()) ring();
    }
  }

  double now() { return machines().now(); }

 private:
  enum class TimerKind : uint8_t { call, arrival, delayed, nothing, own_block };
  struct Timer {
    double time;
    uint64_t order;  // of those at the same time
    TimerKind kind;
    int32_t rank, index;  // index: message or step, or -1
    bool operator>(const Timer& b) const {
      return time != b.time ? time > b.time : order > b.order;
    }
  };

  void queue(const CostJob& job) {
    threads_.add(job);
    if (!threads_.busy(job.rank)) next_of(job.rank);
  }

  void at(double time, TimerKind kind, int32_t rank, int32_t index) {
    timers_.push({time, timers_set_++, kind, rank, index});
  }

  void ring() {
    const Timer timer = timers_.top();
    timers_.pop();
    const int r = timer.rank;
    switch (timer.kind) {
      case TimerKind::call: return call(r);
      case TimerKind::delayed: return ready(r, timer.index);
      case TimerKind::nothing: return done(r, timer.index);
      case TimerKind::own_block: {
        const PerByte own = engine().own_block_cost(r);
        return queue({JobKind::own_block, r, -1, own.core, own.memory});
      }
      case TimerKind::arrival:
        moving_[timer.index].phase = Phase::arrived;
        return look(timer.index);
    }
  }

  void call(int r) {
    steps().at_least(r, now());
    if (engine().agreeing() > 0) queue({JobKind::agreeing, r, -1, engine().agreeing(), 0});
    if (engine().own_block_cost(r).core > 0)
      at(std::max(now(), engine().agreed()), TimerKind::own_block, r, -1);
    for (int32_t step = 0; step < steps().steps(r); ++step)
      if (steps().free(r, step)) ready_or_later(r, step);
  }

  void ready_or_later(int r, int32_t step) {
    if (engine().early(r, step) || engine().agreed() <= now()) return ready(r, step);
    at(engine().agreed(), TimerKind::delayed, r, step);
  }

  void ended(const CostJob& job) {
    switch (job.kind) {
      case JobKind::agreeing: break;
      case JobKind::own_block: steps().at_least(job.rank, now()); break;
      case JobKind::local: done(job.rank, job.index); break;
      case JobKind::encoding:
        moving_[job.index].send_ready = true;
        look(job.index);
        break;
      case JobKind::head: after_head(job.index); break;
      case JobKind::body:
      case JobKind::alone: sent(job.index); break;
      case JobKind::tail: received(job.index); break;
    }
    if (job.rank >= 0) next_of(job.rank);
  }

  enum class Phase : uint8_t {
    waiting,
    head,
    halted,
    body,
    alone,
    flying,
    arrived,
    tail,
    finished
  };
  struct Moving {
    Phase phase = Phase::waiting;
    bool send_ready : 1 = false, recv_ready : 1 = false;  // by its steps
    bool send_turn : 1 = false, recv_turn : 1 = false;    // by its link
    bool joint : 1 = false;                               // its rest was moved in a body

    bool receivable() const { return recv_ready && recv_turn; }
  };

  Engine& engine() { return static_cast<Engine&>(*this); }
  auto& machines() { return engine().machines(); }
  StepProgress& steps() { return engine().steps(); }

  void ready(int r, int32_t step) {
    const int32_t m = engine().message_of(r, step);
    if (m >= 0) {
      const bool sends = engine().sends(r, step);
      if (sends && engine().price(m).encode.core > 0) return encode(m);
      if (sends) moving_[m].send_ready = true;
      if (!sends) moving_[m].recv_ready = true;
      return look(m);
    }
    const PerByte cost = engine().local_cost(r, step);
    if (cost.core <= 0 && cost.memory <= 0)  // avoids recursion through many empty steps
      return at(now(), TimerKind::nothing, r, step);
    queue({JobKind::local, r, step, cost.core, cost.memory});
  }

  // Goes before other work that waits for the thread, as in the executor, so that the message
  // leaves early.
  void encode(int32_t m) {
    const CostMessage& p = engine().price(m);
    const int from = engine().ends(m).from;
    threads_.add_first(
        {JobKind::encoding, from, m, p.bytes * p.encode.core, p.bytes * p.encode.memory});
    if (!threads_.busy(from)) next_of(from);
  }

  void done(int r, int32_t step) {
    steps().finish(r, step, now(), [&](int32_t next) { ready_or_later(r, next); });
  }

  // Starts what the message's phase and its two ends allow.
  void look(int32_t m) {
    Moving& s = moving_[m];
    const auto& ends = engine().ends(m);
    const CostMessage& p = engine().price(m);
    if (s.phase == Phase::waiting && s.send_ready && s.send_turn) {
      s.phase = Phase::head;
      steps().begin(ends.from, ends.send_step, now());
      queue({JobKind::head, ends.from, m, p.posted + p.head * p.out.core, p.head * p.out.memory});
    } else if (s.phase == Phase::halted && s.receivable()) {
      start_body(m);
    } else if (s.phase == Phase::arrived && s.receivable()) {
      s.phase = Phase::tail;
      steps().begin(ends.to, ends.recv_step, now());
      // In a body the receiver is one piece behind the sender.
      const double bytes = s.joint ? p.head : p.bytes;
      queue({JobKind::tail, ends.to, m, p.taken + bytes * p.in.core, bytes * p.in.memory});
    }
  }

  void after_head(int32_t m) {
    const CostMessage& p = engine().price(m);
    Moving& s = moving_[m];
    if (p.bytes == p.head || p.in_place) return sent(m);
    if (s.receivable()) return start_body(m);
    s.phase = p.bytes > p.eager ? Phase::halted : Phase::alone;
    if (s.phase == Phase::alone) machines().start_flow(JobKind::alone, m, p.bytes - p.head, false);
  }

  void start_body(int32_t m) {
    const CostMessage& p = engine().price(m);
    const auto& ends = engine().ends(m);
    moving_[m].phase = Phase::body;
    moving_[m].joint = true;
    steps().begin(ends.to, ends.recv_step, now());
    machines().start_flow(JobKind::body, m, p.bytes - p.head, true);
  }

  // The sender's part is over.
  void sent(int32_t m) {
    const CostMessage& p = engine().price(m);
    moving_[m].phase = Phase::flying;
    at(now() + p.latency, TimerKind::arrival, engine().ends(m).to, m);
    if (!p.in_place) leave(m);
  }

  void leave(int32_t m) {
    const auto& ends = engine().ends(m);
    if (ends.next >= 0) {
      moving_[ends.next].send_turn = true;
      look(ends.next);
    }
    done(ends.from, ends.send_step);
  }

  void received(int32_t m) {
    const auto& ends = engine().ends(m);
    moving_[m].phase = Phase::finished;
    if (ends.next >= 0) {
      moving_[ends.next].recv_turn = true;
      look(ends.next);
    }
    done(ends.to, ends.recv_step);
    if (engine().price(m).in_place) leave(m);
  }

  void next_of(int r) {
    const std::optional<CostJob> job = threads_.next(r);
    if (!job) return;
    if (job->kind == JobKind::local) steps().begin(r, job->index, now());
    if (job->kind == JobKind::encoding)
      steps().begin(r, engine().ends(job->index).send_step, now());
    machines().start(*job);
  }

  CostThreads threads_;
  std::vector<Moving> moving_;  // by message
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  uint64_t timers_set_ = 0;
};

}  // namespace ringwood
