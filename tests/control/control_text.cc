// What the control connection says to people, and the bytes in which it travels: functions of
// values.
#include <gtest/gtest.h>

#include <climits>
#include <random>

#include "tests/support/errors.h"
#include "transports/base/options.h"
#include "transports/control/control_messages.h"
#include "transports/control/explain_error.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;
using State = StatusRow::State;

StatusRow replied(int64_t sequence, bool inside, const char* text) {
  return {State::replied, {{sequence, inside, text}}, 0};
}
StatusRow on_two(const OpStatus& normal, const OpStatus& high) {
  return {State::replied, {normal, high}, 0};
}
StatusRow absent(State state, int64_t sequence = -1, double heard_ago_s = 0) {
  return {state, {{sequence, false, ""}}, heard_ago_s};
}

struct Explained {
  const char* name;
  ErrorCode code;
  int rank, peer;
  int64_t sequence;
  std::vector<StatusRow> rows;
  const char* added;  // to the cause "why"
  int expected_peer;
};

const StatusRow kIn = replied(5, true, "all_reduce"), kDone = replied(5, false, "all_reduce");

const Explained kExplained[] = {
    {"others are left alone", ErrorCode::network, 0, 1, 5, {kIn, absent(State::died)}, "", 1},
    {"nothing called yet",
     ErrorCode::timeout,
     0,
     2,
     5,
     {kIn, replied(-1, false, ""), kIn},
     "; missing: rank 1 (has called nothing yet)",
     1},
    {"finished is not missing",
     ErrorCode::timeout,
     0,
     -1,
     5,
     {kIn, kDone, replied(4, false, "barrier")},
     "; missing: rank 2 (after #4 barrier)",
     2},
    {"the named peer stays",
     ErrorCode::timeout,
     0,
     2,
     5,
     {kIn, replied(4, true, "barrier"), replied(3, true, "barrier")},
     "; missing: rank 1 (at #4 barrier), rank 2 (at #3 barrier)",
     2},
    {"all are in",
     ErrorCode::timeout,
     1,
     0,
     5,
     {kIn, kIn},
     "; every rank has called it and answers",
     0},
    {"dead, gone, silent",
     ErrorCode::timeout,
     0,
     -1,
     5,
     {kIn, absent(State::died), absent(State::departed), absent(State::silent, 4, 2.25)},
     "; missing: rank 1 (died), rank 2 (has left the group), "
     "rank 3 (does not answer, last heard 2.2 s ago at #4)",
     1},
    {"a receive, not a collective",
     ErrorCode::timeout,
     0,
     1,
     900,
     {replied(5, false, "all_reduce"), replied(3, true, "barrier")},
     "; rank 1 is at #3 barrier",
     1},
    {"a receive from a rank that has called nothing",
     ErrorCode::timeout,
     0,
     1,
     900,
     {replied(5, false, "all_reduce"), replied(-1, false, "")},
     "; rank 1 has called nothing yet",
     1},
    {"a receive from a rank between two calls",
     ErrorCode::timeout,
     0,
     1,
     900,
     {replied(-1, false, ""), replied(3, false, "barrier")},
     "; rank 1 is after #3 barrier",
     1},
    {"queued behind one that waits for another rank",
     ErrorCode::timeout,
     0,
     1,
     7,
     {replied(5, true, "all_reduce"), replied(5, true, "all_reduce"), replied(4, false, "barrier")},
     "; rank 1 is at #5 all_reduce; missing in #5: rank 2 (after #4 barrier)",
     1},
    {"two kinds",
     ErrorCode::mismatch,
     0,
     1,
     5,
     {kIn, replied(5, true, "barrier"), kIn},
     "; ranks 0, 2 called all_reduce; rank 1 called barrier",
     1},
    {"no majority keeps the peer",
     ErrorCode::mismatch,
     1,
     0,
     5,
     {kIn, replied(5, true, "barrier")},
     "; rank 0 called all_reduce; rank 1 called barrier",
     0},
    {"three kinds",
     ErrorCode::mismatch,
     0,
     -1,
     5,
     {kIn, replied(5, true, "b"), replied(5, true, "a"), kIn, replied(5, true, "a"),
      replied(4, true, "z")},
     "; ranks 0, 3 called all_reduce; ranks 2, 4 called a; rank 1 called b",
     1},
    {"who has been overtaken is not missing",
     ErrorCode::timeout,
     0,
     -1,
     6,
     {on_two({4, true, "a"}, {6, true, "h"}), on_two({4, true, "a"}, {6, false, "h"}),
      on_two({5, true, "b"}, {3, false, "h"})},
     "; missing: rank 2 (at #5 b)",
     2},
    {"who is ahead elsewhere is",
     ErrorCode::timeout,
     0,
     -1,
     5,
     {on_two({5, true, "a"}, {}), on_two({4, true, "b"}, {6, true, "h"})},
     "; missing: rank 1 (at #4 b and #6 h)",
     1},
    {"who calls twice at once",
     ErrorCode::mismatch,
     0,
     1,
     5,
     {on_two({5, true, "a"}, {6, true, "h"}), on_two({4, true, "b"}, {5, true, "h"})},
     "; rank 0 called a; rank 1 called h",
     1},
    {"the same text tells nothing", ErrorCode::mismatch, 0, 1, 5, {kIn, kIn}, "", 1},
};

