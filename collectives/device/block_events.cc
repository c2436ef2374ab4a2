#include "collectives/device/block_events.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "transports/base/error.h"

namespace ringwood::device {
namespace {

using Kind = BlockWord::Kind;

// Ends of passes that differ by no more are the same moment.
constexpr double kSame = 1e-12;

struct SharedPass {
  const BlockWord* pass = nullptr;
  int blocks = 1;           // that do it at once
  double* speed = nullptr;  // what it gets, of that of a block alone
};

// Max-min fair shares of the resources.
class Sharing final {
 public:
  explicit Sharing(const std::vector<double>& capacity) : capacity_(capacity) {}

  // Sets the speed of each.
  void share(std::vector<SharedPass> passes) {
    room_ = capacity_;
    rising_ = std::move(passes);
    while (!rising_.empty()) freeze(common_speed());
  }

 private:
  // Bytes/s of a resource, at full speed.
  static double load(const SharedPass& one, const ResourceUse& use) {
    return use.bytes * one.blocks / one.pass->alone;
  }
  // To which all that still rise can rise.
  double common_speed() {
    load_.assign(capacity_.size(), 0);
    for (const SharedPass& one : rising_)
      for (const ResourceUse& use : one.pass->uses)
        load_[static_cast<size_t>(use.resource)] += load(one, use);
    double speed = 1;
    for (size_t r = 0; r < load_.size(); ++r)
      if (load_[r] > 0) speed = std::min(speed, room_[r] / load_[r]);
    return speed;
  }
  // Those that use a full resource keep this speed.
  void freeze(double speed) {
    std::vector<bool> full;
    for (size_t r = 0; r < room_.size(); ++r)
      full.push_back(room_[r] <= load_[r] * speed * (1 + kSame));
    const auto rises = [&](const SharedPass& one) {
      return speed < 1 && std::ranges::none_of(one.pass->uses, [&](const ResourceUse& use) {
               return full[static_cast<size_t>(use.resource)];
             });
    };
    const auto stopped = std::stable_partition(rising_.begin(), rising_.end(), rises);
    for (auto one = stopped; one != rising_.end(); ++one) {
      *one->speed = speed;
      for (const ResourceUse& use : one->pass->uses)
        room_[static_cast<size_t>(use.resource)] -= load(*one, use) * speed;
    }
    rising_.erase(stopped, rising_.end());
  }

  const std::vector<double>& capacity_;
  std::vector<double> room_, load_;  // by resource
  std::vector<SharedPass> rising_;   // whose speed is not known yet
};

class BlockEvents final {
 public:
  BlockEvents(const std::vector<BlockProgram>& programs, const std::vector<double>& capacity,
              int packets, const BlockTimes& times)
      : programs_(programs),
        times_(times),
        sharing_(capacity),
        states_(programs.size()),
        packets_(static_cast<size_t>(packets)) {
    size_t groups = 0;
    for (const BlockProgram& program : programs) {
      ranks_ = std::max(ranks_, static_cast<size_t>(program.rank) + 1);
      groups = std::max(groups, static_cast<size_t>(program.group) + 1);
    }
    hellos_.assign(groups * ranks_, INFINITY);
    told_.resize(groups * ranks_ * ranks_);
  }

  std::vector<double> run() {
    for (;;) {
      go_on();
      if (shared_anew_) share();
      const double next = next_event();
      if (std::isinf(next)) break;
      advance(next);
    }
    std::vector<double> ends;
    for (size_t p = 0; p < states_.size(); ++p) {
      if (states_[p].at < programs_[p].words.size())
        throw Error(ErrorCode::internal,
                    fmt::format("a block of rank {} waits for ever at its word {}",
                                programs_[p].rank, states_[p].at));
      ends.push_back(states_[p].ready);
    }
    return ends;
  }

 private:
  struct State {
    size_t at = 0;     // its word
    double ready = 0;  // not before
    bool passing = false, passed = false;
    double left = 0, speed = 0;  // of the pass: the part to do; of what the block alone does
    double until = 0;            // the pass's end at this speed
  };
  struct Packet {
    double begun = INFINITY, ended = INFINITY;
  };
  struct Told {
    uint32_t number = 0;
    double seen = 0;
  };

  size_t place(const BlockProgram& program, int rank) const {
    return static_cast<size_t>(program.group) * ranks_ + static_cast<size_t>(rank);
  }
  // Of the points that one rank tells another.
  std::vector<Told>& told(const BlockProgram& program, int to, int from) {
    return told_[place(program, to) * ranks_ + static_cast<size_t>(from)];
  }

