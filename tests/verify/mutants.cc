// The verifier against thousands of small mistakes.
//
// Every schedule of the table is damaged in every single way of the list below. Each mutant must be
// refuted; one that is accepted must be right by a second opinion, the brute-force interpreter.
// Some are: adding p before q is as good as q before p where one rank adds for all.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "collectives/algorithms/algorithms.h"
#include "collectives/schedule/graph.h"
#include "collectives/verify/verify.h"
#include "tests/support/interpreter.h"
#include "tests/support/places.h"

namespace ringwood {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kSizes[] = {2, 3, 4, 6};
#else
constexpr int kSizes[] = {2, 3, 4, 7, 8};
#endif

using All = std::vector<Schedule>;
using Visit = std::function<void(const std::string& what, const All& mutant)>;

bool receives(const Step& step) {
  return step.kind == StepKind::recv || step.kind == StepKind::recv_reduce;
}

StepKind other_kind(StepKind kind) {
  switch (kind) {
    case StepKind::recv: return StepKind::recv_reduce;
    case StepKind::recv_reduce: return StepKind::recv;
    case StepKind::reduce: return StepKind::copy;
    case StepKind::copy: return StepKind::reduce;
    default: return kind;
  }
}

// The span moved by one, round all chunks, user's and scratch; what cannot move stays.
Span shifted(Span span, const Schedule& s, int by) {
  const int places = s.chunks + static_cast<int>(s.scratch.size()) - span.count + 1;
  return {wrap(span.first + by, places), span.count};
}

// The step that meets `step` of `rank`: the k-th of its link and direction there.
size_t mate_of(const All& all, int rank, size_t step) {
  const Step& mine = all[rank].steps[step];
  int k = 0;
  for (size_t i = 0; i < step; ++i) {
    const Step& before = all[rank].steps[i];
    k += before.peer == mine.peer && receives(before) == receives(mine);
  }
  const auto& theirs = all[mine.peer].steps;
  for (size_t j = 0; j < theirs.size(); ++j) {
    if (theirs[j].peer == rank && receives(theirs[j]) != receives(mine) && k-- == 0) return j;
  }
  throw std::logic_error("unpaired step");
}

// Changes one step at a time, calls `visit`, and puts it back.
class Mutator {
 public:
  Mutator(const All& all, const Visit& visit) : all_(all), mutant_(all), visit_(visit) {}

  void run() {
    for (rank_ = 0; rank_ < static_cast<int>(all_.size()); ++rank_) {
      for (step_ = 0; step_ < all_[rank_].steps.size(); ++step_) {
        of_list();
        of_step();
        of_peer();
        if (all_[rank_].steps[step_].kind == StepKind::send) of_message();
      }
    }
  }

 private:
  std::vector<Step>& steps(int rank) { return mutant_[rank].steps; }
  Step& step() { return steps(rank_)[step_]; }

  void visit(const std::string& what, int other = -1) {
    const bool same = mutant_ == all_;
    if (!same) visit_(fmt::format("rank {} step {}: {}", rank_, step_, what), mutant_);
    mutant_[rank_] = all_[rank_];
    if (other >= 0) mutant_[other] = all_[other];
  }

  void of_list() {
    steps(rank_).erase(steps(rank_).begin() + static_cast<long>(step_));
    visit("dropped");
    const Step repeated = step();
    steps(rank_).insert(steps(rank_).begin() + static_cast<long>(step_), repeated);
    visit("repeated");
    const Graph graph = derive(all_[rank_]);
    for (int32_t at = graph.offset[step_]; at < graph.offset[step_ + 1]; ++at) {
      std::swap(step(), steps(rank_)[graph.successor[at]]);
      visit(fmt::format("swapped with step {}", graph.successor[at]));
    }
  }

  void of_step() {
    step().kind = other_kind(step().kind);
    visit("reduces or not");
    for (int by : {1, -1}) {
      if (step().dst.count > 0) step().dst = shifted(step().dst, all_[rank_], by);
      visit("dst shifted");
      if (step().src.count > 0) step().src = shifted(step().src, all_[rank_], by);
      visit("src shifted");
    }
    step().joined = !step().joined;
    visit("joined or not");
    if (step().src.count > 0) ++step().src.count;
    if (step().dst.count > 0) ++step().dst.count;
    visit("longer");
  }

  void of_peer() {
    if (step().peer < 0) return;
    const int n = static_cast<int>(all_.size());
    for (int by : {1, -1}) {
      step().peer = wrap(step().peer + by, n);
      visit("wrong peer");
    }
  }

