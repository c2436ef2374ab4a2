#include <algorithm>

#include <fmt/format.h>

#include "collectives/checker/replay.h"

namespace ringwood {
namespace {

constexpr int kMarks = -2;  // in place of a buffer's number: the contents of staging places

int index_at(const Plan& plan, int peer) {
  const PeerQueue* const queue = queue_to(plan, peer);
  return queue ? static_cast<int>(queue - plan.peers.data()) : -1;
}

// How far one rank has carried out its plan.
struct ReplayRank {
  struct Message {
    SymbolRun early;        // its contents when it was posted
    bool in_place = false;  // it has been delivered to its destination
  };
  struct Queue {
    int back = -1;  // index of the peer's queue for this rank
    size_t sends_posted = 0, sends_done = 0, receives_posted = 0, receives_done = 0;
    std::vector<Message> messages;  // by send
  };

  ReplayRank(const PlanSet& set, int rank, bool fuses)
      : plan(set.of(rank)),
        pending(plan.graph.predecessors),
        unfused(plan.fusions.list.size(), fuses ? 0 : 1),
        queues(plan.peers.size()) {
    for (size_t q = 0; q < queues.size(); ++q) {
      queues[q].back = index_at(set.of(plan.peers[q].peer), rank);
      queues[q].messages.resize(plan.peers[q].sends.size());
    }
  }

  const BoundStep& step(int32_t index) const { return plan.steps[static_cast<size_t>(index)]; }
  bool waits(int32_t index) const { return pending[static_cast<size_t>(index)] != 0; }
  // All receives of a fusion may be posted as soon as the first may.
  bool postable(int32_t receive) const {
    const int32_t f = plan.fusions.of_step[static_cast<size_t>(receive)];
    return !waits(receive) ||
           (f >= 0 && !waits(plan.fusions.list[static_cast<size_t>(f)].receives[0]));
  }

  const Plan& plan;
  std::vector<int32_t> pending;
  std::vector<int32_t> ready;
  std::vector<char> unfused;
  std::vector<Queue> queues;
};

class QueuedReplay {
 public:
  QueuedReplay(const PlanSet& set, const ReplayOrder& order, Symbols& symbols,
               std::vector<ReplayMemory>& memory)
      : set_(set), order_(order), symbols_(symbols), memory_(memory), random_(order.random) {
    for (int r = 0; r < set.n(); ++r) {
      ranks_.emplace_back(set, r, order.fuses);
      left_ += set.of(r).steps.size();
    }
    for (int r = 0; r < set.n(); ++r)
      for (size_t i = 0; i < set.of(r).steps.size(); ++i)
        if (!rank(r).waits(static_cast<int32_t>(i))) make_ready(r, static_cast<int32_t>(i));
  }

  PlanFlaw run() {
    while (left_ > 0 && !flaw_) {
      const bool moved = sweep(order_.random != 0) || (order_.random != 0 && sweep(false));
      if (!moved && !give_up_a_fusion()) return stuck();
    }
    return flaw_;
  }

 private:
  using Rank = ReplayRank;
  using Queue = ReplayRank::Queue;

  Rank& rank(int r) { return ranks_[static_cast<size_t>(r)]; }
  bool skips(bool some) { return some && random_() % 3 == 0; }

  bool sweep(bool some) {
    bool moved = false;
    for (int r = 0; r < set_.n() && !flaw_; ++r) {
      if (skips(some)) continue;
      if (order_.late) moved = run_local(r, some) || moved;
      for (size_t f = 0; f < rank(r).plan.fusions.list.size(); ++f) moved = fuse(r, f) || moved;
      for (size_t q = 0; q < rank(r).queues.size() && !flaw_; ++q) {
        if (skips(some)) continue;
        moved = post(r, q) || moved;
        moved = deliver(r, q) || moved;
      }
      moved = run_local(r, some) || moved;
    }
    return moved;
  }

  // ---- steps -----------------------------------------------------------------------------------

  void make_ready(int r, int32_t index) {
    const BoundStep& step = rank(r).step(index);
    if (step.peer < 0 || step.bytes == 0) rank(r).ready.push_back(index);
  }

  void complete(int r, int32_t index) {
    const Graph& graph = rank(r).plan.graph;
    --left_;
    const auto i = static_cast<size_t>(index);
    for (int32_t k = graph.offset[i]; k < graph.offset[i + 1]; ++k) {
      const int32_t next = graph.successor[static_cast<size_t>(k)];
      if (--rank(r).pending[static_cast<size_t>(next)] == 0) make_ready(r, next);
    }
  }

