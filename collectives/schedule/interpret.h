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
// Linear in the number of steps and of chunks in them. Memory: the values of the chunks, and 16
// bytes and the values for each message that was ever in flight together with the others.
// Precondition: ranks, peers and chunk numbers are in range. A receive without a send, or in a
// cycle, is not executed, nor are the steps after it on its list. Pure, if the visitor is; any
// thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "collectives/schedule/group_schedules.h"
#include "collectives/schedule/messages.h"
#include "collectives/schedule/schedule.h"

namespace ringwood {

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

  Interpreter(GroupSchedules all, const Messages& messages, Visitor& visitor)
      : all_(all),
        messages_(messages),
        visitor_(visitor),
        at_(all.size(), 0),
        arriving_(messages.links()) {
    values_.reserve(all.size());
    for (int rank = 0; rank < all.size(); ++rank) {
      const ScheduleView s = all[rank];
      values_.emplace_back(s.chunks + s.scratch_size());
      for (int c = 0; c < s.chunks; ++c) values_.back()[c] = visitor_.begin(s.rank, c);
    }
  }

  ChunkValues<Value> run() {
    for (int32_t rank = 0; rank < all_.size(); ++rank) ready_.push_back(rank);
    for (; !ready_.empty(); ready_.pop_front()) go_on(ready_.front());
    return std::move(values_);
  }

 private:
  static constexpr int32_t kNone = -1;

  // A message in flight, or the room that one left for another of as many chunks.
  struct Flight {
    size_t values;      // where they begin in in_flight_
    int32_t from_step;  // the send
    int32_t next;       // the flight after it on its link, or in its list of empty ones; kNone
  };
  // Of a link: kNone, kNone if nothing is in flight.
  struct Queue {
    int32_t first = kNone, last = kNone;
  };

  void go_on(int32_t rank) {
    const ScheduleView schedule = all_[rank];
    for (int32_t& at = at_[rank]; at < schedule.size(); ++at) {
      if constexpr (requires { visitor_.done(); }) {
        if (visitor_.done()) return;
      }
      const Step step = schedule.step(at);
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
    const int32_t link = messages_.link(rank, at), flight = take_off(step.src.count);
    const auto source = values_[rank].begin() + step.src.first;
    std::copy(source, source + step.src.count, in_flight_.begin() + flights_[flight].values);
    flights_[flight].from_step = at;
    flights_[flight].next = kNone;
    Queue& queue = arriving_[link];
    (queue.last == kNone ? queue.first : flights_[queue.last].next) = flight;
    const bool awaited = queue.last == kNone && waits_for(step.peer, link);
    queue.last = flight;
    if (awaited) ready_.push_back(step.peer);
  }

  // The rank's next step receives from the link.
  bool waits_for(int32_t rank, int32_t link) const {
    const ScheduleView schedule = all_[rank];
    if (at_[rank] >= schedule.size()) return false;
    const Step step = schedule.step(at_[rank]);
    return step.kind != StepKind::send && step.peer >= 0 && messages_.link(rank, at_[rank]) == link;
  }

  // False: it has not been sent yet.
  bool receive(int32_t rank, int32_t at, const Step& step) {
    const int32_t link = messages_.link(rank, at);
    if (link == Messages::kNone || arriving_[link].first == kNone) return false;
    Queue& queue = arriving_[link];
    const int32_t number = queue.first;
    Flight& flight = flights_[number];
    queue.first = flight.next;
    if (queue.first == kNone) queue.last = kNone;
    const Span src = all_[step.peer].step(flight.from_step).src;
    move(step.peer, flight.from_step, src, in_flight_.data() + flight.values, rank, at, step);
    flight.next = std::exchange(empty_[src.count], number);
    return true;
  }

  // A flight with room for so many values.
  int32_t take_off(int count) {
    if (empty_.size() <= static_cast<size_t>(count)) empty_.resize(count + 1, kNone);
    const int32_t found = empty_[count];
    if (found != kNone) {
      empty_[count] = flights_[found].next;
      return found;
    }
    flights_.push_back({in_flight_.size(), kNone, kNone});
    in_flight_.resize(in_flight_.size() + count);
    return static_cast<int32_t>(flights_.size()) - 1;
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

  const GroupSchedules all_;
  const Messages& messages_;
  Visitor& visitor_;
  ChunkValues<Value> values_;
  std::vector<int32_t> at_;      // by rank: the next step
  std::deque<int32_t> ready_;    // ranks that can continue, in order
  std::vector<Queue> arriving_;  // by link
  std::deque<Flight> flights_;
  std::vector<int32_t> empty_;    // by number of chunks: the first of a list of flights, or kNone
  std::vector<Value> in_flight_;  // where flights have their values
};

// What the chunks contain at the end.
template <class Visitor>
ChunkValues<typename Visitor::Value> execute(GroupSchedules all, const Messages& messages,
                                             Visitor& visitor) {
  return Interpreter<Visitor>(all, messages, visitor).run();
}
template <class Visitor>
ChunkValues<typename Visitor::Value> execute(GroupSchedules all, Visitor& visitor) {
  return execute(all, pair_messages(all), visitor);
}

}  // namespace ringwood
