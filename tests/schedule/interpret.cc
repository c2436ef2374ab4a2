// The symbolic interpreter's contract (interpret.h): what a visitor is asked, and when. What it
// reads: schedules that are stored once where they are rotations of each other.
#include "collectives/schedule/interpret.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <iterator>
#include <random>
#include <utility>

#include "collectives/algorithms/algorithms.h"
#include "collectives/schedule/compose.h"
#include "collectives/schedule/graph.h"
#include "collectives/schedule/shared_schedules.h"
#include "collectives/schedule/step_runs.h"

namespace ringwood {
namespace {

// Values in words.
struct Words {
  using Value = std::string;
  int left = 100;

  Value begin(int rank, int chunk) const { return fmt::format("{}{}", "abc"[rank], chunk); }
  Value send(const Move& m, const Value& value) const {
    return fmt::format("{}({}>{})", value, m.from, m.to);
  }
  Value round(const Move&, const Value& value) const { return "round " + value; }
  Value copy(const Move& m, const Value& value) {
    --left;
    return value + (m.first ? "!" : "");
  }
  Value add(const Move&, const Value& target, const Value& operand) const {
    return target + "+" + operand;
  }
  bool done() const { return left <= 0; }
};

struct Case {
  const char* what;
  const char* text;  // of all ranks
  std::vector<std::vector<std::string>> chunks;
  int left = 100;
};

const Case kCases[] = {
    {"what is sent is what was there then",
     "schedule rank 0 of 2 chunks 1 scratch 0\nrecv 1 [1]\nsend 1 [0]\ncopy [0] <- [1]\n"
     "schedule rank 1 of 2 chunks 1 scratch 0\nsend 0 [0]\ncopy [0] <- [1]\nrecv 0 [1]\n",
     {{"b0(1>0)!!", "b0(1>0)!"}, {"!", "a0(0>1)!"}}},
    {"the k-th send meets the k-th receive, whoever comes late",
     "schedule rank 0 of 3 chunks 2\nrecv 2 [0]\nrecv_reduce 2 [1]\n"
     "schedule rank 1 of 3 chunks 2\nsend 2 [0]\n"
     "schedule rank 2 of 3 chunks 2\nrecv_reduce 1 [1]\nsend 0 [1]\nsend 0 [0]\n",
     {{"c1+b0(1>2)(2>0)!", "a1+c0(2>0)"}, {"b0", "b1"}, {"c0", "c1+b0(1>2)"}}},
    {"spans chunk by chunk, and roundings",
     "schedule rank 0 of 1 chunks 4\ncopy [0:2] <- [2:4]\ncopy [3] <- [3]\nreduce [2] <- [3]\n",
     {{"a2!", "a3", "a2+round a3!", "round a3!"}}},
    {"a circle is left where it is, and what comes after it",
     "schedule rank 0 of 2 chunks 2\nrecv 1 [0]\nsend 1 [0]\n"
     "schedule rank 1 of 2 chunks 2\ncopy [1] <- [0]\nrecv 0 [0]\nsend 0 [0]\n",
     {{"a0", "a1"}, {"b0", "b0!"}}},
    {"nothing after the visitor has enough",
     "schedule rank 0 of 1 chunks 3\ncopy [1] <- [0]\ncopy [2] <- [0]\n",
     {{"a0", "a0!", "a2"}},
     1},
};

TEST(Interpret, MovesValues) {
  for (const Case& c : kCases) {
    Words words{c.left};
    EXPECT_EQ(execute(parse_schedules(c.text), words), c.chunks) << c.what;
  }
}

// Of one link the messages stay in order, and links are in the order of their ranks.
TEST(Interpret, PairsMessages) {
  const auto all = parse_schedules(
      "schedule rank 0 of 3 chunks 1\nsend 2 [0]\nsend 1 [0]\nsend 2 [0]\n"
      "schedule rank 1 of 3 chunks 1\nrecv 0 [0]\nsend 2 [0]\n"
      "schedule rank 2 of 3 chunks 1\nrecv 1 [0]\nrecv 0 [0]\ncopy [0] <- [0]\nrecv 0 [0]\n");
  const Messages messages = pair_messages(all);
  EXPECT_FALSE(messages.flaw);
  std::vector<std::vector<int32_t>> found, mates;
  for (int rank = 0; rank < 3; ++rank) {
    for (const auto& m : messages.from(rank)) found.push_back({rank, m.send, m.to, m.recv});
    mates.emplace_back();
    for (int32_t i = 0; i < messages.first_step(rank + 1) - messages.first_step(rank); ++i)
      mates.back().push_back(messages.mate(rank, i));
  }
  EXPECT_EQ(mates, (std::vector<std::vector<int32_t>>{{1, 0, 3}, {1, 0}, {1, 0, -1, 2}}));
  EXPECT_EQ(found, (std::vector<std::vector<int32_t>>{
                       {0, 1, 1, 0}, {0, 0, 2, 1}, {0, 2, 2, 3}, {1, 1, 2, 0}}));
}

TEST(Interpret, AMessageOfOneEndIsNamed) {
  const char* const kTwo = "schedule rank 0 of 2 chunks 1\nsend 1 [0]\nsend 1 [0]\n";
  const auto sent =
      parse_schedules(fmt::format("{}schedule rank 1 of 2 chunks 1\nrecv 0 [0]\n", kTwo));
  EXPECT_EQ(pair_messages(sent).flaw, "rank 0 step 1 (send 1 [0]) has no receive at rank 1");
  EXPECT_EQ(pair_messages(sent).mate(0, 0), 0);
  EXPECT_EQ(pair_messages(sent).mate(0, 1), -1);
  const auto received = parse_schedules(
      fmt::format("{}schedule rank 1 of 2 chunks 1\nrecv 0 [0]\nrecv 0 [0]\nrecv 0 [0]\n", kTwo));
  EXPECT_EQ(pair_messages(received).flaw, "rank 1 step 2 (recv 0 [0]) has no send at rank 0");
}

// ---- schedules that are stored once ------------------------------------------------------------

SharedSchedules share(Collective collective, const std::vector<Schedule>& all) {
  SharedSchedules shared(collective);
  for (const Schedule& schedule : all) shared.add(schedule);
  return shared;
}

// What is read is what was added, and the graphs are those of what was added.
void expect_the_same(const SharedSchedules& shared, const std::vector<Schedule>& all) {
  ASSERT_EQ(shared.size(), static_cast<int>(all.size()));
  const Graphs graphs(shared);
  for (int rank = 0; rank < shared.size(); ++rank) {
    EXPECT_EQ(shared[rank].schedule(), all[rank]) << print(all[rank]);
    const Graph graph = derive(all[rank]);
    EXPECT_TRUE(std::ranges::equal(graphs[rank].offset, graph.offset)) << print(all[rank]);
    EXPECT_TRUE(std::ranges::equal(graphs[rank].successor, graph.successor)) << print(all[rank]);
  }
}

// What is read is what was stored: steps one by one, in long runs, and with any numbers.
TEST(StepRuns, ReadWhatWasStored) {
  const auto expect = [](const std::vector<Step>& steps) {
    const StepRuns runs(steps);
    ASSERT_EQ(runs.size(), std::ssize(steps));
    for (int32_t i = 0; i < runs.size(); ++i) EXPECT_EQ(runs[i], steps[i]) << i;
  };
  expect({});
  const Step least{StepKind::send, INT32_MIN, {}, {INT32_MAX, 2}};
  const Step most{StepKind::send, INT32_MAX, {}, {INT32_MIN, 2}};
  expect({least});
  expect({least, most, least, most, least, most, least, most});
  std::vector<Step> steps;
  for (int i = 0; i < 100; ++i) steps.push_back({StepKind::send, i, {}, {99 - i, 3}});
  for (int i = 0; i < 100; ++i)
    steps.push_back({StepKind::recv_reduce, 7, {2 * i, 3}, {}, i % 50 > 0});
  steps.push_back({StepKind::copy, -1, {5}, {6}});
  for (int i = 0; i < 100; ++i) steps.push_back({StepKind::recv, i, {i, 1 + i / 60}, {}});
  expect(steps);
  std::mt19937 random(1);
  for (Step& step : steps) step.peer = static_cast<int>(random());
  expect(steps);
}

std::vector<Schedule> of_row(const AlgorithmRow& row, int n, int segment_count) {
  std::vector<Schedule> all = build_all(row, {0, n, 0, {}});
  for (Schedule& schedule : all) schedule = segments(schedule, segment_count);
  return all;
}

TEST(SharedSchedules, StoreARotationOnce) {
  const std::pair<Collective, const char*> kRotated[] = {
      {Collective::all_reduce, "ring"},
      {Collective::all_reduce, "direct"},
      {Collective::all_gather, "ring"},
      {Collective::all_gather, "direct"},
      {Collective::reduce_scatter, "ring"},
      {Collective::reduce_scatter, "direct"},
      {Collective::all_to_all, "pairwise"},
      {Collective::barrier, "dissemination"},
      {Collective::all_reduce, "bidirectional_ring"}};  // half of its chunks backwards
  for (const auto& [collective, name] : kRotated) {
    for (int n : {3, 5, 8}) {
      for (int segment_count : {1, 3}) {
        const auto all = of_row(*find_algorithm(collective, name), n, segment_count);
        const SharedSchedules shared = share(collective, all);
        EXPECT_EQ(shared.lists(), 1) << to_string(collective) << " " << name << " " << n;
        expect_the_same(shared, all);
      }
    }
  }
}

TEST(SharedSchedules, AreExactForEveryRow) {
  for (const AlgorithmRow& row : algorithm_table()) {
    for (int n = 1; n <= 9; ++n) {
      if (!row.accepts(n)) continue;
      const auto all = of_row(row, n, n % 2 + 1);
      const SharedSchedules shared = share(row.collective, all);
      expect_the_same(shared, all);
      Words words{INT_MAX}, same{INT_MAX};
      if (n > 3) continue;  // of more ranks words are long
      EXPECT_EQ(execute(shared, same), execute(all, words)) << row.name;
    }
  }
}

struct Apart {
  const char* what;
  const char* text;  // of all ranks
  int lists;
};

const Apart kApart[] = {
    {"a span that wraps is not one that is rotated",
     "schedule rank 0 of 3 chunks 6\nsend 1 [0:2]\nrecv 2 [2]\n"
     "schedule rank 1 of 3 chunks 6\nsend 2 [1:3]\nrecv 0 [0]\n"
     "schedule rank 2 of 3 chunks 6\nsend 0 [2:4]\nrecv 1 [1]\n",
     2},
    {"a span of two blocks keeps its place, and its blocks theirs",
     "schedule rank 0 of 3 chunks 6\nsend 1 [2:4]\nrecv 2 [5]\n"
     "schedule rank 1 of 3 chunks 6\nsend 2 [2:4]\nrecv 0 [5]\n"
     "schedule rank 2 of 3 chunks 6\nsend 0 [2:4]\nrecv 1 [4]\n",
     2},
    {"chunks of one block by one rule, or the graphs would differ",
     "schedule rank 0 of 3 chunks 3\nrecv 1 [0]\nsend 1 [0]\n"
     "schedule rank 1 of 3 chunks 3\nrecv 2 [1]\nsend 2 [0]\n"
     "schedule rank 2 of 3 chunks 3\nrecv 0 [2]\nsend 0 [0]\n",
     3},
    {"peers by one rule",
     "schedule rank 0 of 3 chunks 1\nsend 1 [0]\nsend 2 [0]\n"
     "schedule rank 1 of 3 chunks 1\nsend 2 [0]\nsend 2 [0]\n"
     "schedule rank 2 of 3 chunks 1\nsend 0 [0]\nsend 1 [0]\n",
     2},
    {"forwards and backwards are told apart when it matters",
     "schedule rank 0 of 4 chunks 4\nsend 1 [0]\n"
     "schedule rank 1 of 4 chunks 4\nsend 2 [3]\n"
     "schedule rank 2 of 4 chunks 4\nsend 3 [2]\n"
     "schedule rank 3 of 4 chunks 4\nsend 0 [1]\n",
     1},
    {"kinds, lengths, joins, and the number of steps",
     "schedule rank 0 of 5 chunks 5\nsend 1 [0]\nsend 1 [1]\n"
     "schedule rank 1 of 5 chunks 5\nsend 2 [1] [2]\n"
     "schedule rank 2 of 5 chunks 5\nrecv 3 [2]\nrecv 3 [3]\n"
     "schedule rank 3 of 5 chunks 5\nsend 4 [3]\nsend 4 [3:5]\n"
     "schedule rank 4 of 5 chunks 5\nsend 0 [4]\n",
     5},
    {"scratch of a rotated size, which is no rotated chunk",
     "schedule rank 0 of 3 chunks 3 scratch 1 1\ncopy [3] <- [0]\ncopy [4] <- [0]\n"
     "schedule rank 1 of 3 chunks 3 scratch 2 2\ncopy [3] <- [0]\ncopy [4] <- [0]\n"
     "schedule rank 2 of 3 chunks 3 scratch 0 1\ncopy [3] <- [0]\ncopy [4] <- [0]\n",
     2},
};

TEST(SharedSchedules, StoreApartWhatIsNoRotation) {
  for (const Apart& c : kApart) {
    const auto all = parse_schedules(c.text);
    const SharedSchedules shared = share(Collective::all_reduce, all);
    EXPECT_EQ(shared.lists(), c.lists) << c.what;
    expect_the_same(shared, all);
  }
}

// The verifier must see what is wrong as it is.
TEST(SharedSchedules, AreExactForWhatIsOutOfRange) {
  const Span none{0, 0}, wild{-7, 3}, far{INT_MAX, INT_MAX};
  const auto of_rank = [&](int rank, int peer) {
    return Schedule{rank,
                    3,
                    3,
                    {-1, 5, INT_MAX},
                    {{StepKind::send, peer, none, wild},
                     {StepKind::recv, INT_MIN, far, none, true},
                     {StepKind::copy, 3, {2, INT_MAX}, {0, -1}}}};
  };
  std::vector<Schedule> all{of_rank(0, 1),       of_rank(1, 2),  of_rank(2, 3), of_rank(1, 2),
                            of_rank(INT_MIN, 1), of_rank(-1, 1), of_rank(3, 1)};
  all.push_back({0, 0, 0, {}, {}});
  all.push_back({0, -4, INT_MIN, {0}, {{StepKind::send, 0, none, {0, 1}}}});
  all.push_back({0, INT_MAX, INT_MAX, {0}, {{StepKind::send, 0, none, {INT_MAX - 1, 1}}}});
  for (Collective collective : {Collective::all_reduce, Collective::reduce_scatter}) {
    const SharedSchedules shared = share(collective, all);
    for (int i = 0; i < shared.size(); ++i) EXPECT_EQ(shared[i].schedule(), all[i]) << i;
  }
}

}  // namespace
}  // namespace ringwood