  bool run_local(int r, bool some) {
    bool moved = false;
    auto& ready = rank(r).ready;
    while (!ready.empty() && !flaw_ && !(moved && skips(some))) {
      const size_t at = order_.random ? random_() % ready.size()
                        : order_.late ? ready.size() - 1
                                      : 0;
      const int32_t index = ready[at];
      ready.erase(ready.begin() + static_cast<long>(at));
      const BoundStep& step = rank(r).step(index);
      if (step.peer < 0 && step.bytes > 0) {
        if (reads_nothing(r, step, step.src)) return fail(r, index);
        if (step.kind == StepKind::reduce && reads_nothing(r, step, step.dst))
          return fail(r, index);
        memory_[static_cast<size_t>(r)].run(step);
      }
      complete(r, index);
      moved = true;
    }
    return moved;
  }

  bool reads_nothing(int r, const BoundStep& step, const Place& place) const {
    return !defined(memory_[static_cast<size_t>(r)].read(place, step.bytes));
  }
  bool fail(int r, int32_t index) {
    flaw_ = plan_step_words(set_, r, static_cast<size_t>(index)) +
            " reads bytes that were never written";
    return true;
  }

  // ---- messages --------------------------------------------------------------------------------

  bool post(int r, size_t q) {
    Rank& me = rank(r);
    Queue& queue = me.queues[q];
    const PeerQueue& list = me.plan.peers[q];
    const size_t before = queue.sends_posted + queue.receives_posted;
    for (; queue.sends_posted < list.sends.size(); ++queue.sends_posted) {
      const int32_t index = list.sends[queue.sends_posted];
      const BoundStep& step = me.step(index);
      if (me.waits(index)) break;
      if (queue.sends_done < static_cast<size_t>(step.staged_after)) break;
      SymbolRun& early = queue.messages[queue.sends_posted].early;
      early = memory_[static_cast<size_t>(r)].read(step.src, step.bytes);
      if (step.wire == WireFormat::exact) continue;
      early = symbols_.encoded(early, step.wire);
      memory_[static_cast<size_t>(r)].write(step.staging, mark(r, index, step));
    }
    for (; queue.receives_posted < list.receives.size(); ++queue.receives_posted)
      if (!me.postable(list.receives[queue.receives_posted])) break;
    return queue.sends_posted + queue.receives_posted > before;
  }

  SymbolRun mark(int r, int32_t index, const BoundStep& step) {
    const Symbol mark = symbols_.own(r, kMarks - index, 0);
    return {{step.message_bytes, mark}};
  }

  // Delivers the first outstanding message of queue q of rank r.
  bool deliver(int r, size_t q) {
    Rank& me = rank(r);
    Queue& queue = me.queues[q];
    const PeerQueue& list = me.plan.peers[q];
    if (queue.sends_done == queue.sends_posted || queue.back < 0) return false;
    Rank& peer = rank(list.peer);
    Queue& theirs = peer.queues[static_cast<size_t>(queue.back)];
    if (theirs.receives_done == theirs.receives_posted) return false;
    const int32_t out = list.sends[queue.sends_done];
    const int32_t in =
        peer.plan.peers[static_cast<size_t>(queue.back)].receives[theirs.receives_done];
    const int32_t fusion = peer.plan.fusions.of_step[static_cast<size_t>(in)];
    if (fusion >= 0 && !peer.unfused[static_cast<size_t>(fusion)]) return false;
    if (peer.waits(in)) return false;
    const Rank::Message& message = queue.messages[queue.sends_done];
    if (!message.in_place) transfer(r, out, list.peer, in, message);
    ++queue.sends_done;
    ++theirs.receives_done;
    complete(r, out);
    complete(list.peer, in);
    return true;
  }

  void transfer(int r, int32_t out, int to, int32_t in, const Rank::Message& message) {
    const BoundStep& send = rank(r).step(out);
    const BoundStep& recv = rank(to).step(in);
    const ReplayMemory& source = memory_[static_cast<size_t>(r)];
    SymbolRun run = message.early;
    if (send.wire != WireFormat::exact) {
      if (source.read(send.staging, send.message_bytes) != mark(r, out, send)) {
        flaw_ = plan_step_words(set_, r, static_cast<size_t>(out)) +
                "'s staging place is used before the message has left";
        return;
      }
    } else if (order_.late) {
      run = source.read(send.src, send.bytes);
    }
    if (!defined(run)) return void(fail(r, out));
    if (recv.kind == StepKind::recv) return memory_[static_cast<size_t>(to)].write(recv.dst, run);
    if (reads_nothing(to, recv, recv.dst)) return void(fail(to, in));
    memory_[static_cast<size_t>(to)].add(recv, run);
  }

