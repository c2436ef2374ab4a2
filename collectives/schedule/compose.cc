#include "collectives/schedule/compose.h"

#include <algorithm>

#include <fmt/format.h>

namespace ringwood {
namespace {

// A span that a step does not use is {0, 0} and remains so.
template <class Rename>
Span renamed(Span span, Rename rename) {
  return span.count == 0 ? span : Span{rename(span.first), span.count};
}

template <class Rename>
Step renamed(Step step, Rename rename) {
  step.dst = renamed(step.dst, rename);
  step.src = renamed(step.src, rename);
  return step;
}

bool overlap(Span a, Span b) { return a.first < b.first + b.count && b.first < a.first + a.count; }

// The sends of step i's span from step i on, until its contents change.
std::vector<size_t> sends_alike(const Schedule& s, size_t i) {
  const Span span = s.steps[i].src;
  std::vector<size_t> found;
  for (size_t j = i; j < s.steps.size() && !overlap(s.steps[j].dst, span); ++j)
    if (s.steps[j].kind == StepKind::send && s.steps[j].src == span) found.push_back(j);
  return found;
}

}  // namespace

Schedule segments(const Schedule& schedule, int count) {
  if (count < 1)
    refuse(fmt::format("segments: the number of segments is {}, give at least 1", count));
  const int chunks = schedule.chunks;
  const int scratch = static_cast<int>(schedule.scratch.size());
  if ((int64_t{chunks} + scratch) * count > INT32_MAX)
    refuse(fmt::format("segments: {} chunks in {} segments are more than 2^31", chunks + scratch,
                       count));
  Schedule result{schedule.rank, schedule.n, chunks * count, {}, {}};
  result.scratch.reserve(schedule.scratch.size() * count);
  for (int segment = 0; segment < count; ++segment) {
    for (int like : schedule.scratch) result.scratch.push_back(segment * chunks + like);
  }
  result.steps.reserve(schedule.steps.size() * count);
  for (size_t i = 0, end; i < schedule.steps.size(); i = end) {
    end = end_of_message(schedule.steps, i);
    for (int segment = 0; segment < count; ++segment) {
      auto piece = [&](int chunk) {
        return chunk < chunks ? segment * chunks + chunk
                              : chunks * count + segment * scratch + chunk - chunks;
      };
      for (size_t k = i; k < end; ++k) result.steps.push_back(renamed(schedule.steps[k], piece));
    }
  }
  return result;
}

Schedule then(const Schedule& a, const Schedule& b) {
  if (a.rank != b.rank || a.n != b.n || a.chunks != b.chunks) {
    refuse(
        fmt::format("then: the first schedule is of rank {} of {} with {} chunks, the second of "
                    "rank {} of {} with {}; "
                    "all three must be equal",
                    a.rank, a.n, a.chunks, b.rank, b.n, b.chunks));
  }
  Schedule result = a;
  result.scratch.insert(result.scratch.end(), b.scratch.begin(), b.scratch.end());
  const int shift = static_cast<int>(a.scratch.size());
  auto moved = [&](int chunk) { return chunk < b.chunks ? chunk : chunk + shift; };
  for (const Step& step : b.steps) result.steps.push_back(renamed(step, moved));
  return result;
}

Schedule on(const std::vector<int>& ranks, int n, const Schedule& s) {
  if (static_cast<int>(ranks.size()) != s.n) {
    refuse(fmt::format("on: {} ranks are named for a schedule of {}", ranks.size(), s.n));
  }
  std::vector<bool> seen(n, false);
  for (int rank : ranks) {
    if (rank < 0 || rank >= n) refuse(fmt::format("on: rank {} is not in a group of {}", rank, n));
    if (seen[rank]) refuse(fmt::format("on: rank {} is named twice", rank));
    seen[rank] = true;
  }
  Schedule result = s;
  result.rank = ranks.at(s.rank);
  result.n = n;
  for (Step& step : result.steps) {
    if (step.peer >= 0) step.peer = ranks.at(step.peer);
  }
  return result;
}

Schedule widen(const Schedule& s, int count) {
  if (count < 1) refuse(fmt::format("widen: a chunk cannot become {} chunks", count));
  Schedule result{s.rank, s.n, s.chunks * count, {}, {}};
  for (int like : s.scratch) {
    for (int i = 0; i < count; ++i) result.scratch.push_back(like * count + i);
  }
  // Scratch follows the user's chunks, so one rule serves both.
  auto wide = [&](Span span) { return Span{span.first * count, span.count * count}; };
  for (const Step& step : s.steps) {
    result.steps.push_back({step.kind, step.peer, wide(step.dst), wide(step.src), step.joined});
  }
  return result;
}

Schedule within(int first, int chunks, const Schedule& s) {
  if (first < 0 || chunks - s.chunks < first) {
    refuse(fmt::format("within: {} chunks from {} on are not in a buffer of {}", s.chunks, first,
                       chunks));
  }
  Schedule result{s.rank, s.n, chunks, {}, {}};
  for (int like : s.scratch) result.scratch.push_back(first + like);
  const int shift = chunks - s.chunks;
  auto moved = [&](int chunk) { return chunk < s.chunks ? chunk + first : chunk + shift; };
  for (const Step& step : s.steps) result.steps.push_back(renamed(step, moved));
  return result;
}

void append(Schedule& s, const Schedule& part, const std::vector<int>& ranks,
            std::vector<int> chunks) {
  if (static_cast<int>(ranks.size()) != part.n || static_cast<int>(chunks.size()) != part.chunks)
    refuse(fmt::format("append: {} ranks and {} chunks are named for a schedule of {} with {}",
                       ranks.size(), chunks.size(), part.n, part.chunks));
  for (const int like : part.scratch) {
    const int chunk = chunks.at(like);
    chunks.push_back(s.add_scratch(chunk < s.chunks ? chunk : s.scratch.at(chunk - s.chunks)));
  }
  for (const Step& step : part.steps) {
    for (int i = 0; i < std::max(step.dst.count, step.src.count); ++i) {
      Step one{step.kind, step.peer < 0 ? -1 : ranks.at(step.peer), {0, 0}, {0, 0}};
      if (step.dst.count > 0) one.dst = {chunks.at(step.dst.first + i)};
      if (step.src.count > 0) one.src = {chunks.at(step.src.first + i)};
      one.joined = step.joined || (i > 0 && step.peer >= 0);
      s.steps.push_back(one);
    }
  }
}

Schedule publish(const Schedule& s, Collective collective) {
  const bool blocks = in_blocks(collective);
  Schedule result{s.rank, s.n, s.chunks, s.scratch, {}};
  std::vector<Span> sources(s.steps.size(), Span{0, 0});  // by step: the span to send from instead
  size_t begin = 0;  // of the message, in the result: nothing comes between its spans
  for (size_t i = 0; i < s.steps.size(); ++i) {
    Step step = s.steps[i];
    if (!step.joined) begin = result.steps.size();
    const bool first =
        step.kind == StepKind::send && sources[i].count == 0 && !(blocks && step.src.count > 1);
    const std::vector<size_t> alike =
        first && step.src.first < s.chunks ? sends_alike(s, i) : std::vector<size_t>{};
    if (alike.size() > 1) {
      const Span copy{result.chunks + static_cast<int>(result.scratch.size()), step.src.count};
      for (int c = 0; c < copy.count; ++c) result.add_scratch(step.src.first + c);
      result.steps.insert(result.steps.begin() + static_cast<std::ptrdiff_t>(begin),
                          {StepKind::copy, -1, copy, step.src});
      ++begin;
      for (size_t j : alike) sources[j] = copy;
    }
    if (sources[i].count > 0) step.src = sources[i];
    result.steps.push_back(step);
  }
  return result;
}

bool touches_only_scratch(const Schedule& s, const Step& step) {
  const auto in_scratch = [&](Span span) { return span.count == 0 || span.first >= s.chunks; };
  return in_scratch(step.dst) && in_scratch(step.src);
}

bool moves_in_scratch(const Schedule& s) {
  if (s.steps.empty() || s.steps[0].kind != StepKind::copy || s.steps[0].dst.first < s.chunks)
    return false;
  return std::ranges::all_of(s.steps, [&](const Step& step) {
    return step.kind == StepKind::copy || touches_only_scratch(s, step);
  });
}

Schedule in_scratch(const Schedule& s) {
  const auto users = static_cast<size_t>(s.chunks);
  std::vector<bool> touched(users), wanted(users), written(users);
  const auto each = [&](Span span, auto&& visit) {
    for (int c = span.first; c < std::min(span.first + span.count, s.chunks); ++c)
      visit(static_cast<size_t>(c));
  };
  const auto read = [&](size_t c) {
    touched[c] = true;
    if (!written[c]) wanted[c] = true;
  };
  for (const Step& step : s.steps) {
    each(step.src, read);
    if (step.kind == StepKind::recv_reduce || step.kind == StepKind::reduce) each(step.dst, read);
    each(step.dst, [&](size_t c) { touched[c] = written[c] = true; });
  }
  // Chunks of one span are all touched, so they stay in sequence.
  Schedule result{s.rank, s.n, s.chunks, {}, {}};
  std::vector<int> at(users + s.scratch.size());
  for (size_t c = 0; c < users; ++c)
    if (touched[c]) at[c] = result.add_scratch(static_cast<int>(c));
  for (size_t i = 0; i < s.scratch.size(); ++i) at[users + i] = result.add_scratch(s.scratch[i]);
  const auto copy_runs = [&](const std::vector<bool>& which, bool back) {
    for (size_t first = 0, end; first < users; first = end + 1) {
      for (end = first; end < users && which[end];) ++end;
      if (end == first) continue;
      const int count = static_cast<int>(end - first);
      const Span users_own{static_cast<int>(first), count}, scratch{at[first], count};
      back ? result.copy(users_own, scratch) : result.copy(scratch, users_own);
    }
  };
  copy_runs(wanted, false);
  for (Step step : s.steps) {
    if (step.dst.count > 0) step.dst.first = at[static_cast<size_t>(step.dst.first)];
    if (step.src.count > 0) step.src.first = at[static_cast<size_t>(step.src.first)];
    result.steps.push_back(step);
  }
  copy_runs(written, true);
  return result;
}

}  // namespace ringwood
