// The symbolic interpreter: carries out the schedules of all ranks on values of any kind.
//
// Every chunk of every rank has one Value. Messages are paired, each rank executes its list as
// far as it can, a value is read when it is sent, and a visitor computes what becomes of it. The
// visitor also defines the values: expressions (verify.h), the number of operands (draw.h), the
// number of roundings (wire_schedule.h), whose operands a sum has (sums.h).
//
// The order of the steps does not matter for the values: within a rank it is the list's, and the
// k-th send a -> b meets the k-th receive. Whether schedules also end without buffering is proved
// in verify_execution.h.
//
// A visitor has
//   using Value = ...;                         default: a chunk that contains nothing
//   Value begin(int rank, int chunk);          what a user's chunk contains at the start
//   Value add(const Move&, Value, Value);      what the target contains, the operand
// and, where they do anything, in this order for a value that is moved,
//   Value send(const Move&, Value);            what arrives of a message
//   Value round(const Move&, Value);           copy [c] <- [c], a rounding (wire_schedule.h)
//   Value copy(const Move&, Value);            what is stored by a recv or a copy
//   bool done();                               true: nothing more is carried out
//
// Linear in the number of steps and of chunks in them. Precondition: ranks, peers and chunk numbers
// are in range. A receive without a send, or in a cycle, is not executed, nor are the steps after
// it on its list. Pure, if the visitor is; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood {

// "rank 3 step 2 (send 1 [0])"
std::string step_words(const std::vector<Schedule>& all, int rank, int step);

// The k-th send a -> b and the k-th receive at b from a. Steps of all ranks have consecutive
// numbers: step i of rank r is first[r] + i.
struct Messages {
  struct Message {
    int32_t from, to;
    int32_t send, recv;  // numbers of the two steps
  };
  std::vector<int32_t> first;       // by rank, followed by the number of all steps
  std::vector<Message> messages;    // by (from, to), then in link order; up to the flaw
  std::vector<int32_t> mate;        // by step: the message's other end; -1: local, or no mate
  std::optional<std::string> flaw;  // a send without its receive, or a receive without its send
};
Messages pair_messages(const std::vector<Schedule>& all);

// A value that moves from a chunk into a chunk, by a local step (`from` and `to` are the same), or
// by a send and its receive.
struct Move {
  int32_t from, from_step, src;
  int32_t to, to_step, dst;
  bool first;  // of the step's chunks
};

// By rank and chunk, scratch included.
template <class Value>
using ChunkValues = std::vector<std::vector<Value>>;

template <class Visitor>
class Interpreter final {
 public:
  using Value = typename Visitor::Value;

  Interpreter(const std::vector<Schedule>& all, const Messages& messages, Visitor& visitor)
      : all_(all), messages_(messages), visitor_(visitor), at_(all.size(), 0) {
    for (const Schedule& s : all) {
      values_.emplace_back(s.chunks + s.scratch.size());
      for (int c = 0; c < s.chunks; ++c) values_.back()[c] = visitor_.begin(s.rank, c);
    }
    sent_.assign(messages.first.back(), kNotSent);
  }

  ChunkValues<Value> run() {
    for (int32_t rank = 0; rank < static_cast<int32_t>(all_.size()); ++rank) ready_.push_back(rank);
    for (size_t i = 0; i < ready_.size(); ++i) go_on(ready_[i]);
    return std::move(values_);
  }

 private:
  static constexpr size_t kNotSent = SIZE_MAX;

  void go_on(int32_t rank) {
    const std::vector<Step>& steps = all_[rank].steps;
    for (int32_t& at = at_[rank]; at < static_cast<int32_t>(steps.size()); ++at) {
      if constexpr (requires { visitor_.done(); }) {
        if (visitor_.done()) return;
      }
      const Step& step = steps[at];
      if (step.kind == StepKind::send) {
        send(rank, at, step);
      } else if (step.peer < 0) {
        const Value* source = values_[rank].data() + step.src.first;
        move(rank, at, step.src, source, rank, at, step);
      } else if (!receive(rank, at, step)) {
        return;
      }
    }
  }

  void send(int32_t rank, int32_t at, const Step& step) {
    const int32_t number = messages_.first[rank] + at, mate = messages_.mate[number];
    const auto source = values_[rank].begin() + step.src.first;
    sent_[number] = in_flight_.size();
    in_flight_.insert(in_flight_.end(), source, source + step.src.count);
    ++flying_;
    if (mate == messages_.first[step.peer] + at_[step.peer]) ready_.push_back(step.peer);
  }

  // False: it has not been sent yet.
  bool receive(int32_t rank, int32_t at, const Step& step) {
    const int32_t mate = messages_.mate[messages_.first[rank] + at];
    if (mate < 0 || sent_[mate] == kNotSent) return false;
    const int32_t from_step = mate - messages_.first[step.peer];
    const Span src = all_[step.peer].steps[from_step].src;
    move(step.peer, from_step, src, in_flight_.data() + sent_[mate], rank, at, step);
    if (--flying_ == 0) in_flight_.clear();
    return true;
  }

  void move(int32_t from, int32_t from_step, Span src, const Value* source, int32_t to,
            int32_t to_step, const Step& sink) {
    const bool adds = sink.kind == StepKind::recv_reduce || sink.kind == StepKind::reduce;
    const bool message = from != to, rounding = !message && !adds && src == sink.dst;
    Value* target = values_[to].data() + sink.dst.first;
    Move m{from, from_step, src.first, to, to_step, sink.dst.first, true};
    for (const Value* end = source + std::min(src.count, sink.dst.count); source != end; ++source) {
      Value value = *source;
      if constexpr (requires { visitor_.send(m, value); }) {
        if (message) value = visitor_.send(m, value);
      }
      if constexpr (requires { visitor_.round(m, value); }) {
        if (rounding) value = visitor_.round(m, value);
      }
      if (adds) {
        value = visitor_.add(m, *target, value);
      } else if constexpr (requires { visitor_.copy(m, value); }) {
        value = visitor_.copy(m, value);
      }
      *target++ = std::move(value);
      ++m.src, ++m.dst, m.first = false;
    }
  }

  const std::vector<Schedule>& all_;
  const Messages& messages_;
  Visitor& visitor_;
  ChunkValues<Value> values_;
  std::vector<int32_t> at_;       // by rank: the next step
  std::vector<int32_t> ready_;    // ranks that can continue, in order
  std::vector<size_t> sent_;      // by step: where its values are in in_flight_
  std::vector<Value> in_flight_;  // cleared whenever all have arrived
  size_t flying_ = 0;             // messages
};

// What the chunks contain at the end.
template <class Visitor>
ChunkValues<typename Visitor::Value> execute(const std::vector<Schedule>& all,
                                             const Messages& messages, Visitor& visitor) {
  return Interpreter<Visitor>(all, messages, visitor).run();
}
template <class Visitor>
ChunkValues<typename Visitor::Value> execute(const std::vector<Schedule>& all, Visitor& visitor) {
  return execute(all, pair_messages(all), visitor);
}

}  // namespace ringwood
