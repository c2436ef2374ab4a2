#include "tests/support/interpreter.h"

#include <fmt/format.h>

namespace ringwood::testing {
namespace {

bool touch(Span a, Span b) { return a.first < b.first + b.count && b.first < a.first + a.count; }

// Spans that a step does not use are empty and touch nothing.
bool ordered(const Step& earlier, const Step& later) {
  const bool same_link = earlier.peer >= 0 && earlier.peer == later.peer &&
                         (earlier.kind == StepKind::send) == (later.kind == StepKind::send);
  return same_link || touch(earlier.dst, later.dst) || touch(earlier.dst, later.src) ||
         touch(earlier.src, later.dst);
}

}  // namespace

size_t Interpreter::user_size(int rank, int chunk) const {
  if (equal_blocks_ && in_blocks(collective_)) return 3;
  switch (traits_of(collective_).chunks) {
    case Chunks::none: return 1;
    case Chunks::pieces: return 2 + fixed(0, chunk, 0) % 2;
    case Chunks::outputs: return 1 + fixed(0, chunk, 0) % 4;
    case Chunks::inputs_and_output: return 1 + fixed(0, chunk == n_ ? rank : chunk, 0) % 4;
    case Chunks::inputs_and_outputs: break;
  }
  return 1 + (chunk < n_ ? fixed(0, rank, chunk) : fixed(0, chunk - n_, rank)) % 4;
}

// Numbers of 32 bits in a float's 24: nearly every addition rounds.
Interpreter::Element Interpreter::own(int rank, int chunk, size_t i) const {
  const uint64_t bits = fixed(rank, chunk, 100 + static_cast<int64_t>(i));
  return {bits, static_cast<float>(bits >> 32)};
}

std::vector<Interpreter::Element> Interpreter::own(int rank, int chunk) const {
  std::vector<Element> result;
  for (size_t i = 0; i < user_size(rank, chunk); ++i) result.push_back(own(rank, chunk, i));
  return result;
}

std::vector<Interpreter::Element> Interpreter::sum(RankRange ranks, int chunk, size_t size) const {
  std::vector<Element> result(size, Element{0, 0});
  for (int rank = ranks.first; rank < ranks.first + ranks.count; ++rank) {
    for (size_t i = 0; i < size; ++i) result[i].exact += own(rank, chunk, i).exact;
  }
  return result;
}

// Own data where the collective says so, garbage everywhere else.
void Interpreter::fill() {
  memory_.assign(n_, {});
  done_.assign(n_, {});
  for (int rank = 0; rank < n_; ++rank) {
    const Schedule& s = all_[rank];
    done_[rank].assign(s.steps.size(), false);
    for (int c = 0; c < s.chunks + static_cast<int>(s.scratch.size()); ++c) {
      const bool starts_full = c < s.chunks && begins_with(collective_, {rank, n_, root_}, c);
      if (starts_full) {
        memory_[rank].push_back(own(rank, c));
        continue;
      }
      const int like = c < s.chunks ? c : s.scratch[c - s.chunks];
      std::vector<Element> garbage(user_size(rank, like));
      for (Element& e : garbage) e = {draw(), static_cast<float>(draw() % 1000)};
      memory_[rank].push_back(garbage);
    }
  }
}

bool Interpreter::enabled(int rank, size_t step) const {
  const auto& steps = all_[rank].steps;
  if (done_[rank][step]) return false;
  for (size_t i = 0; i < step; ++i) {
    if (!done_[rank][i] && ordered(steps[i], steps[step])) return false;
  }
  return true;
}

bool Interpreter::finished(int rank) const {
  for (bool done : done_[rank]) {
    if (!done) return false;
  }
  return true;
}

bool Interpreter::in_range(int rank, Span span) {
  const size_t end = static_cast<size_t>(span.first) + span.count;
  if (span.first >= 0 && end <= memory_[rank].size()) return true;
  flaw_ = fmt::format("rank {} uses a chunk that does not exist", rank);
  return false;
}

// Both ends of a message join it to the same one, and only to a message like it before it.
void Interpreter::check_joined(int from, size_t send, int to, size_t recv) {
  const auto rightly = [&](int rank, size_t i) {
    const auto& steps = all_[rank].steps;
    const Step& step = steps[i];
    return !step.joined || (step.peer >= 0 && i > 0 && steps[i - 1].kind == step.kind &&
                            steps[i - 1].peer == step.peer);
  };
  if (!rightly(from, send) || !rightly(to, recv) ||
      all_[from].steps[send].joined != all_[to].steps[recv].joined)
    flaw_ = fmt::format("rank {} and rank {} join different messages", from, to);
}

// dst = or += src, element by element over all chunks of the spans.
void Interpreter::move(int from, Span src, int to, const Step& sink) {
  if (!in_range(from, src) || !in_range(to, sink.dst)) return;
  std::vector<Element> operand;
  for (int c = src.first; c < src.first + src.count; ++c) {
    operand.insert(operand.end(), memory_[from][c].begin(), memory_[from][c].end());
  }
  const bool adds = sink.kind == StepKind::recv_reduce || sink.kind == StepKind::reduce;
  size_t at = 0, room = 0;
  for (int c = sink.dst.first; c < sink.dst.first + sink.dst.count; ++c) {
    for (Element& e : memory_[to][c]) {
      if (room++ >= operand.size()) continue;
      const Element& in = operand[at++];
      e = adds ? Element{e.exact + in.exact, e.rounded + in.rounded} : in;
    }
  }
  if (room != operand.size()) flaw_ = fmt::format("rank {} gets the wrong size", to);
}

// One random event among all that are possible; false if there is none.
bool Interpreter::step_anywhere() {
  struct Choice {
    int rank;
    size_t step;
    int to;
    size_t to_step;  // the receiver's side of a message, or the same step again
  };
  std::vector<Choice> choices;
  for (int rank = 0; rank < n_; ++rank) {
    for (size_t i = 0; i < done_[rank].size(); ++i) {
      const Step& step = all_[rank].steps[i];
      if (!enabled(rank, i)) continue;
      if (step.peer < 0) choices.push_back({rank, i, rank, i});
      if (step.kind != StepKind::send) continue;
      for (size_t j = 0; j < done_[step.peer].size(); ++j) {
        const Step& sink = all_[step.peer].steps[j];
        const bool receives = sink.peer == rank && sink.kind != StepKind::send;
        if (receives && enabled(step.peer, j)) choices.push_back({rank, i, step.peer, j});
      }
    }
  }
  if (choices.empty()) return false;
  const auto [rank, step, to, to_step] = choices[draw() % choices.size()];
  check_joined(rank, step, to, to_step);
  move(rank, all_[rank].steps[step].src, to, all_[to].steps[to_step]);
  done_[rank][step] = true;
  done_[to][to_step] = true;
  return true;
}

std::string Interpreter::run() {
  fill();
  while (step_anywhere()) {
  }
  for (int rank = 0; rank < n_; ++rank) {
    if (!finished(rank)) return fmt::format("rank {} is stuck", rank);
  }
  if (!flaw_.empty()) return flaw_;
  if (moves_data(collective_)) return check();
  for (int late = 0; late < n_; ++late) {
    if (std::string flaw = check_barrier(late); !flaw.empty()) return flaw;
  }
  return "";
}

std::string Interpreter::check() const {
  for (int rank = 0; rank < n_; ++rank) {
    for (int c = 0; c < all_[rank].chunks; ++c) {
      const std::vector<Element>& found = memory_[rank][c];
      const auto wanted = ends_with(collective_, {rank, n_, root_}, c);
      if (!wanted) continue;
      const auto [ranks, chunk, by_order] = *wanted;  // the float depends on the order
      std::vector<Element> right =
          by_order ? sum(ranks, chunk, found.size()) : own(ranks.first, chunk);
      for (size_t i = 0; by_order && i < found.size(); ++i) {
        const bool compare = ends_in_same_sums(collective_);
        right[i].rounded = compare ? memory_[0][c][i].rounded : found[i].rounded;
      }
      if (found != right) return fmt::format("rank {} chunk {} is wrong", rank, c);
    }
  }
  return "";
}

// Sends into unbounded buffers, and a rank that never begins: then no rank may finish.
std::string Interpreter::check_barrier(int late) {
  fill();
  std::vector<std::vector<int>> mail(n_, std::vector<int>(n_, 0));
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < n_; ++rank) {
      for (size_t i = 0; rank != late && i < done_[rank].size(); ++i) {
        const Step& step = all_[rank].steps[i];
        if (!enabled(rank, i)) continue;
        if (step.kind == StepKind::send) {
          ++mail[rank][step.peer];
        } else if (step.peer >= 0 && mail[step.peer][rank]-- <= 0) {
          ++mail[step.peer][rank];
          continue;
        }
        done_[rank][i] = true;
        moved = true;
      }
    }
  }
  for (int rank = 0; rank < n_; ++rank) {
    if (rank != late && finished(rank))
      return fmt::format("rank {} does not wait for {}", rank, late);
  }
  return "";
}

}  // namespace ringwood::testing
