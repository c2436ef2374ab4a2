#include "collectives/device/prove.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "collectives/schedule/interpret.h"
#include "collectives/verify/verify_expressions.h"

namespace ringwood::device {
namespace {

using Time = int32_t;
using Clock = std::vector<Time>;  // by rank: how much of it has happened before

void join(Clock& clock, const Clock& other) {
  for (size_t rank = 0; rank < clock.size(); ++rank)
    clock[rank] = std::max(clock[rank], other[rank]);
}

// An event, by whose it is and when. It is before whatever knows that time of that rank (epochs:
// Flanagan and Freund, FastTrack, 2009).
struct Event {
  int rank = 0;
  Time time = 0;
  bool before(const Clock& clock) const { return clock[rank] >= time; }
};

struct Cell {
  Expressions::Id value = Expressions::kNothing;
  Event written;
  std::vector<Time> read;  // by rank: the last time since; 0: not
};

struct Told {
  int number = 0;
  Clock clock;
};

// The schedules' own values.
struct Meaning {
  using Value = Expressions::Id;
  Expressions& expressions;
  Value begin(int rank, int chunk) const { return expressions.leaf(rank, chunk); }
  Value add(const Move&, Value a, Value b) const { return expressions.sum(a, b); }
};

class Execution final {
 public:
  // `rows_apart`: the sums of rows that several passes share have cells of their own.
  Execution(const std::vector<Schedule>& all, const Lowered& lowered, bool rows_apart)
      : all_(all),
        rows_apart_(rows_apart),
        programs_(lowered.programs),
        packets_(lowered.messages.size()),
        expressions_(static_cast<int>(all.size()), std::max(1, all[0].chunks)),
        at_(all.size(), 0),
        now_(all.size(), Clock(all.size(), 0)) {
    for (int rank = 0; rank < ranks(); ++rank) {
      now_[rank][rank] = 1;  // what the user has written before
      auto& cells = cells_.emplace_back(all[rank].chunks + all[rank].scratch.size());
      for (size_t chunk = 0; chunk < cells.size(); ++chunk) {
        const bool of_user = static_cast<int>(chunk) < all[rank].chunks;
        if (of_user) cells[chunk].value = expressions_.leaf(rank, static_cast<int>(chunk));
        cells[chunk].written = {rank, 1};
        cells[chunk].read.assign(all.size(), 0);
      }
    }
  }

  std::optional<std::string> run(bool hellos) {
    if (hellos) greet();
    for (bool moved = true; moved && !flaw_;) {
      moved = false;
      for (int rank = 0; rank < ranks() && !flaw_; ++rank)
        while (!flaw_ && at_[rank] < programs_[rank].size() && carry_out(rank)) {
          ++at_[rank];
          moved = true;
        }
    }
    if (!flaw_) look_for_ends();
    if (!flaw_) look_at_results();
    return flaw_;
  }

 private:
  int ranks() const { return static_cast<int>(programs_.size()); }
  void refuse(std::string sentence) {
    if (!flaw_) flaw_ = std::move(sentence);
  }
  std::string here(int rank) const {
    return fmt::format("rank {} instruction {} ({})", rank, at_[rank],
                       print(programs_[rank][at_[rank]]));
  }

  void greet() {
    const std::vector<Clock> first = now_;
    for (int rank = 0; rank < ranks(); ++rank)
      for (int peer = 0; peer < ranks(); ++peer) {
        if (peer != rank) told_[{rank, peer}].push_back({0, first[rank]});
        join(now_[rank], first[peer]);
      }
  }

  // False: it has to wait.
  bool carry_out(int rank) {
    const Instruction& one = programs_[rank][at_[rank]];
    if (one.verb == Verb::pass) return carry_out_pass(rank, one);
    if (one.peer < 0 || one.peer >= ranks() || one.peer == rank) {
      refuse(here(rank) + ": there is no such peer");
      return false;
    }
    if (one.verb == Verb::post) {
      ++now_[rank][rank];
      told_[{rank, one.peer}].push_back({one.number, now_[rank]});
      return true;
    }
    const auto& told = told_[{one.peer, rank}];
    const auto heard =
        std::ranges::find_if(told, [&](const Told& each) { return each.number >= one.number; });
    if (heard == told.end()) return false;
    ++now_[rank][rank];
    join(now_[rank], heard->clock);
    return true;
  }

  bool is_well_formed(int rank, const Instruction& pass) {
    if (pass.dst.empty() || pass.src.empty() || pass.dst[0].span.count < 1) {
      refuse(here(rank) + " has no operand or no result");
      return false;
    }
    for (const auto* refs : {&pass.dst, &pass.src})
      for (const Ref& ref : *refs) {
        if (ref.span.count != pass.dst[0].span.count)
          refuse(here(rank) + " has spans of different length");
        if (ref.slot < 0 &&
            (ref.rank < 0 || ref.rank >= ranks() || ref.span.first < 0 ||
             ref.span.first + ref.span.count > static_cast<int>(cells_[ref.rank].size())))
          refuse(here(rank) + " is about memory that there is not");
        if (ref.row >= 0 && ref.rank != rank) refuse(here(rank) + " is about another rank's row");
        if (ref.slot >= static_cast<int>(packets_.size()))
          refuse(here(rank) + " is about a packet that there is not");
      }
    return !flaw_;
  }