TEST(ExplainError, AddsWhatTheStatusQueryKnows) {
  for (const Explained& c : kExplained) {
    Error first(c.code, "why");
    first.rank = c.rank;
    first.peer = c.peer;
    first.sequence = c.sequence;
    Error group_error = explain_error(first, c.rows);
    EXPECT_EQ(group_error.cause, std::string("why") + c.added) << c.name;
    EXPECT_EQ(group_error.peer, c.expected_peer) << c.name;
    EXPECT_EQ(group_error.rank, c.rank) << c.name;
  }
}

TEST(ExplainError, ATimeoutOfDifferentPrioritiesIsAMismatch) {
  const std::vector<StatusRow> rows = {on_two({5, true, "a"}, {}), on_two({}, {5, true, "a, high"}),
                                       on_two({5, true, "a"}, {})};
  Error first(ErrorCode::timeout, "why");
  first.rank = 2;
  first.sequence = 5;
  const Error group_error = explain_error(first, rows);
  EXPECT_EQ(group_error.code, ErrorCode::mismatch);
  EXPECT_EQ(group_error.cause,
            "rank 2 and rank 1 called #5, or one before it, with different priorities; "
            "ranks 0, 2 called a; rank 1 called a, high");
  EXPECT_EQ(group_error.peer, 1);
}

