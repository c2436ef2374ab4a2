#include "collectives/cost.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "collectives/cost_model.h"
#include "collectives/cost_share.h"

namespace ringwood {
namespace {

// The life of a message, and where it is:
//   waiting   for its send step, and for its turn on the link
//   head      its sender prepares it and writes the first piece alone
//   halted    the rest is more than the link holds, and the receiver is not there
//   body      both ends work on it at the same time
//   alone     the sender writes the rest without the receiver
//   flying    nobody works on it
//   arrived   the receiver may take what is left
//   tail      the receiver takes it
enum class Phase { waiting, head, halted, body, alone, flying, arrived, tail, finished };

struct Moving {
  Phase phase = Phase::waiting;
  bool send_ready = false, recv_ready = false;  // by their steps
  bool send_turn = false, recv_turn = false;    // by their link
  bool joint = false;                           // its rest has gone through a body
};

class Simulation {
 public:
  Simulation(const CostModel& model, const Load& load, const Fabric& fabric)
      : model_(model),
        fabric_(fabric),
        timeline_(load.timeline),
        most_work_(load.most_work),
        n_(static_cast<int>(model.ranks.size())),
        moving_(model.messages.size()),
        queues_(n_),
        busy_(n_, false),
        pending_(n_),
        left_(n_) {
    for (int r = 0; r < n_; ++r) thread_.push_back(share_.add_resource(1));
    for (int h = 0; h < model.hosts; ++h) {
      cores_.push_back(share_.add_resource(fabric.cores));
      for (auto* resource : {&memory_, &nic_out_, &nic_in_})
        resource->push_back(share_.add_resource(1));
    }
    result_.finish.assign(n_, 0);
    if (timeline_) began_.resize(n_);
    for (int r = 0; r < n_; ++r) {
      const auto& rank = model.ranks[r];
      pending_[r] = rank.plan->graph.predecessors;
      left_[r] = rank.bytes.size();
      if (timeline_) began_[r].assign(rank.bytes.size(), -1);
    }
  }

  Prediction run() {
    for (int r = 0; r < n_ && model_.agreeing > 0; ++r)
      queue({Kind::agreeing, r, -1, model_.agreeing, 0});
    for (const int32_t m : model_.heads) moving_[m].send_turn = moving_[m].recv_turn = true;
    for (int r = 0; r < n_; ++r)
      for (size_t i = 0; i < model_.ranks[r].bytes.size(); ++i)
        if (pending_[r][i] == 0) ready_or_later(r, static_cast<int32_t>(i));
    std::vector<int32_t> finished;
    while (true) {
      const double job = share_.next();
      const double timer =
          timers_.empty() ? std::numeric_limits<double>::infinity() : timers_.front().time;
      if (std::min(job, timer) == std::numeric_limits<double>::infinity()) break;
      if (most_work_ > 0 && share_.work() > most_work_) return estimate();
      finished.clear();
      share_.advance(std::min(job, timer), finished);
      for (const int32_t tag : finished) ended(tag);
      while (!timers_.empty() && timers_.front().time <= share_.now()) ring();
    }
    for (int r = 0; r < n_; ++r) {
      if (left_[r] > 0)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("cost: {} steps of rank {} never begin", left_[r], r));
      result_.finish[r] = std::max(result_.finish[r], model_.agreed);
      result_.seconds = std::max(result_.seconds, result_.finish[r]);
    }
    result_.work = share_.work();
    return std::move(result_);
  }

 private:
  Prediction estimate() {
    result_ = {};
    result_.seconds = bounds_of(model_, fabric_).estimate();
    result_.finish.assign(n_, result_.seconds);
    result_.simulated = false;
    result_.work = share_.work();
    return std::move(result_);
  }

  using Use = FairShare::Use;
  enum class Kind { agreeing, local, encoding, head, body, alone, tail };
  struct Job {
    Kind kind;
    int32_t rank = -1;   // whose thread does it, one at a time; -1: a body
    int32_t index = -1;  // step of a local job, else message
    double seconds = 0, memory = 0;
  };
  static constexpr int32_t kHeldBack = -1, kNothing = -2;
  struct Timer {
    double time;
    int32_t message, rank, step;  // an arrival; or a step that was held back, or has nothing to do
    bool operator>(const Timer& b) const { return time > b.time; }
  };

  // ---- steps