  bool carry_out_pass(int rank, const Instruction& pass) {
    if (!is_well_formed(rank, pass)) return false;
    for (const Ref& ref : pass.src)
      if (ref.slot >= 0 && packets_[ref.slot].empty()) return false;  // has not come
    const Time time = ++now_[rank][rank];
    std::vector<Expressions::Id> values(pass.dst[0].span.count);
    for (size_t operand = 0; operand < pass.src.size(); ++operand)
      for (int i = 0; i < pass.src[operand].span.count; ++i) {
        const Expressions::Id value = read(rank, pass.src[operand], i);
        values[i] = operand == 0 ? value : expressions_.sum(values[i], value);
      }
    // All are ordered before any is noted: a pass may write what it reads.
    for (const Ref& ref : pass.src) note_reads(ref, rank, time);
    for (const Ref& ref : pass.dst) write(rank, ref, values, time);
    return true;
  }

  // Precondition: no slot.
  Cell& cell_of(const Ref& ref, int i) {
    if (!rows_apart_ || ref.row < 0) return cells_[ref.rank][ref.span.first + i];
    Cell& cell = rows_[{ref.rank, ref.row, i}];
    cell.read.resize(all_.size(), 0);
    return cell;
  }

  Expressions::Id read(int rank, const Ref& ref, int i) {
    if (ref.slot >= 0) return packets_[ref.slot][i];
    const Cell& cell = cell_of(ref, i);
    if (!cell.written.before(now_[rank]))
      refuse(fmt::format("{} reads chunk {} of rank {}, which rank {} may write at the same time",
                         here(rank), ref.span.first + i, ref.rank, cell.written.rank));
    return cell.value;
  }

  void note_reads(const Ref& ref, int rank, Time time) {
    if (ref.slot >= 0) return;
    for (int i = 0; i < ref.span.count; ++i) cell_of(ref, i).read[rank] = time;
  }

  void write(int rank, const Ref& ref, const std::vector<Expressions::Id>& values, Time time) {
    if (ref.slot >= 0) {
      if (!packets_[ref.slot].empty()) refuse(here(rank) + " sends a packet a second time");
      packets_[ref.slot] = values;
      return;
    }
    for (int i = 0; i < ref.span.count; ++i) {
      Cell& cell = cell_of(ref, i);
      if (const auto other = unordered_with(cell, now_[rank]))
        refuse(fmt::format("{} writes chunk {} of rank {}, which rank {} may use at the same time",
                           here(rank), ref.span.first + i, ref.rank, *other));
      cell.value = values[i];
      cell.written = {rank, time};
      cell.read.assign(cell.read.size(), 0);
    }
  }

  // A rank whose access is not before what the clock knows.
  std::optional<int> unordered_with(const Cell& cell, const Clock& clock) const {
    if (!cell.written.before(clock)) return cell.written.rank;
    for (int reader = 0; reader < ranks(); ++reader)
      if (!Event{reader, cell.read[reader]}.before(clock)) return reader;
    return std::nullopt;
  }

  void look_for_ends() {
    for (int rank = 0; rank < ranks(); ++rank)
      if (at_[rank] < programs_[rank].size())
        return refuse(fmt::format("deadlock: {} is never reached", here(rank)));
  }

  void look_at_results() {
    Meaning meaning{expressions_};
    const auto expected = execute(all_, meaning);
    for (int rank = 0; rank < ranks(); ++rank)
      for (size_t chunk = 0; chunk < cells_[rank].size(); ++chunk) {
        const Cell& cell = cells_[rank][chunk];
        if (const auto other = unordered_with(cell, now_[rank]))
          return refuse(
              fmt::format("rank {} ends while rank {} may use its chunk {}", rank, *other, chunk));
        if (static_cast<int>(chunk) < all_[rank].chunks && cell.value != expected[rank][chunk])
          return refuse(fmt::format("rank {} ends with {} in chunk {}, not with {}", rank,
                                    expressions_.print(cell.value), chunk,
                                    expressions_.print(expected[rank][chunk])));
      }
  }

  const std::vector<Schedule>& all_;
  const bool rows_apart_;
  const std::vector<Program>& programs_;
  std::vector<std::vector<Expressions::Id>> packets_;  // by message; empty: has not come
  Expressions expressions_;
  std::vector<size_t> at_;  // by rank: the next instruction
  std::vector<Clock> now_;
  std::vector<std::vector<Cell>> cells_;                   // by rank and chunk
  std::map<std::tuple<int, int, int>, Cell> rows_;         // by rank, row and chunk of its span
  std::map<std::pair<int, int>, std::vector<Told>> told_;  // from, to
  std::optional<std::string> flaw_;
};

bool has_rows(const Lowered& lowered) {
  const auto in_row = [](const Ref& ref) { return ref.row >= 0; };
  for (const Program& program : lowered.programs)
    for (const Instruction& one : program)
      if (std::ranges::any_of(one.dst, in_row)) return true;
  return false;
}

}  // namespace

std::optional<std::string> prove(const std::vector<Schedule>& all, const Lowered& lowered,
                                 bool hellos) {
  if (all.empty() || lowered.programs.size() != all.size())
    return fmt::format("{} programs for {} ranks", lowered.programs.size(), all.size());
  const auto flaw = Execution(all, lowered, false).run(hellos);
  return flaw || !has_rows(lowered) ? flaw : Execution(all, lowered, true).run(hellos);
}

}  // namespace ringwood::device
