#include "collectives/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/schedule/compose.h"
#include "collectives/schedule/graph.h"
#include "collectives/schedule/interpret.h"
#include "collectives/schedule/messages.h"
#include "collectives/verify/verify_execution.h"
#include "collectives/verify/verify_expressions.h"
#include "collectives/verify/verify_rules.h"
#include "collectives/verify/verify_steps.h"

namespace ringwood {
namespace {

using Flaw = std::optional<std::string>;

// Expressions as the interpreter's values; stops where an undefined one is used.
struct Symbols {
  using Value = Expressions::Id;
  const Rules& rules;
  const GroupSchedules all;
  Expressions& expressions;
  Flaw flaw;

  Value begin(int rank, int chunk) const {
    return rules.begins(rank, chunk) ? expressions.leaf(rank, chunk) : Expressions::kNothing;
  }
  Value copy(const Move& m, Value operand) {
    if (operand == Expressions::kNothing) undefined(m.from, m.from_step, m.src);
    return operand;
  }
  Value add(const Move& m, Value target, Value operand) {
    copy(m, operand);
    if (target == Expressions::kNothing) undefined(m.to, m.to_step, m.dst);
    return flaw ? operand : expressions.sum(target, operand);
  }
  bool done() const { return flaw.has_value(); }

  void undefined(int rank, int step, int chunk) {
    if (flaw) return;
    flaw = fmt::format("{} reads chunk {}, which contains nothing yet", step_words(all, rank, step),
                       chunk);
  }
};

class Proof {
 public:
  Proof(const Rules& rules, GroupSchedules all)
      : rules_(rules), all_(all), expressions_(rules.n, rules.chunks) {}

  // Precondition: run() found no flaw.
  bool in_rank_order() {
    std::vector<Sum> sums(rules_.chunks);
    for (int rank = 0; rank < rules_.n; ++rank) {
      for (int c = 0; c < rules_.chunks; ++c) {
        const auto wanted = rules_.wanted(rank, c);
        if (!wanted || !wanted->reduced) continue;
        Sum& sum = sums[wanted->chunk];
        if (sum.ranks != wanted->ranks)
          sum = {wanted->ranks, expressions_.sum_in_rank_order(wanted->ranks, wanted->chunk)};
        if (values_[rank][c] != sum.value) return false;
      }
    }
    return true;
  }

  Flaw run() {
    if (Flaw flaw = flaw_of_schedules(rules_, all_)) return flaw;
    const Messages messages(all_);
    if (messages.flaw) return messages.flaw;
    if (Flaw flaw = flaw_of_messages(rules_, all_, messages)) return flaw;
    if (!moves_data(rules_.collective)) return check_heard(messages);
    if (Flaw flaw = run_unbuffered(all_, Graphs(all_), messages, {})) return flaw;
    if (Flaw flaw = check_values(messages)) return flaw;
    return may_overwrite_input(rules_.collective) ? check_own_blocks() : std::nullopt;
  }

 private:
  // Of some chunk, over these ranks; first found at a chunk of a rank.
  struct Sum {
    RankRange ranks;
    Expressions::Id value = Expressions::kNothing;
    int rank = 0, chunk = 0;
  };

  // ---- barrier ---------------------------------------------------------------------------------
  // What a step knows when it is done: its own rank, what the steps that it waited for knew, and,
  // for a receive, what the send knew when it began.
  Flaw check_heard(const Messages& messages) const {
    const Graphs graphs(all_);
    const size_t words = (rules_.n + 63) / 64;
    std::vector<uint64_t> known(words * messages.steps(), 0);
    std::vector<uint64_t> at_end(words * rules_.n, 0);
    auto add = [words](uint64_t* to, const uint64_t* from) {
      for (size_t w = 0; w < words; ++w) to[w] |= from[w];
    };
    auto finish = [&](int rank, int step, const uint64_t* heard) {
      uint64_t* mine = &known[words * (messages.first_step(rank) + step)];
      mine[rank / 64] |= uint64_t{1} << rank % 64;
      if (heard) add(mine, heard);
      const Graphs::View& graph = graphs[rank];
      for (int32_t at = graph.offset[step]; at < graph.offset[step + 1]; ++at) {
        add(&known[words * (messages.first_step(rank) + graph.successor[at])], mine);
      }
      add(&at_end[words * rank], mine);
      return mine;
    };
    auto flaw = run_unbuffered(all_, graphs, messages, [&](const Event& event) {
      const uint64_t* heard = finish(event.rank, event.step, nullptr);
      if (event.to >= 0) finish(event.to, event.to_step, heard);
    });
    if (flaw) return flaw;
    for (int rank = 0; rank < rules_.n; ++rank) {
      for (int other = 0; other < rules_.n; ++other) {
        const bool heard = at_end[words * rank + other / 64] >> other % 64 & 1;
        if (!heard && other != rank) {
          return fmt::format("rank {} can finish before rank {} has begun", rank, other);
        }
      }
    }
    return std::nullopt;
  }

