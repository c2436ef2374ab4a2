#include "collectives/cost/cost.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <queue>

#include "collectives/cost/cost_model.h"
#include "collectives/cost/machines.h"
#include "collectives/cost/steps.h"
#include "collectives/cost/threads.h"

namespace ringwood {
namespace {

// The phases of a message:
//   waiting   for its send step, and for its turn on the link
//   head      its sender prepares it and writes the first piece alone
//   halted    the rest is more than the link holds, and the receiver is not ready
//   body      both ends work on it at the same time
//   alone     the sender writes the rest without the receiver
//   flying    no thread works on it
//   arrived   the receiver may read what is left
//   tail      the receiver reads it
enum class Phase { waiting, head, halted, body, alone, flying, arrived, tail, finished };

struct Moving {
  Phase phase = Phase::waiting;
  bool send_ready = false, recv_ready = false;  // by its steps
  bool send_turn = false, recv_turn = false;    // by its link
  bool joint = false;                           // its rest was moved in a body

  bool receivable() const { return recv_ready && recv_turn; }
};

struct Timer {
  enum class Kind { arrival, held_back, nothing, own_block };  // of a message; of steps; of a rank
  double time;
  Kind kind;
  int32_t rank, index;  // index: message or step, or -1
  bool operator>(const Timer& b) const { return time > b.time; }
};

// Messages, from the steps that send and receive them to the threads and machines that move them.
class Simulation {
 public:
  Simulation(const CostModel& model, const Load& load, const MachineModel& machine)
      : model_(model),
        most_work_(load.most_work),
        machines_(model, machine),
        threads_(static_cast<int>(model.ranks.size())),
        steps_(model, load.timeline),
        moving_(model.messages.size()) {}

  // Returns nothing if most_work ended it.
  std::optional<Prediction> run() {
    begin_all();
    std::vector<CostJob> jobs;
    while (true) {
      const double job = machines_.next();
      const double timer =
          timers_.empty() ? std::numeric_limits<double>::infinity() : timers_.top().time;
      if (std::min(job, timer) == std::numeric_limits<double>::infinity()) break;
      if (most_work_ > 0 && work() > most_work_) return {};
      machines_.advance(std::min(job, timer), jobs);
      for (const CostJob& ended_job : jobs) ended(ended_job);
      while (!timers_.empty() && timers_.top().time <= machines_.now()) ring();
    }
    Prediction result = steps_.result();
    result.work = work();
    return result;
  }
  size_t work() const { return machines_.work(); }

 private:
  void begin_all() {
    const auto n = static_cast<int>(model_.ranks.size());
    for (int r = 0; r < n && model_.agreeing > 0; ++r)
      queue({JobKind::agreeing, r, -1, model_.agreeing, 0});
    for (int r = 0; r < n; ++r)
      if (model_.ranks[r].own_block > 0)
        timers_.push({model_.agreed, Timer::Kind::own_block, r, -1});
    for (const int32_t m : model_.heads) moving_[m].send_turn = moving_[m].recv_turn = true;
    for (int r = 0; r < n; ++r)
      for (size_t i = 0; i < model_.ranks[r].bytes.size(); ++i)
        if (const auto step = static_cast<int32_t>(i); steps_.free(r, step))
          ready_or_later(r, step);
  }

  // ---- steps

  void ready_or_later(int r, int32_t step) {
    const bool sends = model_.ranks[r].plan->steps[step].kind == StepKind::send;
    if (sends || model_.agreed <= machines_.now()) return ready(r, step);
    timers_.push({model_.agreed, Timer::Kind::held_back, r, step});
  }

  void ready(int r, int32_t step) {
    const CostRank& rank = model_.ranks[r];
    const int32_t m = rank.message[step];
    if (m >= 0) {
      const bool sends = rank.plan->steps[step].kind == StepKind::send;
      if (sends && model_.messages[m].encode.core > 0) return encode(m);
      (sends ? moving_[m].send_ready : moving_[m].recv_ready) = true;
      return look(m);
    }
    const double bytes = rank.bytes[step];
    if (bytes == 0)  // avoids recursion through many empty steps
      return timers_.push({machines_.now(), Timer::Kind::nothing, r, step});
    const PerByte cost = rank.plan->steps[step].kind == StepKind::copy ? rank.copies : rank.reduces;
    queue({JobKind::local, r, step, bytes * cost.core, bytes * cost.memory});
  }

  void copy_own_block(int r) {
    const CostRank& rank = model_.ranks[r];
    queue({JobKind::own_block, r, -1, rank.own_block * rank.copies.core,
           rank.own_block * rank.copies.memory});
  }

  // Goes before other work that waits for the thread, as in the executor, so that the message
  // leaves early.
  void encode(int32_t index) {
    const CostMessage& m = model_.messages[index];
    threads_.add_first(
        {JobKind::encoding, m.from, index, m.bytes * m.encode.core, m.bytes * m.encode.memory});
    if (!threads_.busy(m.from)) next_of(m.from);
  }

  void encoded(int32_t index) {
    moving_[index].send_ready = true;
    look(index);
  }

  void done(int r, int32_t step) {
    steps_.finish(r, step, machines_.now(), [&](int32_t next) { ready_or_later(r, next); });
  }

