#include "collectives/checker/expectation.h"

#include <algorithm>
#include <deque>

#include <fmt/format.h>

namespace ringwood {
namespace {

bool sums(const Step& step) {
  return step.kind == StepKind::recv_reduce || step.kind == StepKind::reduce;
}

// The steps, one for each chunk of a span.
std::vector<Step> taken_apart(const std::vector<Step>& steps) {
  std::vector<Step> apart;
  for (const Step& step : steps)
    for (int i = 0; i < std::max(step.dst.count, step.src.count); ++i) {
      Step one = step;
      if (one.dst.count > 0) one.dst = {step.dst.first + i, 1};
      if (one.src.count > 0) one.src = {step.src.first + i, 1};
      apart.push_back(one);
    }
  return apart;
}

template <class Function>
void each_chunk(Span span, Function f) {
  for (int c = span.first; c < span.first + span.count; ++c) f(static_cast<size_t>(c));
}

// What follows from one rank's steps alone.
struct Program {
  std::vector<Step> steps;
  std::vector<char> first, last;  // of an accumulation, by addition
  // By step and chunk of its dst: whether it is sent to another host.
  std::vector<std::vector<char>> goes_across;
  std::vector<char> own_goes_across;  // by chunk: likewise, of its initial contents
};

void find_accumulations(Program& program, size_t chunks) {
  const std::vector<Step>& steps = program.steps;
  program.first.assign(steps.size(), 1);
  program.last.assign(steps.size(), 1);
  std::vector<size_t> next(chunks, steps.size());  // next step that touches the chunk
  for (size_t i = steps.size(); i-- > 0;) {
    const Step& step = steps[i];
    if (sums(step)) {
      const size_t j = next[static_cast<size_t>(step.dst.first)];
      bool goes_on = j < steps.size() && sums(steps[j]) && steps[j].dst == step.dst;
      each_chunk(step.dst, [&](size_t c) { goes_on = goes_on && next[c] == j; });
      if (goes_on) program.last[i] = program.first[j] = 0;
    }
    each_chunk(step.src, [&](size_t c) { next[c] = i; });
    each_chunk(step.dst, [&](size_t c) { next[c] = i; });
  }
}

void find_crossings(const PlanSet& set, int rank, Program& program, size_t chunks) {
  constexpr int kAtBeginning = -1;
  program.own_goes_across.assign(chunks, 0);
  std::vector<int> writer(chunks, kAtBeginning);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    program.goes_across.emplace_back(static_cast<size_t>(step.dst.count), 0);
    if (step.kind == StepKind::send && set.between_hosts(rank, step.peer))
      each_chunk(step.src, [&](size_t c) {
        if (writer[c] == kAtBeginning) {
          program.own_goes_across[c] = 1;
          return;
        }
        const auto w = static_cast<size_t>(writer[c]);
        program.goes_across[w][c - static_cast<size_t>(program.steps[w].dst.first)] = 1;
      });
    each_chunk(step.dst, [&](size_t c) { writer[c] = static_cast<int>(i); });
  }
}

// The ideal execution of all ranks, for one segment.
class Ideal {
 public:
  struct Value {
    Symbol what, plain;  // plain: only the additions
    int ranks = 0;  // whose numbers were added, n + 1 where there are more (a program may double)
    int own = -1;   // the rank whose own numbers these are; -1: a sum
  };

  Ideal(const PlanSet& set, Symbols& symbols, const std::vector<Program>& programs, int segment,
        bool rounds_each)
      : set_(set),
        symbols_(symbols),
        programs_(programs),
        args_(set.args()),
        format_(set.format()),
        rounds_(reduces(args_.collective) && accumulates_wide(args_.type, args_.op)),
        rounds_each_(rounds_each),
        at_(programs.size()) {
    chunks_ = set.proved[0].chunks;
    for (int r = 0; r < set.n(); ++r) {
      const Schedule& s = set.proved[static_cast<size_t>(r)];
      values_.emplace_back(static_cast<size_t>(s.chunks) + s.scratch.size());
      for (int c = 0; c < s.chunks; ++c) {
        const ChunkBytes place = chunk_bytes(set, r, chunks_, segment, c);
        bytes_.push_back(place.bytes);
        Value& value = values_.back()[static_cast<size_t>(c)];
        value = {symbols_.own(r, place.buffer, place.begin), {}, 1, r};
        value.plain = value.what;
        if (crosses_everywhere() &&
            programs[static_cast<size_t>(r)].own_goes_across[static_cast<size_t>(c)])
          value.what = encoded(value.what, place.bytes);
      }
    }
  }

