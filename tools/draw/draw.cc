#include "tools/draw/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "collectives/schedule/graph.h"
#include "collectives/schedule/interpret.h"
#include "collectives/verify/verify_execution.h"
#include "collectives/verify/verify_rules.h"

namespace ringwood {
namespace {

[[noreturn]] void refuse_picture(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "these schedules cannot be drawn: " + why);
}

// Checks what the execution below assumes.
void check_ranges(GroupSchedules all, int root) {
  const int n = all.size();
  if (n == 0) refuse_picture("there are none");
  if (root < 0 || root >= n) refuse_picture(fmt::format("root {} is not one of {} ranks", root, n));
  for (int rank = 0; rank < n; ++rank) {
    const ScheduleView s = all[rank];
    if (s.rank != rank || s.n != n || s.chunks != all[0].chunks) {
      refuse_picture(fmt::format("number {} of {} says rank {} of {} with {} chunks, not {}", rank,
                                 n, s.rank, s.n, s.chunks, all[0].chunks));
    }
    const int64_t total = s.chunks + int64_t{s.scratch_size()};
    auto outside = [&](Span span) {
      return span.first < 0 || span.count < 0 || int64_t{span.first} + span.count > total;
    };
    for (int32_t i = 0; i < s.size(); ++i) {
      const Step step = s.step(i);
      const bool local = step.kind == StepKind::reduce || step.kind == StepKind::copy;
      const bool bad_peer = !local && (step.peer < 0 || step.peer >= n || step.peer == rank);
      const bool uneven = local && step.src.count != step.dst.count;
      if (!bad_peer && !uneven && !outside(step.src) && !outside(step.dst)) continue;
      refuse_picture(step_words(all, rank, i) + " is out of range");
    }
  }
}

// When everything happens, by the rounds of draw.h.
class Rounds {
 public:
  explicit Rounds(GroupSchedules all) : all_(all), messages_(all) {}

  // `sent(event, ready, time)`: a message leaves when its sender is ready, and arrives.
  template <class Sent>
  void run(Sent&& sent) {
    if (messages_.flaw) refuse_picture(*messages_.flaw);
    const Graphs graphs(all_);
    time_.assign(messages_.steps(), 0);
    arrived_.assign(messages_.links(), 0);
    const auto flaw = run_unbuffered(all_, graphs, messages_,
                                     [&](const Event& event) { take(event, graphs, sent); });
    if (flaw) refuse_picture(*flaw);
  }
  int total() const { return total_; }
  int end(int rank, int step) const { return time_[messages_.first_step(rank) + step]; }
  const Messages& messages() const { return messages_; }

 private:
  template <class Sent>
  void take(const Event& event, const Graphs& graphs, Sent& sent) {
    const int ready = end(event.rank, event.step);
    int time = ready;
    if (event.to >= 0) {
      int32_t& before = arrived_[messages_.link(event.rank, event.step)];
      before = time = std::max({ready + 1, end(event.to, event.to_step), before});
      sent(event, ready, time);
      release(graphs, event.to, event.to_step, time);
    }
    total_ = std::max(total_, time);
    release(graphs, event.rank, event.step, time);
  }

  void release(const Graphs& graphs, int rank, int step, int time) {
    int32_t* times = time_.data() + messages_.first_step(rank);
    times[step] = time;
    const Graphs::View& graph = graphs[rank];
    for (int32_t at = graph.offset[step]; at < graph.offset[step + 1]; ++at) {
      int32_t& ready = times[graph.successor[at]];
      ready = std::max(ready, time);
    }
  }

  const GroupSchedules all_;
  const Messages messages_;
  std::vector<int32_t> time_;     // by step: when it is ready, and from its event on when it ends
  std::vector<int32_t> arrived_;  // by link: when the last message did
  int total_ = 0;
};

// Records when everything happens, then what moves.
class Tracer {
 public:
  struct Value {  // of a chunk
    int operands = 0;
    int chunk = -1;  // the chunk whose operands these are
  };

  Tracer(Collective collective, const std::vector<Schedule>& all, int root)
      : all_(all),
        rules_{collective, static_cast<int>(all.size()), root, 1, all[0].chunks},
        rounds_(all) {}

  Picture run() {
    for (const Schedule& s : all_) arrow_.emplace_back(s.steps.size(), -1);
    rounds_.run([this](const Event& event, int ready, int time) {
      const bool adds = all_[event.to].steps[event.to_step].kind == StepKind::recv_reduce;
      arrow_[event.rank][event.step] = static_cast<int>(picture_.arrows.size());
      picture_.arrows.push_back({ready, time, event.rank, event.to, adds, {}});
    });
    picture_.rounds = rounds_.total();
    execute(all_, rounds_.messages(), *this);
    finish();
    return std::move(picture_);
  }