  void ready_or_later(int r, int32_t step) {
    const bool sends = model_.ranks[r].plan->steps[step].kind == StepKind::send;
    if (sends || model_.agreed <= share_.now()) return ready(r, step);
    at(model_.agreed, kHeldBack, r, step);
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
    if (bytes == 0) return at(share_.now(), kNothing, r, step);  // no recursion through many
    const PerByte cost = rank.plan->steps[step].kind == StepKind::copy ? rank.copies : rank.reduces;
    queue({Kind::local, r, step, bytes * cost.core, bytes * cost.memory});
  }

  // Before what else waits for the thread, as the executor does it, so that it leaves early.
  void encode(int32_t index) {
    const CostMessage& m = model_.messages[index];
    queues_[m.from].push_front(
        {Kind::encoding, m.from, index, m.bytes * m.encode.core, m.bytes * m.encode.memory});
    if (!busy_[m.from]) next_of(m.from);
  }

  void encoded(int32_t index) {
    moving_[index].send_ready = true;
    look(index);
  }

  void done(int r, int32_t step) {
    --left_[r];
    result_.finish[r] = share_.now();
    if (timeline_) {
      const double began = began_[r][step] < 0 ? share_.now() : began_[r][step];
      result_.timeline.push_back({r, step, began, share_.now()});
    }
    const Graph& graph = model_.ranks[r].plan->graph;
    for (int32_t k = graph.offset[step]; k < graph.offset[step + 1]; ++k)
      if (--pending_[r][graph.successor[k]] == 0) ready_or_later(r, graph.successor[k]);
  }

  void begin(int r, int32_t step) {
    if (timeline_ && began_[r][step] < 0) began_[r][step] = share_.now();
  }

  // ---- messages

  bool receivable(const Moving& m) const { return m.recv_ready && m.recv_turn; }
  // Lets a message do what its phase and its ends allow.
  void look(int32_t index) {
    const CostMessage& m = model_.messages[index];
    Moving& s = moving_[index];
    if (s.phase == Phase::waiting && s.send_ready && s.send_turn) {
      s.phase = Phase::head;
      begin(m.from, m.send_step);
      queue({Kind::head, m.from, index, m.post + m.head * m.out.core, m.head * m.out.memory});
    } else if (s.phase == Phase::halted && receivable(s)) {
      start_body(index);
    } else if (s.phase == Phase::arrived && receivable(s)) {
      s.phase = Phase::tail;
      begin(m.to, m.recv_step);
      // Of what both worked on, the receiver was a piece behind.
      const double bytes = s.joint ? m.head : m.bytes;
      queue({Kind::tail, m.to, index, m.post + bytes * m.in.core, bytes * m.in.memory});
    }
  }

  void after_head(int32_t index) {
    const CostMessage& m = model_.messages[index];
    Moving& s = moving_[index];
    const double rest = m.bytes - m.head;
    if (rest == 0 || m.in_place) return sent(index);
    if (receivable(s)) return start_body(index);
    if (m.bytes > m.holds) {
      s.phase = Phase::halted;
      return;
    }
    s.phase = Phase::alone;
    if (m.sockets) return flow(Kind::alone, index, m.bytes, m.out, {});
    queue({Kind::alone, m.from, index, rest * m.out.core, rest * m.out.memory});
  }

  void start_body(int32_t index) {
    const CostMessage& m = model_.messages[index];
    moving_[index].phase = Phase::body;
    moving_[index].joint = true;
    begin(m.to, m.recv_step);
    flow(Kind::body, index, m.bytes - m.head, m.out, m.in);
  }