  void begin(int r, int32_t step) { steps_.begin(r, step, machines_.now()); }

  // ---- messages

  // Starts what the message's phase and its two ends allow.
  void look(int32_t index) {
    const CostMessage& m = model_.messages[index];
    Moving& s = moving_[index];
    if (s.phase == Phase::waiting && s.send_ready && s.send_turn) {
      s.phase = Phase::head;
      begin(m.from, m.send_step);
      queue({JobKind::head, m.from, index, m.post + m.head * m.out.core, m.head * m.out.memory});
    } else if (s.phase == Phase::halted && s.receivable()) {
      start_body(index);
    } else if (s.phase == Phase::arrived && s.receivable()) {
      s.phase = Phase::tail;
      begin(m.to, m.recv_step);
      // In a body the receiver is one piece behind the sender.
      const double bytes = s.joint ? m.head : m.bytes;
      queue({JobKind::tail, m.to, index, m.post + bytes * m.in.core, bytes * m.in.memory});
    }
  }

  void after_head(int32_t index) {
    const CostMessage& m = model_.messages[index];
    Moving& s = moving_[index];
    const double rest = m.bytes - m.head;
    if (rest == 0 || m.in_place) return sent(index);
    if (s.receivable()) return start_body(index);
    if (m.bytes > m.holds) {
      s.phase = Phase::halted;
      return;
    }
    s.phase = Phase::alone;
    if (m.sockets) return machines_.start_flow(JobKind::alone, index, m.bytes, m.out, {});
    queue({JobKind::alone, m.from, index, rest * m.out.core, rest * m.out.memory});
  }

  void start_body(int32_t index) {
    const CostMessage& m = model_.messages[index];
    moving_[index].phase = Phase::body;
    moving_[index].joint = true;
    begin(m.to, m.recv_step);
    machines_.start_flow(JobKind::body, index, m.bytes - m.head, m.out, m.in);
  }

  // The sender's part is over.
  void sent(int32_t index) {
    const CostMessage& m = model_.messages[index];
    moving_[index].phase = Phase::flying;
    timers_.push({machines_.now() + m.latency, Timer::Kind::arrival, m.to, index});
    if (!m.in_place) leave(index);
  }

  void leave(int32_t index) {
    const CostMessage& m = model_.messages[index];
    if (m.next >= 0) {
      moving_[m.next].send_turn = true;
      look(m.next);
    }
    done(m.from, m.send_step);
  }

  void received(int32_t index) {
    const CostMessage& m = model_.messages[index];
    moving_[index].phase = Phase::finished;
    if (m.next >= 0) {
      moving_[m.next].recv_turn = true;
      look(m.next);
    }
    done(m.to, m.recv_step);
    if (m.in_place) leave(index);
  }

  // ---- what takes time

  void ring() {
    const Timer timer = timers_.top();
    timers_.pop();
    switch (timer.kind) {
      case Timer::Kind::held_back: return ready(timer.rank, timer.index);
      case Timer::Kind::nothing: return done(timer.rank, timer.index);
      case Timer::Kind::own_block: return copy_own_block(timer.rank);
      case Timer::Kind::arrival:
        moving_[timer.index].phase = Phase::arrived;
        return look(timer.index);
    }
  }

  void queue(const CostJob& job) {
    threads_.add(job);
    if (!threads_.busy(job.rank)) next_of(job.rank);
  }

  void next_of(int r) {
    const std::optional<CostJob> job = threads_.next(r);
    if (!job) return;
    if (job->kind == JobKind::local) begin(r, job->index);
    if (job->kind == JobKind::encoding) begin(r, model_.messages[job->index].send_step);
    machines_.start(*job);
  }

  void ended(const CostJob& job) {
    switch (job.kind) {
      case JobKind::agreeing: break;
      case JobKind::own_block: steps_.at_least(job.rank, machines_.now()); break;
      case JobKind::local: done(job.rank, job.index); break;
      case JobKind::encoding: encoded(job.index); break;
      case JobKind::head: after_head(job.index); break;
      case JobKind::body:
      case JobKind::alone: sent(job.index); break;
      case JobKind::tail: received(job.index); break;
    }
    if (job.rank >= 0) next_of(job.rank);
  }

  const CostModel& model_;
  const size_t most_work_;
  CostMachines machines_;
  CostThreads threads_;
  CostSteps steps_;
  std::vector<Moving> moving_;  // by message
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
};

}  // namespace

Prediction predict(const CostModel& model, const Load& load, const MachineModel& machine) {
  Simulation simulation(model, load, machine);
  if (auto prediction = simulation.run()) return std::move(*prediction);
  Prediction estimate;
  estimate.seconds = bounds_of(model, machine).estimate();
  estimate.finish.assign(model.ranks.size(), estimate.seconds);
  estimate.simulated = false;
  estimate.work = simulation.work();
  return estimate;
}

Prediction predict(const std::vector<Schedule>& schedules, const Load& load,
                   const MachineModel& machine, int segment_count) {
  return predict(model_of(plans_of(schedules, segment_count, load, machine), load, machine), load,
                 machine);
}

}  // namespace ringwood
