#include "collectives/device/number_points.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "collectives/device/lowered_messages.h"

namespace ringwood::device {
namespace {

// Whether the promise of a post about this span of the rank is not yet true before `one`.
bool holds_up(const Instruction& one, const Lowered& lowered, int rank, Promise promise,
              Span span) {
  if (one.verb == Verb::post) return false;
  if (one.verb == Verb::pass)
    return touches(one.dst, rank, span) ||
           (promise == Promise::open && touches(one.src, rank, span));
  const LoweredMessage& message = lowered.messages[one.message];  // a wait for a peer's use to end
  return (one.promise == Promise::done && message.from == rank && overlap(message.src, span)) ||
         (one.promise == Promise::ready && message.way == Way::push && overlap(message.dst, span));
}

void hoist(Lowered& lowered, int rank) {
  Program& program = lowered.programs[rank];
  for (auto post = program.begin(); post != program.end(); ++post) {
    if (post->verb != Verb::post || post->promise == Promise::done) continue;
    const LoweredMessage& message = lowered.messages[post->message];
    const bool ready = post->promise == Promise::ready;
    if (ready && message.way == Way::push) continue;  // follows its own pass
    const Span span = ready ? message.src : message.dst;
    auto to = post;
    while (to != program.begin() && !holds_up(*(to - 1), lowered, rank, post->promise, span)) --to;
    std::rotate(to, post, post + 1);
  }
}

bool only_sends_packets(const Instruction& one) {
  return one.verb == Verb::pass &&
         std::ranges::all_of(one.dst, [](const Ref& ref) { return ref.slot >= 0; });
}

void hoist_packets_of(Program& program) {
  for (auto pass = program.begin(); pass != program.end(); ++pass) {
    if (!only_sends_packets(*pass)) continue;
    const auto is_made_by = [&](const Instruction& before) {
      return std::ranges::any_of(pass->src, [&](const Ref& ref) {
        return ref.slot >= 0 || touches(before.dst, ref.rank, ref.span);
      });
    };
    auto to = pass;
    while (to != program.begin() && (to - 1)->verb == Verb::pass &&
           !only_sends_packets(*(to - 1)) && !is_made_by(*(to - 1)))
      --to;
    std::rotate(to, pass, pass + 1);
  }
}

// One signal: the ranks, what it promises, and about which message.
using Signal = std::tuple<int, int, Promise, int>;
Signal signal_of(int from, int to, const Instruction& one) {
  return {from, to, one.promise, one.message};
}

class Numbering final {
 public:
  explicit Numbering(std::vector<Program>& programs) : programs_(programs) {}

  // Dropping a wait or a post joins others: until nothing changes.
  void run() {
    for (bool changed = true; changed;) {
      number_posts();
      changed = number_waits();
      changed |= drop_unheard();
    }
    keep_one_of_a_number();
  }

 private:
  int ranks() const { return static_cast<int>(programs_.size()); }

  void number_posts() {
    numbers_.clear();
    for (int rank = 0; rank < ranks(); ++rank) {
      std::vector<int> next(programs_.size(), 0);
      std::vector<bool> fresh(programs_.size(), true);  // only posts since the last to that peer
      for (Instruction& one : programs_[rank]) {
        if (one.verb != Verb::post) {
          fresh.assign(fresh.size(), false);
          continue;
        }
        if (!fresh[one.peer]) ++next[one.peer];
        fresh[one.peer] = true;
        one.number = next[one.peer];
        numbers_[signal_of(rank, one.peer, one)] = one.number;
      }
    }
  }

  // True: some were dropped.
  bool number_waits() {
    wanted_.clear();
    named_.clear();
    size_t dropped = 0;
    for (int rank = 0; rank < ranks(); ++rank) {
      std::vector<int> seen(programs_.size(), 0);  // the hello
      dropped += std::erase_if(programs_[rank], [&](Instruction& one) {
        if (one.verb != Verb::wait) return false;
        one.number = numbers_.at(signal_of(one.peer, rank, one));
        if (one.number <= seen[one.peer]) return true;
        seen[one.peer] = one.number;
        wanted_.emplace(one.peer, rank, one.number);
        named_.insert(signal_of(one.peer, rank, one));
        return false;
      });
    }
    return dropped > 0;
  }

  // Of several posts of one number one is kept, and each that a wait names.
  bool drop_unheard() {
    size_t dropped = 0;
    for (int rank = 0; rank < ranks(); ++rank) {
      std::set<std::pair<int, int>> kept;
      dropped += std::erase_if(programs_[rank], [&](const Instruction& one) {
        if (one.verb != Verb::post) return false;
        if (wanted_.contains({rank, one.peer, one.number}) &&
            kept.emplace(one.peer, one.number).second)
          return false;
        return !named_.contains(signal_of(rank, one.peer, one));
      });
    }
    return dropped > 0;
  }

  void keep_one_of_a_number() {
    for (Program& program : programs_) {
      std::set<std::pair<int, int>> kept;
      std::erase_if(program, [&](const Instruction& one) {
        return one.verb == Verb::post && !kept.emplace(one.peer, one.number).second;
      });
    }
  }

  std::vector<Program>& programs_;
  std::map<Signal, int> numbers_;               // of posts
  std::set<std::tuple<int, int, int>> wanted_;  // from, to, number: some wait is for it
  std::set<Signal> named_;                      // by a wait
};

}  // namespace

void hoist_posts(Lowered& lowered) {
  for (size_t rank = 0; rank < lowered.programs.size(); ++rank)
    hoist(lowered, static_cast<int>(rank));
}

void hoist_packets(Lowered& lowered) {
  for (Program& program : lowered.programs) hoist_packets_of(program);
}

void number_points(Lowered& lowered) { Numbering(lowered.programs).run(); }

}  // namespace ringwood::device
