// The text form of schedules, and the names of collectives: round trips, errors by line, and random
// damage.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "collectives/algorithms/algorithms.h"
#include "collectives/schedule/compose.h"
#include "tests/support/places.h"

namespace ringwood {
namespace {

TEST(ScheduleText, IsWhatTheHeaderShows) {
  Schedule s{1, 4, 4, {0, 2}, {}};
  s.send(2, {0});
  s.recv_reduce(0, {3});
  s.recv(3, {1, 2});
  s.send_joined(3, {{1}, {2, 2}, {4}});
  s.recv_joined(3, {{0}});
  s.recv_reduce_joined(2, {{0, 2}, {3}});
  s.reduce({4}, {0});
  s.copy({4, 2}, {0, 2});
  EXPECT_EQ(print(s),
            "schedule rank 1 of 4 chunks 4 scratch 0 2\n"
            "send 2 [0]\n"
            "recv_reduce 0 [3]\n"
            "recv 3 [1:3]\n"
            "send 3 [1] [2:4] [4]\n"
            "recv 3 [0]\n"
            "recv_reduce 2 [0:2] [3]\n"
            "reduce [4] <- [0]\n"
            "copy [4:6] <- [0:2]\n");
  EXPECT_EQ(parse_schedule(print(s)), s);
}

TEST(ScheduleText, BlanksCommentsAndMissingLastNewlineAreFree) {
  const Schedule s = parse_schedule(
      "# by hand\r\n"
      "\n"
      "  schedule\trank 0 of 2  chunks 2   # two pieces\n"
      "\tsend 1 [ 0 : 2 ]  \r\n"
      "#send 1 [9]\n"
      "copy [1]<-[0]");
  Schedule expected{0, 2, 2, {}, {}};
  expected.send(1, {0, 2});
  expected.copy({1}, {0});
  EXPECT_EQ(s, expected);
}

TEST(ScheduleText, EveryRowRoundTrips) {
  for (const AlgorithmRow& row : algorithm_table()) {
    for (int n : {1, 2, 5, 8}) {
      const auto places = testing::places_for(row, n);
      if (!places) continue;
      for (int segment_count : {1, 3}) {
        const Schedule s = segments(row.build(places->where(n - 1, n, n / 2)), segment_count);
        EXPECT_EQ(parse_schedule(print(s)), s) << to_string(row.collective) << " " << row.name;
      }
    }
  }
}

TEST(ScheduleText, AllRanksInOneText) {
  std::string text;
  const std::vector<Schedule> all =
      build_all(*find_algorithm(Collective::all_reduce, "one_shot"), {0, 3, 0, {}});
  for (const Schedule& s : all) text += print(s) + "\n# next\n";
  EXPECT_EQ(parse_schedules(text), all);
  EXPECT_THROW(parse_schedules("# nothing\n"), Error);
}

TEST(ScheduleText, ContainsEveryRankOnceInAnyOrder) {
  const auto head = [](int rank, int n) {
    return fmt::format("schedule rank {} of {} chunks 1\n", rank, n);
  };
  const std::vector<Schedule> all = parse_schedules(head(1, 3) + head(2, 3) + head(0, 3));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(all[static_cast<size_t>(rank)].rank, rank);
  const std::pair<std::string, const char*> cases[] = {
      {head(1, 4), "it has 1 of the schedules of 4 ranks: add those of ranks 0, 2, 3"},
      {head(0, 2), "it has 1 of the schedules of 2 ranks: add that of rank 1"},
      {head(0, 99),
       "it has 1 of the schedules of 99 ranks: add those of ranks 1, 2, 3, 4, 5, 6, "
       "7, 8, ..."},
      {head(0, 2) + head(0, 2), "rank 0 has two schedules"},
      {head(0, 2) + head(1, 3), "rank 1 is one of 3 ranks, but rank 0 one of 2"},
  };
  for (const auto& [text, why] : cases) {
    try {
      parse_schedules(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.cause, std::string("schedule text: ") + why);
    }
  }
}

struct BadText {
  const char* text;
  const char* message;
};

TEST(ScheduleText, ErrorsNameTheLineAndTheCause) {
  const std::string header = "schedule rank 1 of 4 chunks 4 scratch 0\n";
  const BadText cases[] = {
      {"", "schedule text: there is no line 'schedule rank R of N chunks C'"},
      {"# nothing\n\n", "schedule text: there is no line 'schedule rank R of N chunks C'"},
      {"send 1 [0]", "schedule text, line 1: expected 'schedule', not 'send'"},
      {"schedule of 4", "schedule text, line 1: expected 'rank', not 'of'"},
      {"schedule rank -1 of 4 chunks 4",
       "schedule text, line 1: the rank must be a number from 0 to 65535, not '-1'"},
      {"schedule rank 4 of 4 chunks 4",
       "schedule text, line 1: the number of ranks must be a number from 5 to 65536, not '4'"},
      {"schedule rank 0 of 4 chunks 99999999999999999999",
       "schedule text, line 1: the number of chunks must be a number from 0 to 16777216, not "
       "'99999999999999999999'"},
      {"schedule rank 0 of 4 chunks 4 scratch",
       "schedule text, line 1: the chunk that scratch is like must be a number from 0 to 3, not "
       "''"},
      {"schedule rank 0 of 4 chunks 4 scratch 4",
       "schedule text, line 1: the chunk that scratch is like must be a number from 0 to 3, not "
       "'4'"},
      {"schedule rank 0 of 4 chunks 4 more",
       "schedule text, line 1: expected 'scratch', not 'more'"},
      {"schedule rank 0 of 2 chunks 0\n\nsend 1 [0]",
       "schedule text, line 3: the schedule has no chunks, declare some or scratch"},
  };
  const BadText steps[] = {
      {"jump 2 [0]", "unknown step 'jump', use send, recv, recv_reduce, reduce or copy"},
      {"send 4 [0]", "a peer must be a number from 0 to 3, not '4'"},
      {"send x [0]", "a peer must be a number from 0 to 3, not 'x'"},
      {"send 2x [0]", "a peer must be a number from 0 to 3, not '2x'"},
      {"send 1 [0]", "a rank cannot send to itself, use copy"},
      {"send 2", "expected '[', not ''"},
      {"send 2 0", "expected '[', not '0'"},
      {"send 2 [0", "expected ']', not ''"},
      {"send 2 [5]", "a chunk must be a number from 0 to 4, not '5'"},
      {"send 2 [1:1]", "the end of a span must be a number from 2 to 5, not '1'"},
      {"send 2 [1:6]", "the end of a span must be a number from 2 to 5, not '6'"},
      {"send 2 [3:5]", "a span lies either in the user's chunks or in scratch, split it"},
      {"send 2 [0] x", "expected '[', not 'x'"},
      {"send 2 [0] [1] [9]", "a chunk must be a number from 0 to 4, not '9'"},
      {"copy [0] <- [1] [2]", "'[2]' is too much here"},
      {"copy [0] [1]", "expected '<-', not '[1]'"},
      {"copy [0:2] <- [1]", "both spans must be of equal length"},
      {"schedule rank 0 of 4 chunks 4", "another schedule, where one is expected"},
  };
  auto expect = [](const std::string& text, const std::string& message) {
    try {
      parse_schedule(text);
      ADD_FAILURE() << "parsed: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::invalid_argument) << text;
      EXPECT_EQ(error.cause, message) << text;
    }
  };
  for (const BadText& c : cases) expect(c.text, c.message);
  for (const BadText& c : steps) {
    expect(header + "recv 0 [1]\n" + c.text + "\n",
           std::string("schedule text, line 3: ") + c.message);
  }
  expect(std::string((size_t{64} << 20) + 1, ' '),
         "schedule text: 67108865 bytes are more than the 67108864 allowed");
}

// One random change: a byte, a cut, a repetition, or a piece of another place.
void damage(std::string& text, std::mt19937& random) {
  auto below = [&](size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random);
  };
  constexpr std::string_view kPieces[] = {
      "[",          "]",       ":",  "<-",    "#",    "\n",
      " ",          "-1",      "0",  "9",     "send", "schedule ",
      "4294967296", {"\0", 1}, "\r", "99999", "[0:",  "recv_reduce 1 [0]\n"};
  if (text.empty()) text.push_back(' ');
  const size_t at = below(text.size()), length = std::min(1 + below(8), text.size() - at);
  switch (below(5)) {
    case 0: text[at] = static_cast<char>(below(256)); break;
    case 1: text.erase(at, length); break;
    case 2: text.insert(at, kPieces[below(std::size(kPieces))]); break;
    case 3: text.insert(below(text.size()), text.substr(at, length)); break;
    default: text.resize(at);
  }
}

TEST(ScheduleText, RandomDamageIsParsedOrRefused) {
  std::mt19937 random(20240917);
  std::vector<std::string> seeds;
  for (const AlgorithmRow& row : algorithm_table()) {
    const auto places = testing::places_for(row, 3);
    if (places) seeds.push_back(print(row.build(places->where(1, 3, 0))));
  }
  int parsed = 0, refused = 0;
  for (int i = 0; i < 40000; ++i) {
    std::string text = seeds[i % seeds.size()];
    for (int k = 0; k <= i % 3; ++k) damage(text, random);
    try {
      const Schedule s = parse_schedule(text);
      ++parsed;
      EXPECT_EQ(parse_schedule(print(s)), s) << text;
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(error.code, ErrorCode::invalid_argument) << text;
      EXPECT_TRUE(error.cause.starts_with("schedule text")) << error.cause;
    }
  }
  EXPECT_GT(parsed, 500);
  EXPECT_GT(refused, 1000);
}

TEST(CollectiveNames, RoundTripWithAliases) {
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    EXPECT_EQ(parse_collective(to_string(collective)), collective);
  }
  EXPECT_EQ(parse_collective("allreduce"), Collective::all_reduce);
  EXPECT_EQ(parse_collective("all-to-all"), Collective::all_to_all);
  EXPECT_EQ(parse_collective("reduce-scatter"), Collective::reduce_scatter);
  for (const auto& [name, near] : {std::pair{"", ", the"},
                                   {"sum", ", the"},
                                   {"All_reduce", "; did you mean all_reduce? The"},
                                   {"reduce ", "; did you mean reduce? The"},
                                   {"scater", "; did you mean scatter? The"}}) {
    try {
      parse_collective(name);
      ADD_FAILURE() << "accepted: " << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::invalid_argument);
      EXPECT_EQ(error.cause, std::string("unknown collective '") + name + "'" + near +
                                 " names are all_reduce, reduce, broadcast, all_gather, "
                                 "gather, reduce_scatter, scatter, all_to_all, barrier");
    }
  }
}

}  // namespace
}  // namespace ringwood
