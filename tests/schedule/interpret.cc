// The symbolic interpreter's contract (interpret.h): what a visitor is asked, and when.
#include "collectives/schedule/interpret.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

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
  EXPECT_EQ(messages.first, (std::vector<int32_t>{0, 3, 5, 9}));
  EXPECT_EQ(messages.mate, (std::vector<int32_t>{6, 3, 8, 1, 5, 4, 0, -1, 2}));
  std::vector<std::vector<int32_t>> found;
  for (const auto& m : messages.messages) found.push_back({m.from, m.to, m.send, m.recv});
  EXPECT_EQ(found, (std::vector<std::vector<int32_t>>{
                       {0, 1, 1, 3}, {0, 2, 0, 6}, {0, 2, 2, 8}, {1, 2, 4, 5}}));
}

TEST(Interpret, AMessageOfOneEndIsNamed) {
  const char* const kTwo = "schedule rank 0 of 2 chunks 1\nsend 1 [0]\nsend 1 [0]\n";
  const auto sent =
      parse_schedules(fmt::format("{}schedule rank 1 of 2 chunks 1\nrecv 0 [0]\n", kTwo));
  EXPECT_EQ(pair_messages(sent).flaw, "rank 0 step 1 (send 1 [0]) has no receive at rank 1");
  EXPECT_EQ(pair_messages(sent).mate, (std::vector<int32_t>{2, -1, 0}));
  const auto received = parse_schedules(
      fmt::format("{}schedule rank 1 of 2 chunks 1\nrecv 0 [0]\nrecv 0 [0]\nrecv 0 [0]\n", kTwo));
  EXPECT_EQ(pair_messages(received).flaw, "rank 1 step 2 (recv 0 [0]) has no send at rank 0");
}

}  // namespace
}  // namespace ringwood