  // ---- for the interpreter
  Value begin(int rank, int chunk) {
    if (!rules_.begins(rank, chunk)) return {};
    changes_.push_back({0, rank, chunk, 1});
    return {1, chunk};
  }
  Value send(const Move& m, Value value) {
    if (value.chunk >= 0)
      picture_.arrows[arrow_[m.from][m.from_step]].chunks.push_back(value.chunk);
    return value;
  }
  Value copy(const Move& m, Value value) {
    const int time = rounds_.end(m.to, m.to_step);
    if (m.dst < rules_.chunks) changes_.push_back({time, m.to, m.dst, value.operands});
    return value;
  }
  Value add(const Move& m, Value target, Value operand) {
    return copy(m, {target.operands + operand.operands, operand.chunk});
  }

 private:
  struct Change {
    int time, rank, chunk, operands;
  };

  void finish() {
    auto key = [](const Picture::Arrow& a) {
      return std::tie(a.round, a.from, a.to, a.arrival, a.adds);
    };
    auto& arrows = picture_.arrows;
    std::stable_sort(arrows.begin(), arrows.end(),
                     [&](const auto& a, const auto& b) { return key(a) < key(b); });
    std::vector<Picture::Arrow> merged;
    for (Picture::Arrow& arrow : arrows) {
      if (merged.empty() || key(merged.back()) != key(arrow)) {
        merged.push_back(std::move(arrow));
      } else {
        auto& chunks = merged.back().chunks;
        chunks.insert(chunks.end(), arrow.chunks.begin(), arrow.chunks.end());
      }
    }
    for (Picture::Arrow& arrow : merged) std::sort(arrow.chunks.begin(), arrow.chunks.end());
    arrows = std::move(merged);

    const std::vector<int> empty(rules_.chunks, 0);
    picture_.operands.assign(picture_.rounds + 1, std::vector<std::vector<int>>(rules_.n, empty));
    for (const Change& change : changes_) {
      for (int k = change.time; k <= picture_.rounds; ++k) {
        picture_.operands[k][change.rank][change.chunk] = change.operands;
      }
    }
  }

  const std::vector<Schedule>& all_;
  const Rules rules_;
  Rounds rounds_;
  std::vector<std::vector<int>> arrow_;  // by rank and send, in picture_ before finish()
  std::vector<Change> changes_;
  Picture picture_;
};

}  // namespace

Picture lay_out(Collective collective, const std::vector<Schedule>& all, int root) {
  check_ranges(all, root);
  return Tracer(collective, all, root).run();
}

int count_rounds(GroupSchedules all, int root) {
  check_ranges(all, root);
  Rounds rounds(all);
  rounds.run([](const Event&, int, int) {});
  return rounds.total();
}

std::string print_chunks(const std::vector<int>& chunks) {
  std::string text;
  for (size_t i = 0; i < chunks.size();) {
    size_t end = i + 1;
    while (end < chunks.size() && chunks[end] == chunks[end - 1] + 1) ++end;
    text += text.empty() ? "[" : " ";
    text += std::to_string(chunks[i]);
    if (end > i + 1) text += fmt::format(":{}", chunks[end - 1] + 1);
    i = end;
  }
  return text.empty() ? text : text + "]";
}

std::string draw_ascii(Collective collective, const std::vector<Schedule>& all, int root) {
  const Picture picture = lay_out(collective, all, root);
  const size_t n = all.size();
  // By round and rank: the lines of a table cell.
  std::vector<std::vector<std::vector<std::string>>> cells(
      picture.rounds, std::vector<std::vector<std::string>>(n));
  for (const Picture::Arrow& arrow : picture.arrows) {
    const std::string chunks = print_chunks(arrow.chunks);
    cells[arrow.round][arrow.from].push_back(fmt::format(
        "{}{}{} {}", chunks, chunks.empty() ? "" : " ", arrow.adds ? "+>" : "->", arrow.to));
  }
  std::vector<size_t> widths;
  for (size_t rank = 0; rank < n; ++rank) {
    size_t width = fmt::format("rank {}", rank).size();
    for (const auto& row : cells) {
      for (const std::string& line : row[rank]) width = std::max(width, line.size());
    }
    widths.push_back(width);
  }
  auto trimmed = [](std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    return line + '\n';
  };
  std::string line = "round";
  for (size_t rank = 0; rank < n; ++rank) {
    line += fmt::format("  {:<{}}", fmt::format("rank {}", rank), widths[rank]);
  }
  std::string text = trimmed(line);
  for (int round = 0; round < picture.rounds; ++round) {
    size_t height = 1;
    for (const auto& cell : cells[round]) height = std::max(height, cell.size());
    for (size_t i = 0; i < height; ++i) {
      line = i == 0 ? fmt::format("{:<5}", round) : std::string(5, ' ');
      for (size_t rank = 0; rank < n; ++rank) {
        const auto& cell = cells[round][rank];
        line += fmt::format("  {:<{}}", i < cell.size() ? cell[i] : "", widths[rank]);
      }
      text += trimmed(line);
    }
  }
  return text;
}

}  // namespace ringwood