  // When its word can begin, or, of a pass that is over, end; infinite where that is not known yet.
  double may_go_on(size_t p) {
    const BlockProgram& program = programs_[p];
    const BlockWord& word = program.words[states_[p].at];
    double when = states_[p].ready;
    if (word.kind == Kind::hear) {
      for (int rank = 0; rank < static_cast<int>(ranks_); ++rank)
        if (rank != program.rank)
          when = std::max(when, hellos_[place(program, rank)] + times_.flag);
    } else if (word.kind == Kind::wait) {
      for (const BlockWord::Point& point : word.points)
        when = std::max(when, seen(told(program, program.rank, point.peer), point.number));
    } else if (word.kind == Kind::pass) {
      for (const int number : word.reads) {
        const Packet& packet = packets_[static_cast<size_t>(number)];
        when = std::max(when, (states_[p].passed ? packet.ended : packet.begun) + times_.flag);
      }
    }
    return when;
  }
  static double seen(const std::vector<Told>& told, uint32_t number) {
    for (const Told& one : told)
      if (one.number >= number) return one.seen;
    return INFINITY;
  }

  // Carries out what can be carried out now.
  void go_on() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t p = 0; p < states_.size(); ++p)
        while (states_[p].at < programs_[p].words.size() && !states_[p].passing &&
               may_go_on(p) <= now_) {
          carry_out(p);
          changed = true;
        }
    }
  }

  void carry_out(size_t p) {
    const BlockProgram& program = programs_[p];
    const BlockWord& word = program.words[states_[p].at];
    State& state = states_[p];
    state.ready = now_;
    switch (word.kind) {
      case Kind::greet: hellos_[place(program, program.rank)] = now_; break;
      case Kind::hear:
      case Kind::wait: break;
      case Kind::post:
        state.ready += times_.fence;
        for (const BlockWord::Point& point : word.points)
          told(program, point.peer, program.rank)
              .push_back({point.number, state.ready + times_.flag});
        break;
      case Kind::pass:
        if (!state.passed) return begin_pass(p);
        state.passed = false;
    }
    ++state.at;
  }
  void begin_pass(size_t p) {
    State& state = states_[p];
    state.passing = true;
    state.left = 1;
    for (const int number : programs_[p].words[state.at].writes)
      packets_[static_cast<size_t>(number)].begun = now_;
    shared_anew_ = true;
  }
  void end_pass(size_t p) {
    State& state = states_[p];
    state.passing = false;
    state.passed = true;
    state.ready = now_;
    for (const int number : programs_[p].words[state.at].writes)
      packets_[static_cast<size_t>(number)].ended = now_;
    shared_anew_ = true;
  }

  double next_event() {
    double next = INFINITY;
    for (size_t p = 0; p < states_.size(); ++p) {
      if (states_[p].at == programs_[p].words.size()) continue;
      next = std::min(next, states_[p].passing ? states_[p].until : may_go_on(p));
    }
    return next;
  }
  void advance(double next) {
    for (size_t p = 0; p < states_.size(); ++p) {
      State& state = states_[p];
      if (!state.passing) continue;
      state.left -= (next - now_) * state.speed / word_of(p).alone;
    }
    now_ = next;
    for (size_t p = 0; p < states_.size(); ++p)
      if (states_[p].passing && states_[p].until <= now_ * (1 + kSame)) end_pass(p);
  }
  const BlockWord& word_of(size_t p) const { return programs_[p].words[states_[p].at]; }

  void share() {
    shared_anew_ = false;
    std::vector<SharedPass> passes;
    for (size_t p = 0; p < states_.size(); ++p)
      if (states_[p].passing)
        passes.push_back({&word_of(p), programs_[p].blocks, &states_[p].speed});
    sharing_.share(std::move(passes));
    for (size_t p = 0; p < states_.size(); ++p)
      if (states_[p].passing)
        states_[p].until = now_ + states_[p].left * word_of(p).alone / states_[p].speed;
  }

  const std::vector<BlockProgram>& programs_;
  const BlockTimes times_;
  Sharing sharing_;
  size_t ranks_ = 0;
  double now_ = 0;
  std::vector<State> states_;            // by program
  std::vector<Packet> packets_;          // by number
  std::vector<double> hellos_;           // by group and rank: when it was told
  std::vector<std::vector<Told>> told_;  // by group, rank and the rank that tells it; ascending
  bool shared_anew_ = false;
};

}  // namespace

std::vector<double> run_blocks(const std::vector<BlockProgram>& programs,
                               const std::vector<double>& capacity, int packets,
                               const BlockTimes& times) {
  return BlockEvents(programs, capacity, packets, times).run();
}

}  // namespace ringwood::device