  // Both ends alike, so that the messages still match.
  void of_message() {
    const int peer = step().peer;
    const size_t mate = mate_of(all_, rank_, step_);
    steps(rank_).erase(steps(rank_).begin() + static_cast<long>(step_));
    steps(peer).erase(steps(peer).begin() + static_cast<long>(mate));
    visit("message dropped", peer);
    for (int by : {1, -1}) {
      Step& sink = steps(peer)[mate];
      step().src = shifted(step().src, all_[rank_], by);
      sink.dst = shifted(sink.dst, all_[peer], by);
      visit("message shifted", peer);
    }
  }

  const All& all_;
  All mutant_;
  const Visit& visit_;
  int rank_ = 0;
  size_t step_ = 0;
};

// "" or what the interpreter found in one of several random executions.
std::string second_opinion(const AlgorithmRow& row, const All& all, int root) {
  const bool equal_blocks = row.sizes == BlockSizes::equal;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    std::string flaw = testing::Interpreter(row.collective, all, root, seed, equal_blocks).run();
    if (!flaw.empty()) return flaw;
  }
  return "";
}

class Mutants : public ::testing::TestWithParam<const AlgorithmRow*> {
 protected:
  const AlgorithmRow& row() const { return *GetParam(); }

  std::optional<std::string> flaw_of(const All& all, int root) const {
    return verify(row().collective, all, root, 1, row().sizes == BlockSizes::equal);
  }

  void for_each(int n, const std::function<void(const std::string&, const All&, int root)>& visit) {
    const auto places = testing::places_for(row(), n);
    if (!places) return;
    const int root = has_root(row().collective) ? n / 2 : 0;
    const All all = build_all(row(), places->where(0, n, root));
    Mutator(all, [&](const std::string& what, const All& mutant) {
      visit(fmt::format("n = {}, {}", n, what), mutant, root);
    }).run();
  }
};

TEST_P(Mutants, TheUndamagedAreRightByTheSecondOpinionToo) {
  for (int n = 1; n <= 9; ++n) {
    const auto places = testing::places_for(row(), n);
    if (!places) continue;
    for (int root : {0, n - 1}) {
      const All all = build_all(row(), places->where(0, n, root));
      EXPECT_EQ(second_opinion(row(), all, root), "") << n;
    }
  }
}

TEST_P(Mutants, AreAllRefuted) {
  int total = 0, refuted = 0, equal = 0;
  for (int n : kSizes) {
    for_each(n, [&](const std::string& what, const All& mutant, int root) {
      ++total;
      if (const auto flaw = flaw_of(mutant, root)) {
        ++refuted;
        EXPECT_TRUE(!flaw->empty() && flaw->find('\n') == flaw->npos) << what << ": " << *flaw;
        return;
      }
      const std::string opinion = second_opinion(row(), mutant, root);
      EXPECT_EQ(opinion, "") << "not refuted: " << what;
      equal += opinion.empty();
    });
  }
  EXPECT_EQ(refuted + equal, total);
  EXPECT_GT(refuted, total / 2);
  fmt::print("{} {}: {} mutants, {} refuted, {} as right as the original\n",
             to_string(row().collective), row().name, total, refuted, equal);
}

// The other direction: what is refuted is wrong, unless a rule of the language forbids it or the
// ranks add in different orders, which need not show in the interpreter's few numbers.
TEST_P(Mutants, AreNotRefutedWithoutReason) {
  for (int n : {2, 3}) {
    for_each(n, [&](const std::string& what, const All& mutant, int root) {
      const auto flaw = flaw_of(mutant, root);
      if (!flaw || second_opinion(row(), mutant, root) != "") return;
      const bool by_rule = flaw->find("has a span across two buffers") != flaw->npos ||
                           flaw->find("has spans that overlap") != flaw->npos ||
                           flaw->find("writes the output, which may be") != flaw->npos ||
                           flaw->find("which contains nothing yet") != flaw->npos ||
                           flaw->find("is scratch and travels as one") != flaw->npos ||
                           flaw->find("adds in another order") != flaw->npos;
      EXPECT_TRUE(by_rule) << what << ": " << *flaw;
    });
  }
}

std::vector<const AlgorithmRow*> all_rows() {
  std::vector<const AlgorithmRow*> rows;
  for (const AlgorithmRow& row : algorithm_table()) rows.push_back(&row);
  return rows;
}
INSTANTIATE_TEST_SUITE_P(Table, Mutants, ::testing::ValuesIn(all_rows()), [](const auto& info) {
  return std::string(to_string(info.param->collective)) + "_" + info.param->name;
});

}  // namespace
}  // namespace ringwood