  // ---- fusion ----------------------------------------------------------------------------------

  // The peer's exposed send that is operand k, or -1 while it has not arrived.
  int32_t operand(const Rank& me, const Fusion& fusion, size_t k) {
    const auto q = static_cast<size_t>(fusion.queues[k]);
    const Queue& queue = me.queues[q];
    const PeerQueue& list = me.plan.peers[q];
    if (queue.back < 0 || queue.receives_done == queue.receives_posted ||
        list.receives[queue.receives_done] != fusion.receives[k])
      return -1;
    const Rank& peer = rank(list.peer);
    const Queue& theirs = peer.queues[static_cast<size_t>(queue.back)];
    if (theirs.sends_done == theirs.sends_posted) return -1;
    const int32_t send = peer.plan.peers[static_cast<size_t>(queue.back)].sends[theirs.sends_done];
    if (peer.step(send).put != fusion.numbers[k] ||
        queue.sends_posted != static_cast<size_t>(fusion.numbers[k]))
      return -1;
    return send;
  }

  bool fuse(int r, size_t f) {
    Rank& me = rank(r);
    const Fusion& fusion = me.plan.fusions.list[f];
    if (me.unfused[f]) return false;
    std::vector<SymbolRun> operands;
    std::vector<Place> places;
    for (size_t k = 0; k < fusion.receives.size(); ++k) {
      const int32_t send = operand(me, fusion, k);
      if (send < 0) return false;
      const int peer = me.plan.peers[static_cast<size_t>(fusion.queues[k])].peer;
      const BoundStep& step = rank(peer).step(send);
      places.push_back(step.src);
      operands.push_back(memory_[static_cast<size_t>(peer)].read(step.src, step.bytes));
    }
    const SymbolRun sum = memory_[static_cast<size_t>(r)].fused(fusion, operands);
    memory_[static_cast<size_t>(r)].write(me.step(fusion.receives[0]).dst, sum);
    me.unfused[f] = 1;
    for (size_t k = 0; k < fusion.receives.size(); ++k) {
      const auto q = static_cast<size_t>(fusion.queues[k]);
      Queue& queue = me.queues[q];
      const int peer = me.plan.peers[q].peer;
      Queue& theirs = rank(peer).queues[static_cast<size_t>(queue.back)];
      const auto& sends = rank(peer).plan.peers[static_cast<size_t>(queue.back)].sends;
      memory_[static_cast<size_t>(peer)].write(places[k], sum);
      ++queue.receives_done;
      queue.messages[queue.sends_posted++].in_place = true;
      complete(peer, sends[theirs.sends_done++]);
      complete(r, fusion.receives[k]);
    }
    return true;
  }

  // After it has waited for a while, the executor runs the steps one by one.
  bool give_up_a_fusion() {
    for (Rank& r : ranks_)
      for (size_t f = 0; f < r.unfused.size(); ++f) {
        const int32_t first = r.plan.fusions.list[f].receives[0];
        if (r.unfused[f] || r.waits(first)) continue;
        r.unfused[f] = 1;
        return true;
      }
    return false;
  }

  PlanFlaw stuck() {
    for (int r = 0; r < set_.n(); ++r)
      for (size_t q = 0; q < rank(r).queues.size(); ++q) {
        const Queue& queue = rank(r).queues[q];
        const PeerQueue& list = rank(r).plan.peers[q];
        for (const bool sending : {false, true}) {
          const auto& steps = sending ? list.sends : list.receives;
          const size_t done = sending ? queue.sends_done : queue.receives_done;
          if (done < steps.size())
            return "deadlock: " + plan_step_words(set_, r, static_cast<size_t>(steps[done])) +
                   " never ends";
        }
      }
    return "deadlock: a local step never runs";
  }

  const PlanSet& set_;
  const ReplayOrder& order_;
  Symbols& symbols_;
  std::vector<ReplayMemory>& memory_;
  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  size_t left_ = 0;
  PlanFlaw flaw_;
};

}  // namespace

PlanFlaw replay_queued(const PlanSet& set, const ReplayOrder& order, Symbols& symbols,
                       std::vector<ReplayMemory>& memory) {
  return QueuedReplay(set, order, symbols, memory).run();
}

}  // namespace ringwood