  // The sender's part is over.
  void sent(int32_t index) {
    const CostMessage& m = model_.messages[index];
    moving_[index].phase = Phase::flying;
    at(share_.now() + m.latency, index, -1, -1);
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

  void at(double time, int32_t message, int32_t rank, int32_t step) {
    timers_.push_back({time, message, rank, step});
    std::push_heap(timers_.begin(), timers_.end(), std::greater<>());
  }

  void ring() {
    const Timer timer = timers_.front();
    std::pop_heap(timers_.begin(), timers_.end(), std::greater<>());
    timers_.pop_back();
    if (timer.message == kHeldBack) return ready(timer.rank, timer.step);
    if (timer.message == kNothing) return done(timer.rank, timer.step);
    moving_[timer.message].phase = Phase::arrived;
    look(timer.message);
  }

  // Of the jobs that need the whole thread, one at a time, in the order in which they can begin.
  void queue(const Job& job) {
    queues_[job.rank].push_back(job);
    if (!busy_[job.rank]) next_of(job.rank);
  }

  void next_of(int r) {
    busy_[r] = !queues_[r].empty();
    if (!busy_[r]) return;
    const Job job = queues_[r].front();
    queues_[r].pop_front();
    if (job.kind == Kind::local) begin(r, job.index);
    if (job.kind == Kind::encoding) begin(r, model_.messages[job.index].send_step);
    const double whole = std::max(job.seconds, job.memory);
    Use uses[FairShare::kMostUses];
    int count = 0;
    if (job.seconds > 0) count = add_core(uses, count, r, job.seconds, whole);
    if (job.memory > 0) count = add(uses, count, memory_[fabric_.host_of(r)], job.memory, whole);
    launch(job, whole, uses, count);
  }

  void flow(Kind kind, int32_t index, double bytes, const PerByte& out, const PerByte& in) {
    const CostMessage& m = model_.messages[index];
    const int here = fabric_.host_of(m.from), there = fabric_.host_of(m.to);
    // Every resource alone would take this long for a byte; the slowest decides.
    const double whole =
        std::max({out.core, in.core, m.wire,
                  here == there ? out.memory + in.memory : std::max(out.memory, in.memory)});
    Use uses[FairShare::kMostUses];
    int count = 0;
    if (out.core > 0) count = add_core(uses, count, m.from, out.core, whole);
    if (in.core > 0) count = add_core(uses, count, m.to, in.core, whole);
    if (here == there) {
      if (out.memory + in.memory > 0)
        count = add(uses, count, memory_[here], out.memory + in.memory, whole);
    } else {
      count = add(uses, count, nic_out_[here], m.wire, whole);
      count = add(uses, count, nic_in_[there], m.wire, whole);
    }
    launch({kind, -1, index, 0, 0}, bytes * whole, uses, count);
  }

  int add(Use* uses, int count, int32_t resource, double seconds, double whole) const {
    uses[count] = {resource, seconds / whole};
    return count + 1;
  }
  int add_core(Use* uses, int count, int r, double seconds, double whole) const {
    count = add(uses, count, thread_[r], seconds, whole);
    if (model_.ranks[r].on_host > fabric_.cores)
      count = add(uses, count, cores_[fabric_.host_of(r)], seconds, whole);
    return count;
  }

  void launch(const Job& job, double seconds, const Use* uses, int count) {
    if (free_.empty()) {
      free_.push_back(static_cast<int32_t>(jobs_.size()));
      jobs_.push_back({});
    }
    const int32_t tag = free_.back();
    free_.pop_back();
    jobs_[tag] = job;
    share_.start(seconds, {uses, static_cast<size_t>(count)}, tag);
  }

  void ended(int32_t tag) {
    const Job job = jobs_[tag];
    free_.push_back(tag);
    switch (job.kind) {
      case Kind::agreeing: break;
      case Kind::local: done(job.rank, job.index); break;
      case Kind::encoding: encoded(job.index); break;
      case Kind::head: after_head(job.index); break;
      case Kind::body:
      case Kind::alone: sent(job.index); break;
      case Kind::tail: received(job.index); break;
    }
    if (job.rank >= 0) next_of(job.rank);
  }

  const CostModel& model_;
  const Fabric& fabric_;
  const bool timeline_;
  const size_t most_work_;
  const int n_;
  FairShare share_;
  std::vector<int32_t> thread_;                             // resources by rank
  std::vector<int32_t> cores_, memory_, nic_out_, nic_in_;  // resources by host
  std::vector<Moving> moving_;                              // by message
  std::vector<std::deque<Job>> queues_;                     // by rank
  std::vector<char> busy_;                                  // by rank: its thread does one of them
  std::vector<std::vector<int32_t>> pending_;               // by rank and step
  std::vector<size_t> left_;                                // by rank: steps not finished
  std::vector<std::vector<double>> began_;                  // by rank and step; -1: not yet
  std::vector<Timer> timers_;                               // a heap
  std::vector<Job> jobs_;                                   // in share_, by tag
  std::vector<int32_t> free_;
  Prediction result_;
};

}  // namespace

Prediction predict(const CostModel& model, const Load& load, const Fabric& fabric) {
  return Simulation(model, load, fabric).run();
}

Prediction predict(const std::vector<Schedule>& schedules, const Load& load, const Fabric& fabric,
                   int lane_count) {
  return predict(model_of(plans_of(schedules, lane_count, load, fabric), load, fabric), load,
                 fabric);
}

}  // namespace ringwood