  // False: a receive has no matching send.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < programs_.size(); ++r)
        for (; at_[r] < programs_[r].steps.size() && step(r); ++at_[r]) moved = true;
    }
    for (size_t r = 0; r < programs_.size(); ++r)
      if (at_[r] < programs_[r].steps.size()) return false;
    return true;
  }

  const Value& value(int rank, int chunk) const {
    return values_[static_cast<size_t>(rank)][static_cast<size_t>(chunk)];
  }
  // Every complete sum was one accumulation from the ranks' own numbers.
  bool whole() const { return whole_; }
  // The ranks end with the same sums, but with different roundings.
  PlanFlaw unlike() const {
    PlanFlaw flaw;
    for (int r = 1; r < set_.n(); ++r)
      for (int c = 0; c < chunks_; ++c) {
        if (value(r, c).plain != value(0, c).plain) return std::nullopt;
        if (!flaw && value(r, c).what != value(0, c).what)
          flaw = fmt::format("rank {} and rank 0 end with different bits in chunk {}: {} and {}", r,
                             c, symbols_.print(value(r, c).what), symbols_.print(value(0, c).what));
      }
    return flaw;
  }

 private:
  using Run = std::vector<Value>;

  // Whether all ranks must end with the same bits.
  bool crosses_everywhere() const {
    return format_ != WireFormat::exact && ends_in_same_sums(args_.collective);
  }
  Symbol encoded(Symbol what, size_t bytes) {
    if (bytes == 0) return what;
    return symbols_.encoded({{bytes, what}}, format_)[0].what;
  }
  size_t bytes_of_chunk(size_t rank, int chunk) const {
    const Schedule& s = set_.proved[rank];
    const int like = chunk < s.chunks ? chunk : s.scratch[static_cast<size_t>(chunk - s.chunks)];
    return bytes_[rank * static_cast<size_t>(s.chunks) + static_cast<size_t>(like)];
  }

  bool step(size_t rank) {
    const Program& program = programs_[rank];
    const Step& step = program.steps[at_[rank]];
    const auto me = static_cast<int>(rank);
    Run operand;
    each_chunk(step.src, [&](size_t c) { operand.push_back(values_[rank][c]); });
    if (step.kind == StepKind::send) {
      if (format_ != WireFormat::exact && set_.between_hosts(me, step.peer))
        for (size_t i = 0; i < operand.size(); ++i)
          operand[i].what =
              encoded(operand[i].what, bytes_of_chunk(rank, step.src.first + static_cast<int>(i)));
      link(me, step.peer).push_back(std::move(operand));
      return true;
    }
    if (step.peer >= 0) {
      auto& from = link(step.peer, me);
      if (from.empty()) return false;
      operand = std::move(from.front());
      from.pop_front();
    }
    for (size_t i = 0; i < operand.size(); ++i) {
      Value& to = values_[rank][static_cast<size_t>(step.dst.first) + i];
      to = sums(step) ? sum(to, operand[i], program.first[at_[rank]], program.last[at_[rank]])
                      : operand[i];
      if (crosses_everywhere() && program.goes_across[at_[rank]][i])
        to.what = encoded(to.what, bytes_of_chunk(rank, step.dst.first + static_cast<int>(i)));
    }
    return true;
  }

  Value sum(const Value& a, const Value& b, bool first, bool last) {
    const int n = set_.n();
    Value result{symbols_.sum(scaled(a), scaled(b)), symbols_.sum(a.plain, b.plain),
                 std::min(a.ranks + b.ranks, n + 1), -1};
    const bool completes = result.ranks == n;
    whole_ = whole_ && b.own >= 0 && (a.own >= 0) == first && completes == last;
    if (completes && args_.op == ReduceOp::avg && scales_here(args_))
      result.what = symbols_.divided(result.what, divides() ? n : n * down());
    if (rounds_ && (last || rounds_each_)) result.what = symbols_.rounded(result.what);
    return result;
  }
  bool divides() const { return divides_whole_sums(args_, set_.of(0).scaling.whole); }
  double down() const {
    double scale = 1;
    while (scale * set_.n() > 1) scale /= 2;
    return scale;
  }
  Symbol scaled(const Value& value) {
    if (value.own < 0 || !scales_here(args_)) return value.what;
    if (args_.op == ReduceOp::premul_sum) return symbols_.times_factor_of(value.what, value.own);
    return divides() ? value.what : symbols_.times(value.what, down());
  }
  std::deque<Run>& link(int from, int to) {
    const auto n = static_cast<size_t>(set_.n());
    links_.resize(n * n);
    return links_[static_cast<size_t>(from) * n + static_cast<size_t>(to)];
  }

  const PlanSet& set_;
  Symbols& symbols_;
  const std::vector<Program>& programs_;
  const CollectiveArgs& args_;
  const WireFormat format_;
  const bool rounds_, rounds_each_;
  int chunks_ = 0;
  std::vector<size_t> bytes_;               // by rank and user's chunk
  std::vector<std::vector<Value>> values_;  // by rank and chunk
  std::vector<size_t> at_;
  std::vector<std::deque<Run>> links_;
  bool whole_ = true;
};