TEST(ExplainError, IsMadeWhateverRanksTheFirstErrorNames) {
  const std::vector<StatusRow> rows = {on_two({5, true, "a"}, {}), on_two({4, false, "b"}, {})};
  for (const ErrorCode code : {ErrorCode::timeout, ErrorCode::mismatch}) {
    for (const int rank : {-1, 2, 100'000, INT_MIN, INT_MAX}) {
      Error first(code, "why");
      first.rank = first.peer = rank;
      first.sequence = 5;
      EXPECT_TRUE(explain_error(first, rows).cause.starts_with("why")) << rank;
    }
  }
}

TEST(ExplainError, StaysShortInALargeGroup) {
  std::vector<StatusRow> rows(2000, absent(State::silent, 4, 1));
  rows[0] = kIn;
  Error first(ErrorCode::timeout, "why");
  first.rank = 0;
  first.sequence = 5;
  Error group_error = explain_error(first, rows);
  EXPECT_PRED2(contains, group_error.cause,
               "rank 8 (does not answer, last heard 1.0 s ago at #4), 1991 more");
  EXPECT_LE(encode(group_error).size(), kMaxBody);
}

TEST(ExplainError, ListsRanks) {
  const std::pair<std::vector<int>, const char*> cases[] = {
      {{3}, "rank 3"},
      {{0, 1}, "ranks 0, 1"},
      {{0, 1, 2, 5}, "ranks 0-2, 5"},
      {{0, 2, 4, 6, 8, 10, 12, 14, 16, 18}, "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 2 more"},
  };
  for (const auto& [ranks, text] : cases) EXPECT_EQ(list_ranks(ranks), text);
}

// ---- bytes -------------------------------------------------------------------------------------

TEST(ControlMessages, ErrorsSurviveTheJourney) {
  Error error(ErrorCode::unsupported, "cause");
  error.rank = 3;
  error.host = "host";
  error.peer = 7;
  error.collective = "all_gather";
  error.sequence = 123456789012;
  error.step = 4;
  error.transport = "shm";
  Error copy;
  ASSERT_TRUE(decode(encode(error), copy));
  EXPECT_EQ(copy.message(), error.message());
}

TEST(ControlMessages, LongTextsAreCutBetweenCharacters) {
  for (size_t shift = 0; shift < 4; ++shift) {
    std::string umlauts(shift, 'x');
    for (int i = 0; i < 2000; ++i) umlauts += "\xc3\xa4";
    Error error(ErrorCode::system, umlauts), copy;
    error.host = umlauts;
    std::string body = encode(error);
    EXPECT_LE(body.size(), kMaxBody);
    EXPECT_GE(body.size(), kMaxBody - 1) << "as much as fits";
    ASSERT_TRUE(decode(body, copy));
    for (const std::string& text : {copy.cause, copy.host}) {
      EXPECT_EQ((text.size() - shift) % 2, 0u) << "half a character is left";
      EXPECT_EQ(umlauts.compare(0, text.size(), text), 0);
    }
  }
}

TEST(ControlMessages, NothingThatSteersATerminalArrives) {
  OpStatuses copy;
  ASSERT_TRUE(decode(encode(OpStatuses{{1, true, "a\x1b[2Jb\n\x7f"}}), copy));
  ASSERT_EQ(copy.size(), 1u);
  EXPECT_EQ(copy[0].text, "a?[2Jb??");
}

TEST(ControlMessages, StreamIsCutTheSameWhereverItIsSplit) {
  std::string stream = frame(MessageType::heartbeat, encode(OpStatuses{{4, true, ""}})) +
                       frame(MessageType::goodbye) + frame(MessageType::left, encode(LeftRank{3}));
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    MessageReader reader;
    std::vector<MessageType> types;
    Message message;
    std::string why;
    for (size_t at = 0; at < stream.size(); at += piece) {
      reader.append(stream.substr(at, piece));
      while (reader.next(message, why) == MessageReader::Found::message)
        types.push_back(message.type);
    }
    EXPECT_EQ(types, (std::vector{MessageType::heartbeat, MessageType::goodbye, MessageType::left}))
        << piece;
  }
}

TEST(ControlMessages, TheLongestStatusesAllFit) {
  const OpStatuses longest(kMaxInFlight, OpStatus{1, true, std::string(1000, 'x')});
  const std::string body = encode(longest);
  EXPECT_LE(body.size(), kMaxBody);
  OpStatuses copy;
  ASSERT_TRUE(decode(body, copy));
  for (const OpStatus& op_status : copy) EXPECT_EQ(op_status.text.size(), 200u);
  EXPECT_FALSE(decode(encode(OpStatuses(kMaxInFlight + 1)), copy)) << "more than there are";
}

TEST(ControlMessages, NoRankBelowZeroHasLeft) {
  LeftRank left;
  EXPECT_TRUE(decode(encode(LeftRank{2}), left));
  EXPECT_EQ(left.rank, 2);
  EXPECT_FALSE(decode(encode(LeftRank{-1}), left));
}

}  // namespace
}  // namespace ringwood
