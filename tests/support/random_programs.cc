#include "tests/support/random_programs.h"

#include <algorithm>

#include "collectives/plan/plan.h"

namespace ringwood::testing {
namespace {

struct Machine {
  int n, chunks, scratch;
  size_t count;
  std::vector<std::vector<std::vector<int64_t>>> at;  // rank, chunk, element

  void apply(int rank, Span dst, const std::vector<std::vector<int64_t>>& values, bool reduce) {
    for (int i = 0; i < dst.count; ++i)
      for (size_t e = 0; e < values[i].size(); ++e) {
        int64_t& x = at[rank][dst.first + i][e];
        x = reduce ? x + values[i][e] : values[i][e];
      }
  }
  std::vector<std::vector<int64_t>> read(int rank, Span src) const {
    return {at[rank].begin() + src.first, at[rank].begin() + src.first + src.count};
  }
};

// What the executor carries out in one pass (fusion.h): a span summed up at one rank and given
// back; before it, sometimes, another reader of what will be overwritten.
struct Exchange {
  int owner, first, width;
  std::vector<int> others;
};

Exchange random_exchange(std::mt19937& random, int n, int chunks) {
  Exchange e;
  e.owner = static_cast<int>(random() % n);
  e.first = static_cast<int>(random() % chunks);
  e.width = 1 + static_cast<int>(random() % (chunks - e.first));
  for (int r = 0; r < n; ++r)
    if (r != e.owner && (random() % 3 || e.others.empty())) e.others.push_back(r);
  return e;
}

}  // namespace

Program random_program(std::mt19937& random, int n, size_t count, int events, size_t bytes) {
  const auto pick = [&](int below) { return static_cast<int>(random() % below); };
  const int chunks = 1 + pick(5);
  Program program;
  Machine m{n, chunks, chunks, count, {}};
  for (int r = 0; r < n; ++r) {
    program.before.emplace_back();
    for (size_t e = 0; e < count; ++e)
      program.before[r].push_back(static_cast<int64_t>(random() % 1000));
    Schedule s;
    s.rank = r;
    s.n = n;
    s.chunks = chunks;
    m.at.emplace_back();
    for (int c = 0; c < chunks; ++c) {
      const Piece p = piece(count, chunks, c, 64 / bytes);
      m.at[r].emplace_back(program.before[r].begin() + p.first,
                           program.before[r].begin() + p.first + p.count);
    }
    for (int c = 0; c < chunks; ++c) {
      s.add_scratch(c);
      m.at[r].emplace_back(m.at[r][c].size(), 0);
    }
    // Scratch begins undefined, so it is written before it is read.
    s.copy({chunks, chunks}, {0, chunks});
    for (int c = 0; c < chunks; ++c) m.at[r][chunks + c] = m.at[r][c];
    program.schedules.push_back(std::move(s));
  }
  const auto event = [&](int from, int to, Span dst, Span src, bool reduce) {
    if (from == to && dst == src) return;
    Schedule &a = program.schedules[from], &b = program.schedules[to];
    if (from == to) {
      reduce ? a.reduce(dst, src) : a.copy(dst, src);
    } else {
      a.send(to, src);
      reduce ? b.recv_reduce(from, dst) : b.recv(from, dst);
    }
    m.apply(to, dst, m.read(from, src), reduce);
  };
  for (int k = 0; k < events; ++k) {
    if (pick(4) == 0) {
      const Exchange e = random_exchange(random, n, chunks);
      const Span own{e.first, e.width}, aside{e.first + chunks, e.width};
      if (pick(2)) event(pick(n), pick(n), aside, own, pick(2));
      for (const int r : e.others) event(r, e.owner, own, own, true);
      if (pick(4) == 0) event(pick(n), pick(n), aside, own, pick(2));
      for (const int r : e.others) event(e.owner, r, own, own, false);
      continue;
    }
    const int first = pick(chunks), width = 1 + pick(chunks - first);
    const int dst = first + (pick(2) ? chunks : 0), src = first + (pick(2) ? chunks : 0);
    const int from = pick(n), to = pick(n);
    const bool reduce = pick(2);
    event(from, to, {dst, width}, {src, width}, reduce);
    for (int parts = pick(3); from != to && parts > 0; --parts) {
      const int c = pick(chunks);
      event(from, to, {c + (pick(2) ? chunks : 0)}, {c + (pick(2) ? chunks : 0)}, reduce);
      program.schedules[from].steps.back().joined = true;
      program.schedules[to].steps.back().joined = true;
    }
  }
  for (int r = 0; r < n; ++r) {
    program.after.emplace_back();
    for (int c = 0; c < chunks; ++c)
      program.after[r].insert(program.after[r].end(), m.at[r][c].begin(), m.at[r][c].end());
  }
  return program;
}

std::vector<Schedule> random_all_reduce(std::mt19937& random, int n) {
  const auto pick = [&](int below) { return static_cast<int>(random() % below); };
  const int chunks = 1 + pick(4);
  std::vector<Schedule> all;
  for (int r = 0; r < n; ++r) all.push_back({r, n, chunks, {}, {}});
  const auto add_up = [&](int from, int to, Span span) {
    all[from].send(to, span);
    Schedule& s = all[to];
    if (pick(2)) return s.recv_reduce(from, span);
    const Span aside{s.chunks + static_cast<int>(s.scratch.size()), span.count};
    for (int c = 0; c < span.count; ++c) s.add_scratch(span.first + c);
    s.recv(from, aside);
    s.reduce(span, aside);
  };
  for (int first = 0; first < chunks;) {
    const Span span{first, 1 + pick(chunks - first)};
    first += span.count;
    std::vector<int> left(n);  // those whose sums are not yet in another's
    for (int r = 0; r < n; ++r) left[r] = r;
    const bool star = pick(2);
    while (left.size() > 1) {
      const auto from = 1 + pick(static_cast<int>(left.size()) - 1);
      const int to = star ? 0 : pick(from);
      add_up(left[from], left[to], span);
      left.erase(left.begin() + from);
    }
    std::vector<int> know = left;
    for (int r = 0; r < n; ++r) {
      if (r == left[0]) continue;
      const int from = star ? left[0] : know[pick(static_cast<int>(know.size()))];
      all[from].send(r, span);
      all[r].recv(from, span);
      know.push_back(r);
    }
  }
  return all;
}

}  // namespace ringwood::testing