std::vector<Program> programs_of(const PlanSet& set) {
  std::vector<Program> programs;
  // Blocks lie anywhere, and wire formats have blocks of their own: there spans are split.
  const bool apart =
      !cut_from_one_buffer(set.args().collective) || set.format() != WireFormat::exact;
  for (int r = 0; r < set.n(); ++r) {
    const Schedule& s = set.proved[static_cast<size_t>(r)];
    const size_t chunks = static_cast<size_t>(s.chunks) + s.scratch.size();
    Program program;
    program.steps = apart ? taken_apart(s.steps) : s.steps;
    find_accumulations(program, chunks);
    find_crossings(set, r, program, chunks);
    programs.push_back(std::move(program));
  }
  return programs;
}

// Checks what the plans state about the sums of all ranks.
PlanFlaw check_claims(const PlanSet& set, Symbols& symbols, const std::vector<Program>& programs,
                      const Ideal& ideal) {
  const Plan& plan = set.of(0);
  const bool same_sums = ends_in_same_sums(set.args().collective);
  if (same_sums && !plan.wide.rounds_each)
    if (PlanFlaw flaw = ideal.unlike()) return flaw;
  bool accumulations_agree = true;
  if (plan.wide.rounds_each) {
    Ideal by_accumulations(set, symbols, programs, 0, false);
    by_accumulations.run();
    accumulations_agree = !same_sums || !by_accumulations.unlike();
    if (accumulations_agree)
      return "each addition is rounded, although all ranks have the same accumulations";
  }
  if (plan.scaling.on && plan.scaling.whole != (ideal.whole() && accumulations_agree))
    return fmt::format(
        "sums are {} accumulations of all ranks' own numbers, and planned as if they were{}",
        ideal.whole() ? "whole" : "no whole", ideal.whole() ? " not" : "");
  return std::nullopt;
}

}  // namespace

Expectation expect(const PlanSet& set, Symbols& symbols) {
  Expectation result;
  for (int r = 0; r < set.n(); ++r) {
    result.memory.emplace_back();
    for (int b = 0; b < user_buffers(set); ++b)
      result.memory.back().emplace_back(user_bytes(set, r, b), symbols.own(r, b, 0));
  }
  if (!moves_data(set.args().collective)) return result;
  const std::vector<Program> programs = programs_of(set);
  for (int segment = 0; segment < set.of(0).form.segments; ++segment) {
    Ideal ideal(set, symbols, programs, segment, set.of(0).wide.rounds_each);
    if (!ideal.run()) {
      result.flaw = "the schedules never end";
      return result;
    }
    for (int r = 0; r < set.n(); ++r)
      for (int c = 0; c < set.proved[0].chunks; ++c) {
        const ChunkBytes to = chunk_bytes(set, r, set.proved[0].chunks, segment, c);
        result.memory[static_cast<size_t>(r)][static_cast<size_t>(to.buffer)].write(
            to.begin, {{to.bytes, ideal.value(r, c).what}});
      }
    if (segment == 0) result.flaw = check_claims(set, symbols, programs, ideal);
    if (result.flaw) return result;
  }
  return result;
}

}  // namespace ringwood