  // ---- values ----------------------------------------------------------------------------------
  Flaw check_values(const Messages& messages) {
    Symbols symbols{rules_, all_, expressions_, {}};
    values_ = execute(all_, messages, symbols);
    return symbols.flaw ? symbols.flaw : check_results();
  }

  Flaw check_results() const {
    std::vector<Sum> proven(rules_.chunks);  // by chunk: the first of these ranks' sums of it
    Flaw other_order;
    for (int rank = 0; rank < rules_.n; ++rank) {
      for (int c = 0; c < rules_.chunks; ++c) {
        const auto wanted = rules_.wanted(rank, c);
        if (!wanted) continue;
        const Expressions::Id value = values_[rank][c];
        if (!wanted->reduced) {
          const Expressions::Id right = expressions_.leaf(wanted->ranks.first, wanted->chunk);
          if (value == right) continue;
          return fmt::format("rank {} chunk {} contains {}, not {}", rank, c,
                             expressions_.print(value), expressions_.print(right));
        }
        Sum& first = proven[wanted->chunk];
        const bool same_ranks = first.ranks == wanted->ranks;
        if (same_ranks && value == first.value) continue;
        if (const Flaw flaw = expressions_.flaw_as_sum(value, wanted->ranks, wanted->chunk)) {
          return fmt::format("rank {} chunk {} {}", rank, c, *flaw);
        }
        if (!same_ranks) {
          first = {wanted->ranks, value, rank, c};
        } else if (!other_order) {
          other_order = fmt::format(
              "rank {} chunk {} adds in another order than rank {} chunk {}, so their bits may "
              "differ: {} against {}",
              rank, c, first.rank, first.chunk, expressions_.print(value),
              expressions_.print(first.value));
        }
      }
    }
    return other_order;
  }

  // ---- output in place of the input block -------------------------------------------------------
  // In the graph two chunks are distinct that may be one memory. So each reader of the input must
  // be an ancestor of the first writer of the output (later writers wait for that one).
  Flaw check_own_blocks() const {
    Graph graph;
    for (int rank = 0; rank < rules_.n; ++rank) {
      if (rank == 0 || all_.list(rank) != all_.list(rank - 1)) graph = derive(all_[rank]);
      if (Flaw flaw = check_own_block(rank, graph)) return flaw;
    }
    return std::nullopt;
  }

  Flaw check_own_block(int rank, const Graph& graph) const {
    const ScheduleView schedule = all_[rank];
    const auto covers = [](Span span, int c) {
      return span.first <= c && c < span.first + span.count;
    };
    for (int base = 0; base < rules_.chunks; base += rules_.n + 1) {
      const int own = base + rank, output = base + rules_.n;
      int32_t first_write = 0;
      while (first_write < schedule.size() && !covers(schedule.step(first_write).dst, output))
        ++first_write;
      for (int32_t i = 0; i < schedule.size(); ++i) {
        if (!covers(schedule.step(i).src, own) || leads_to(graph, i, first_write)) continue;
        return fmt::format(
            "{} writes the output, which may be chunk {}'s memory, while {} reads it",
            step_words(all_, rank, first_write), own, step_words(all_, rank, i));
      }
    }
    return std::nullopt;
  }

  static bool leads_to(const Graph& graph, int from, int to) {
    std::vector<bool> reached(to + 1, false);
    if (from <= to) reached[from] = true;
    // Successors are later steps, so one pass in list order reaches all of them.
    for (int step = from; step < to; ++step) {
      if (!reached[step]) continue;
      for (int32_t k = graph.offset[step]; k < graph.offset[step + 1]; ++k) {
        if (graph.successor[k] <= to) reached[graph.successor[k]] = true;
      }
    }
    return reached[to];
  }

