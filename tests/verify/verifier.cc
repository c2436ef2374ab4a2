// The verifier refutes: one small wrong schedule per rule, with the sentence that it must earn.
#include "collectives/verify/verify.h"

#include <gtest/gtest.h>

#include "collectives/schedule/shared_schedules.h"

namespace ringwood {
namespace {

struct Refuted {
  const char* name;
  Collective collective;
  std::vector<const char*> texts;
  const char* words;  // "" = proved
  int root = 0;
  int segment_count = 1;
  bool equal_blocks = false;
};

const Refuted kRefuted[] = {
    {"nothing", Collective::all_reduce, {}, "there are no schedules"},
    {"root",
     Collective::reduce,
     {"schedule rank 0 of 1 chunks 1"},
     "root 1 is not one of 1 ranks",
     1},
    {"segment_number",
     Collective::reduce,
     {"schedule rank 0 of 1 chunks 1"},
     "the number of segments is 0",
     0,
     0},
    {"chunk_number",
     Collective::all_to_all,
     {"schedule rank 0 of 1 chunks 1"},
     "all_to_all of 1 rank and 1 segment cannot have 1 chunks, but 2"},
    {"chunks_not_in_segments",
     Collective::all_reduce,
     {"schedule rank 0 of 1 chunks 3"},
     "all_reduce of 1 rank and 2 segments cannot have 3 chunks, but a multiple of 2",
     0,
     2},
    {"no_chunks",
     Collective::broadcast,
     {"schedule rank 0 of 1 chunks 0"},
     "broadcast of 1 rank and 1 segment cannot have 0 chunks, but a multiple of 1"},
    {"rank_order",
     Collective::all_reduce,
     {"schedule rank 1 of 2 chunks 1", "schedule rank 0 of 2 chunks 1"},
     "schedule 0 of 2 says rank 1 of 2 with 1 chunks, not 1"},
    {"unlike_chunks",
     Collective::all_reduce,
     {"schedule rank 0 of 2 chunks 1", "schedule rank 1 of 2 chunks 2"},
     "schedule 1 of 2 says rank 1 of 2 with 2 chunks, not 1"},
    {"send_without_receive",
     Collective::broadcast,
     {"schedule rank 0 of 2 chunks 1\nsend 1 [0]\nsend 1 [0]",
      "schedule rank 1 of 2 chunks 1\nrecv 0 [0]"},
     "rank 0 step 1 (send 1 [0]) has no receive at rank 1"},
    {"receive_without_send",
     Collective::broadcast,
     {"schedule rank 0 of 2 chunks 1", "schedule rank 1 of 2 chunks 1\nrecv 0 [0]"},
     "rank 1 step 0 (recv 0 [0]) has no send at rank 0"},
    {"length",
     Collective::broadcast,
     {"schedule rank 0 of 2 chunks 2\nsend 1 [0:2]", "schedule rank 1 of 2 chunks 2\nrecv 0 [0]"},
     "rank 0 step 0 (send 1 [0:2]) meets rank 1 step 0 (recv 0 [0]), of another length"},
    {"size",
     Collective::broadcast,
     {"schedule rank 0 of 2 chunks 2\nsend 1 [0]\nsend 1 [1]",
      "schedule rank 1 of 2 chunks 2\nrecv 0 [1]\nrecv 0 [0]"},
     "rank 0 step 0 (send 1 [0]) meets rank 1 step 0 (recv 0 [1]), whose size may differ"},
    {"size_of_scratch",
     Collective::broadcast,
     {"schedule rank 0 of 2 chunks 2\nsend 1 [0]",
      "schedule rank 1 of 2 chunks 2 scratch 1\nrecv 0 [2]"},
     "rank 0 step 0 (send 1 [0]) meets rank 1 step 0 (recv 0 [2]), whose size may differ"},
    {"size_of_segments",
     Collective::reduce_scatter,
     {"schedule rank 0 of 1 chunks 4\ncopy [1] <- [2]\ncopy [3] <- [0]"},
     "rank 0 step 0 (copy [1] <- [2]) joins chunks 1 and 2, whose sizes may differ",
     0,
     2},
    {"blocks_of_all_gather",
     Collective::all_gather,
     {"schedule rank 0 of 2 chunks 2\nsend 1 [0]\nrecv 1 [1]",
      "schedule rank 1 of 2 chunks 2\nsend 0 [1]\nrecv 0 [1]"},
     "rank 0 step 0 (send 1 [0]) meets rank 1 step 1 (recv 0 [1]), whose size may differ"},
    {"local_sizes",
     Collective::all_reduce,
     {"schedule rank 0 of 1 chunks 2\ncopy [0] <- [1]"},
     "rank 0 step 0 (copy [0] <- [1]) joins chunks 0 and 1, whose sizes may differ"},
    {"overlap",
     Collective::all_reduce,
     {"schedule rank 0 of 1 chunks 3\nreduce [0:2] <- [1:3]"},
     "rank 0 step 0 (reduce [0:2] <- [1:3]) has spans that overlap"},
    {"itself",
     Collective::all_reduce,
     {"schedule rank 0 of 1 chunks 1\nreduce [0] <- [0]"},
     "rank 0 step 0 (reduce [0] <- [0]) has spans that overlap"},
    {"across_segments",
     Collective::broadcast,
     {"schedule rank 0 of 2 chunks 4\nsend 1 [1:3]", "schedule rank 1 of 2 chunks 4\nrecv 0 [1:3]"},
     "rank 0 step 0 (send 1 [1:3]) has a span across two buffers or segments",
     0,
     2},
    {"across_buffers",
     Collective::reduce_scatter,
     {"schedule rank 0 of 2 chunks 3\nsend 1 [1:3]", "schedule rank 1 of 2 chunks 3"},
     "rank 0 step 0 (send 1 [1:3]) has a span across two buffers or segments"},
    {"read_only_operand",
     Collective::reduce,
     {"schedule rank 0 of 2 chunks 1\nsend 1 [0]",
      "schedule rank 1 of 2 chunks 1\nrecv_reduce 0 [0]"},
     "rank 1 step 0 (recv_reduce 0 [0]) writes chunk 0, which is read only"},
    {"read_only_input",
     Collective::reduce_scatter,
     {"schedule rank 0 of 1 chunks 2\ncopy [0] <- [1]"},
     "rank 0 step 0 (copy [0] <- [1]) writes chunk 0, which is read only"},
    {"no_memory",
     Collective::gather,
     {"schedule rank 0 of 2 chunks 2\nrecv 1 [0]", "schedule rank 1 of 2 chunks 2\nsend 0 [0]"},
     "rank 1 step 0 (send 0 [0]) uses chunk 0, which has no memory here"},
    {"no_size",
     Collective::scatter,
     {"schedule rank 0 of 2 chunks 3", "schedule rank 1 of 2 chunks 3 scratch 0"},
     "rank 1 scratch 0 has the size of chunk 0, which has none"},
    {"crossed_waits",
     Collective::all_reduce,
     {"schedule rank 0 of 2 chunks 1\nrecv_reduce 1 [0]\nsend 1 [0]",
      "schedule rank 1 of 2 chunks 1\nrecv_reduce 0 [0]\nsend 0 [0]"},
     "deadlock: rank 0 step 0 (recv_reduce 1 [0]) waits for rank 1, which is at step 0 "
     "(recv_reduce 0 "
     "[0]) and waits for rank 0, which is at step 0 (recv_reduce 1 [0])"},
    {"sends_that_need_buffers",
     Collective::all_reduce,
     {"schedule rank 0 of 2 chunks 1\nsend 1 [0]\nrecv_reduce 1 [0]",
      "schedule rank 1 of 2 chunks 1\nsend 0 [0]\nrecv_reduce 0 [0]"},
     "deadlock: rank 0 step 0 (send 1 [0]) waits for rank 1, which is at step 0 (send 0 [0]) and "
     "waits "
     "for rank 0, which is at step 0 (send 1 [0])"},
    {"undefined",
     Collective::broadcast,
     {"schedule rank 0 of 2 chunks 1 scratch 0\nsend 1 [1]",
      "schedule rank 1 of 2 chunks 1\nrecv 0 [0]"},
     "rank 0 step 0 (send 1 [1]) reads chunk 1, which contains nothing yet"},
    {"adds_to_undefined",
     Collective::broadcast,
     {"schedule rank 0 of 2 chunks 1\nsend 1 [0]",
      "schedule rank 1 of 2 chunks 1\nrecv_reduce 0 [0]"},
     "rank 1 step 0 (recv_reduce 0 [0]) reads chunk 0, which contains nothing yet"},
    {"lacks",
     Collective::all_reduce,
     {"schedule rank 0 of 2 chunks 1\nsend 1 [0]",
      "schedule rank 1 of 2 chunks 1\nrecv_reduce 0 [0]"},
     "rank 0 chunk 0 lacks rank 1's chunk 0"},
    {"twice",
     Collective::reduce,
     {"schedule rank 0 of 2 chunks 1\nrecv_reduce 1 [0]\nrecv_reduce 1 [0]",
      "schedule rank 1 of 2 chunks 1\nsend 0 [0]\nsend 0 [0]"},
     "rank 0 chunk 0 contains rank 1's chunk 0 twice"},
    {"wrong_block",
     Collective::reduce_scatter,
     {"schedule rank 0 of 2 chunks 3\ncopy [2] <- [0]\nsend 1 [0]\nrecv_reduce 1 [2]",
      "schedule rank 1 of 2 chunks 3\ncopy [2] <- [1]\nsend 0 [0]\nrecv_reduce 0 [2]"},
     "rank 1 chunk 2 contains rank 0's chunk 0, which does not belong there",
     0,
     1,
     true},
    {"wrong_block_of_another_size",
     Collective::reduce_scatter,
     {"schedule rank 0 of 2 chunks 3\ncopy [2] <- [0]\nsend 1 [0]\nrecv_reduce 1 [2]",
      "schedule rank 1 of 2 chunks 3\ncopy [2] <- [1]\nsend 0 [0]\nrecv_reduce 0 [2]"},
     "rank 0 step 1 (send 1 [0]) meets rank 1 step 2 (recv_reduce 0 [2]), whose size may differ"},
    // Right, unless the output is the own block's memory.
    {"output_in_place",
     Collective::reduce_scatter,
     {"schedule rank 0 of 2 chunks 3\nsend 1 [1]\nrecv 1 [2]\nreduce [2] <- [0]",
      "schedule rank 1 of 2 chunks 3\nsend 0 [0]\nrecv 0 [2]\nreduce [2] <- [1]"},
     "rank 0 step 1 (recv 1 [2]) writes the output, which may be chunk 0's memory, while rank 0 "
     "step 2 (reduce [2] <- [0]) reads it"},
    {"packed_at_one_end",
     Collective::all_gather,
     {"schedule rank 0 of 3 chunks 3 scratch 0 1\nsend 1 [3:5]",
      "schedule rank 1 of 3 chunks 3\nrecv 0 [0:2]", "schedule rank 2 of 3 chunks 3"},
     "rank 0 step 0 (send 1 [3:5]) meets rank 1 step 0 (recv 0 [0:2]), of which one is scratch and "
     "travels as one"},
    {"nothing_arrived",
     Collective::all_gather,
     {"schedule rank 0 of 2 chunks 2\nsend 1 [0]", "schedule rank 1 of 2 chunks 2\nrecv 0 [0]"},
     "rank 0 chunk 1 contains nothing, not rank 1's chunk 1"},
    {"overwritten",
     Collective::all_to_all,
     {"schedule rank 0 of 2 chunks 4\ncopy [2] <- [0]\nsend 1 [1]\nrecv 1 [3]",
      "schedule rank 1 of 2 chunks 4\ncopy [3] <- [1]\nsend 0 [0]\nrecv 0 [2]\nsend 0 [0]"},
     "rank 1 step 3 (send 0 [0]) has no receive at rank 0"},
    {"other_order",
     Collective::all_reduce,
     {"schedule rank 0 of 3 chunks 1 scratch 0\nsend 1 [0]\nsend 2 [0]\ncopy [1] <- [0]\n"
      "recv_reduce 1 [1]\nrecv_reduce 2 [1]\ncopy [0] <- [1]",
      "schedule rank 1 of 3 chunks 1 scratch 0\nsend 0 [0]\nsend 2 [0]\ncopy [1] <- [0]\n"
      "recv_reduce 0 [1]\nrecv_reduce 2 [1]\ncopy [0] <- [1]",
      "schedule rank 2 of 3 chunks 1 scratch 0\nsend 0 [0]\nsend 1 [0]\ncopy [1] <- [0]\n"
      "recv_reduce 0 [1]\nrecv_reduce 1 [1]\ncopy [0] <- [1]"},
     "rank 2 chunk 0 adds in another order than rank 0 chunk 0, so their bits may differ: "
     "(rank 1's chunk 0 + (rank 0's chunk 0 + rank 2's chunk 0)) against "
     "(rank 2's chunk 0 + (rank 0's chunk 0 + rank 1's chunk 0))"},
    {"addition_commutes",
     Collective::all_reduce,
     {"schedule rank 0 of 2 chunks 1 scratch 0\nsend 1 [0]\nrecv 1 [1]\nreduce [0] <- [1]",
      "schedule rank 1 of 2 chunks 1 scratch 0\nsend 0 [0]\nrecv 0 [1]\nreduce [0] <- [1]"},
     ""},
    {"barrier_one_way",
     Collective::barrier,
     {"schedule rank 0 of 2 chunks 0 scratch 0\nsend 1 [0]",
      "schedule rank 1 of 2 chunks 0 scratch 0\nrecv 0 [0]"},
     "rank 0 can finish before rank 1 has begun"},
    {"barrier_both_ways",
     Collective::barrier,
     {"schedule rank 0 of 2 chunks 0 scratch 0 0\nsend 1 [0]\nrecv 1 [1]",
      "schedule rank 1 of 2 chunks 0 scratch 0 0\nsend 0 [0]\nrecv 0 [1]"},
     ""},
    // Rank 0 hears from 1 while 1 has not heard from 2: no chain of steps leads from 2 to 0.
    {"barrier_unchained",
     Collective::barrier,
     {"schedule rank 0 of 3 chunks 0 scratch 0 0\nsend 2 [0]\nsend 1 [0]\nrecv 1 [1]",
      "schedule rank 1 of 3 chunks 0 scratch 0 0 0\nrecv 2 [0]\nsend 0 [1]\nsend 2 [2]\nrecv 0 [2]",
      "schedule rank 2 of 3 chunks 0 scratch 0 0 0\nrecv 0 [0]\nsend 1 [1]\nrecv 1 [2]"},
     "rank 0 can finish before rank 2 has begun"},
    {"barrier_size",
     Collective::barrier,
     {"schedule rank 0 of 1 chunks 1"},
     "barrier of 1 rank and 1 segment cannot have 1 chunks, but 0"},
};

TEST(Verifier, RefutesInWords) {
  for (const Refuted& c : kRefuted) {
    std::vector<Schedule> all;
    for (const char* text : c.texts) all.push_back(parse_schedule(text));
    EXPECT_EQ(verify(c.collective, all, c.root, c.segment_count, c.equal_blocks).value_or(""),
              c.words)
        << c.name;
  }
}

TEST(Verifier, RefutesWhatNoTextCanSay) {
  auto of_one_step = [](Step step) {
    std::vector<Schedule> all{{0, 2, 1, {}, {step}}, {1, 2, 1, {}, {}}};
    return verify(Collective::broadcast, all).value_or("");
  };
  const Span one{0, 1}, none{0, 0};
  EXPECT_EQ(of_one_step({StepKind::send, 2, none, one}),
            "rank 0 step 0 (send 2 [0]) names a peer that does not exist");
  EXPECT_EQ(of_one_step({StepKind::recv, -1, one, none}),
            "rank 0 step 0 (recv -1 [0]) names a peer that does not exist");
  EXPECT_EQ(of_one_step({StepKind::recv, 0, one, none}), "rank 0 step 0 (recv 0 [0]) is to itself");
  EXPECT_EQ(of_one_step({StepKind::send, 1, none, {1, 1}}),
            "rank 0 step 0 (send 1 [1]) names chunks beyond the 1 there are");
  EXPECT_EQ(of_one_step({StepKind::send, 1, none, {-1, 1}}),
            "rank 0 step 0 (send 1 [-1]) names chunks beyond the 1 there are");
  EXPECT_EQ(of_one_step({StepKind::recv, 1, {0, 0}, none}),
            "rank 0 step 0 (recv 1 [0:0]) names chunks beyond the 1 there are");
  EXPECT_EQ(of_one_step({StepKind::recv, 1, {0, INT32_MAX}, none}),
            "rank 0 step 0 (recv 1 [0:2147483647]) names chunks beyond the 1 there are");
}

TEST(Verifier, TellsRankOrderFromOtherOrders) {
  // Rank 2 owns the only chunk's sum; the order in which it takes the others is what differs.
  auto in_order = [](const char* sum) {
    const std::vector<Schedule> all = {
        parse_schedule("schedule rank 0 of 3 chunks 1\nsend 2 [0]"),
        parse_schedule("schedule rank 1 of 3 chunks 1\nsend 2 [0]"),
        parse_schedule(std::string("schedule rank 2 of 3 chunks 1 scratch 0\n") + sum)};
    EXPECT_EQ(verify(Collective::reduce, all, 2).value_or(""), "") << sum;
    return reduces_in_rank_order(Collective::reduce, all, 2);
  };
  EXPECT_TRUE(in_order("recv 0 [1]\nrecv_reduce 1 [1]\nreduce [0] <- [1]"));
  EXPECT_TRUE(in_order("recv 1 [1]\nrecv_reduce 0 [1]\nreduce [0] <- [1]"));  // commutes
  EXPECT_FALSE(in_order("recv_reduce 0 [0]\nrecv_reduce 1 [0]"));
  EXPECT_FALSE(in_order("recv 1 [1]\nreduce [1] <- [0]\nrecv_reduce 0 [1]\ncopy [0] <- [1]"));
}

TEST(Verifier, RankOrderNeedsAProvedReduction) {
  const std::vector<Schedule> lonely = {parse_schedule("schedule rank 0 of 1 chunks 1")};
  EXPECT_TRUE(reduces_in_rank_order(Collective::all_reduce, lonely));
  EXPECT_FALSE(reduces_in_rank_order(Collective::broadcast, lonely));  // adds nothing
  const std::vector<Schedule> wrong = {parse_schedule("schedule rank 0 of 2 chunks 1"),
                                       parse_schedule("schedule rank 1 of 2 chunks 1")};
  EXPECT_FALSE(reduces_in_rank_order(Collective::all_reduce, wrong));
  EXPECT_FALSE(reduces_in_rank_order(Collective::all_reduce, {}));
}

// Ranks that share a list of steps (shared_schedules.h), but for one.
TEST(Verifier, FindsOneWrongScheduleAmongRotations) {
  constexpr int kRanks = 7, kWrong = 3;
  const auto words = [&](void (*damage)(Schedule&)) {
    std::vector<Schedule> all =
        build_all(*find_algorithm(Collective::all_reduce, "ring"), {0, kRanks, 0, {}});
    damage(all[kWrong]);
    SharedSchedules shared(Collective::all_reduce);
    for (const Schedule& schedule : all) shared.add(schedule);
    EXPECT_EQ(shared.lists(), 2);
    const std::string said = verify(Collective::all_reduce, shared).value_or("");
    EXPECT_EQ(said, verify(Collective::all_reduce, all).value_or(""));
    EXPECT_EQ(said, prove(Collective::all_reduce, shared).flaw.value_or(""));
    return said;
  };
  EXPECT_EQ(words([](Schedule& s) { s.steps[4].src.first = 5; }),
            "rank 3 step 4 (send 4 [5]) meets rank 4 step 5 (recv_reduce 3 [1]), whose size may "
            "differ");
  EXPECT_EQ(words([](Schedule& s) { s.steps[5].kind = StepKind::recv; }),
            "rank 0 chunk 0 lacks rank 3's chunk 0");
  EXPECT_EQ(words([](Schedule& s) { s.steps.pop_back(); }),
            "rank 2 step 22 (send 3 [5]) has no receive at rank 3");
  EXPECT_EQ(words([](Schedule& s) { s.steps[8].peer = 5; }),
            "rank 4 step 23 (recv 3 [6]) has no send at rank 3");
  EXPECT_EQ(words([](Schedule& s) {
              s.steps[2].src = {7, 1};
            }),
            "rank 3 step 2 (send 4 [7]) names chunks beyond the 7 there are");
}

TEST(Verifier, RefusesRowsOutOfTheirRange) {
  AlgorithmRow row = *find_algorithm(Collective::all_reduce, "ring");
  row.fits = [](const Where& where) { return where.n % 2 == 0; };
  EXPECT_EQ(verify(row, 5), "ring does not accept 5 ranks");
  EXPECT_EQ(verify(row, 0), "ring does not accept 0 ranks");
  EXPECT_EQ(verify(row, 4, 4), "root 4 is not one of 4 ranks");
  EXPECT_EQ(verify(row, 4, 0, 0), "the number of segments is 0");
  EXPECT_FALSE(verify(row, 4));
}

}  // namespace
}  // namespace ringwood