  const Rules rules_;
  const GroupSchedules all_;
  Expressions expressions_;
  ChunkValues<Expressions::Id> values_;
};

constexpr const char
    *kTooManyChunks = "more than 2^31 chunks are too many to prove: take fewer ranks or segments",
    *kTooManySteps = "more than 2^31 steps are too many to prove: take fewer ranks or segments";

// What must be true of `all` before its steps are examined.
Flaw check_shape(Collective collective, GroupSchedules all, int root, int segment_count) {
  if (all.empty()) return "there are no schedules";
  const int n = all.size(), chunks = all[0].chunks;
  if (root < 0 || root >= n) return fmt::format("root {} is not one of {} ranks", root, n);
  if (segment_count < 1) return fmt::format("the number of segments is {}", segment_count);
  const bool free = cut_from_one_buffer(collective);
  const int64_t required = int64_t{required_chunks(collective, n)} * segment_count;
  if (free ? chunks < 1 || chunks % segment_count != 0 : chunks != required) {
    return fmt::format("{} of {} rank{} and {} segment{} cannot have {} chunks, but {}{}",
                       to_string(collective), n, n == 1 ? "" : "s", segment_count,
                       segment_count == 1 ? "" : "s", chunks, free ? "a multiple of " : "",
                       free ? segment_count : required);
  }
  if (int64_t{n} * chunks > INT32_MAX) return kTooManyChunks;
  int64_t steps = 0;
  for (int rank = 0; rank < n; ++rank) steps += all[rank].size();
  if (steps > INT32_MAX) return kTooManySteps;
  return std::nullopt;
}

Rules rules_of(Collective collective, GroupSchedules all, int root, int segment_count,
               bool equal_blocks) {
  const int n = all.size(), known_root = has_root(collective) ? root : 0;
  const bool equal = equal_blocks && in_blocks(collective);
  return {collective, n, known_root, segment_count, all[0].chunks, equal};
}

}  // namespace

// Segments are made only once all of them are known to be few enough.
std::optional<std::string> add_in_segments(SharedSchedules& all, int n, int segment_count,
                                           const std::function<Schedule(int)>& build) {
  int64_t steps = 0;
  for (int rank = 0; rank < n; ++rank) {
    const Schedule schedule = build(rank);
    if (int64_t{n} * schedule.chunks * segment_count > INT32_MAX) return kTooManyChunks;
    steps += static_cast<int64_t>(schedule.steps.size()) * segment_count;
    if (steps > INT32_MAX) return kTooManySteps;
    if (segment_count == 1) all.add(schedule);
  }
  for (int rank = 0; rank < n && segment_count != 1; ++rank)
    all.add(segments(build(rank), segment_count));
  return std::nullopt;
}

std::optional<std::string> verify(Collective collective, GroupSchedules all, int root,
                                  int segment_count, bool equal_blocks) {
  if (Flaw flaw = check_shape(collective, all, root, segment_count)) return flaw;
  return Proof(rules_of(collective, all, root, segment_count, equal_blocks), all).run();
}

ProofResult prove(Collective collective, GroupSchedules all, int root, int segment_count,
                  bool equal_blocks) {
  if (Flaw flaw = check_shape(collective, all, root, segment_count)) return {flaw, false};
  Proof proof(rules_of(collective, all, root, segment_count, equal_blocks), all);
  if (Flaw flaw = proof.run()) return {flaw, false};
  return {std::nullopt, reduces(collective) && proof.in_rank_order()};
}

bool reduces_in_rank_order(Collective collective, GroupSchedules all, int root, int segment_count,
                           bool equal_blocks) {
  return reduces(collective) &&
         prove(collective, all, root, segment_count, equal_blocks).in_rank_order;
}

std::optional<std::string> verify(const AlgorithmRow& row, int n, int root, int segment_count,
                                  std::span<const int> host, std::span<const int> node) {
  const Where where{0, n, root, host, node};
  if (n < 1 || !row.accepts(where)) return fmt::format("{} does not accept {} ranks", row.name, n);
  if (root < 0 || root >= n) return fmt::format("root {} is not one of {} ranks", root, n);
  if (segment_count < 1) return fmt::format("the number of segments is {}", segment_count);
  SharedSchedules all(row.collective);
  const auto build = [&](int rank) { return row.build({rank, n, root, host, node}); };
  if (Flaw flaw = add_in_segments(all, n, segment_count, build)) return flaw;
  return verify(row.collective, all, root, segment_count, row.sizes == BlockSizes::equal);
}

}  // namespace ringwood
