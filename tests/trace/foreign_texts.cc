// The texts of ranks that run are foreign bytes: whatever they are, they are refused in a sentence
// that names the rank, or read, judged and drawn.
#include <gtest/gtest.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <sstream>

#include <fmt/format.h>

#include "collectives/tuner/machine/machine_model.h"
#include "tests/fuzz/random.h"
#include "tools/trace/blame.h"
#include "tools/trace/perfetto.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

using testing::Random;
using Json = nlohmann::json;

constexpr int kRanks = 3;

Json operation_of(int rank, int number) {
  const int64_t begun = 1'000'000'000 + number * 4'000'000 + (rank == 1 ? 2'000'000 : 0);
  return {{"sequence", number},
          {"collective", "all_reduce"},
          {"type", "float32"},
          {"op", "sum"},
          {"root", 0},
          {"count", 1 << 20},
          {"bytes", 4 << 20},
          {"algorithm", "ring"},
          {"segments", 1},
          {"wire", "exact"},
          {"priority", 0},
          {"track", 0},
          {"packed", false},
          {"entered_ns", begun},
          {"begun_ns", begun},
          {"agreed_ns", 1'002'000'000 + number * 4'000'000},
          {"ended_ns", 1'003'000'000 + number * 4'000'000},
          {"waiting_ns", rank == 1 ? 0 : begun + 20'000},
          {"waited_for", rank == 1 ? -1 : 1},
          {"predicted_s", 1e-3},
          {"steps", 8},
          {"end", "done"}};
}

Json text_of(int rank) {
  MachineModel machine;
  Json text = {{"format", "ringwood-trace-1"},
               {"group", "world"},
               {"session", "abc"},
               {"rank", rank},
               {"size", kRanks},
               {"hosts", {0, 0, 0}},
               {"host", "node-a"},
               {"machine", print(machine)},
               {"error", ""},
               {"now_ns", 9'000'000'000},
               {"clock", {{1'000'000'000, 5, 10}, {2'000'000'000, 6, 10}}},
               {"ways", {"shm", "shm", "shm"}},
               {"operations", Json::array()},
               {"running", Json::array()},
               {"steps", Json::array()}};
  for (int number = 0; number < 4; ++number)
    text["operations"].push_back(operation_of(rank, number));
  for (int number = 0; number < 4; ++number)
    for (int step = 0; step < 8; ++step) {
      const int kind = step % 2, peer = (rank + (kind == 0 ? 1 : kRanks - 1)) % kRanks;
      const int64_t at = 1'002'000'000 + number * 4'000'000 + step * 100'000;
      text["steps"].push_back({number, step, kind, peer, 1 << 18, at, at + 90'000});
    }
  Json running = operation_of(rank, 4);
  running["begun_ns"] = 4'000'000'000;
  running["agreed_ns"] = rank == 2 ? 4'500'000'000 : 0;
  running["ended_ns"] = 0;
  running["end"] = "running";
  text["running"].push_back(running);
  return text;
}

LiveGroup group_of(const std::vector<std::string>& texts) {
  LiveGroup group{.name = "world", .ranks = {}, .remarks = {"one more"}};
  for (size_t rank = 0; rank < texts.size(); ++rank)
    group.ranks.push_back(
        {static_cast<int>(rank), fmt::format("rank {} of world", rank), texts[rank]});
  return group;
}

// Read, judged and drawn; or refused.
bool take(const std::vector<std::string>& texts, std::string* refusal = nullptr) try {
  const TracedGroup group = read_live_group(group_of(texts));
  std::deque<Predictions> predictions;
  predictions.emplace_back(group);
  const RunBlame run = blame(group, predictions[0]);
  EXPECT_FALSE(summary_of(group, run).empty());
  for (const Blame& one : run.operations) (void)sentence_of(one);
  std::ostringstream drawn;
  write_perfetto(drawn, {group}, predictions, {});
  return true;
} catch (const Error& error) {
  EXPECT_FALSE(error.cause.empty());
  if (refusal) *refusal = error.cause;
  return false;
}

std::vector<std::string> good() {
  std::vector<std::string> texts;
  for (int rank = 0; rank < kRanks; ++rank) texts.push_back(text_of(rank).dump());
  return texts;
}

TEST(ForeignTexts, WhatRanksTellIsReadAndWhatDoesNotEndIsSaid) {
  const TracedGroup group = read_live_group(group_of(good()));
  EXPECT_EQ(group.ranks.size(), size_t{kRanks});
  EXPECT_EQ(group.operations.size(), 4u);
  ASSERT_EQ(group.remarks.size(), 4u);
  EXPECT_EQ(group.remarks[0],
            "rank 0 has been in all_reduce float32 x 1048576, sequence 4, for 5.0 s and waits for "
            "rank 1");
  EXPECT_EQ(group.remarks[1],
            "rank 1 has been in all_reduce float32 x 1048576, sequence 4, for 5.0 s");
  EXPECT_EQ(
      group.remarks[2],
      "rank 2 has been in all_reduce float32 x 1048576, sequence 4, for 5.0 s; all ranks have "
      "called it");
  EXPECT_EQ(group.remarks[3], "one more");
  EXPECT_TRUE(take(good()));
}

TEST(ForeignTexts, ARankThatTellsAnothersRecordsIsRefused) {
  auto texts = good();
  std::swap(texts[0], texts[1]);
  std::string why;
  EXPECT_FALSE(take(texts, &why));
  EXPECT_EQ(why, "rank 0 of world: tells the records of rank 1");
}

// One value is another one, of any type.
TEST(ForeignTexts, TakeAnyValue) {
  const Json values[] = {-1,
                         0,
                         1,
                         255,
                         65536,
                         int64_t{1} << 40,
                         int64_t{1} << 62,
                         ~uint64_t{0},
                         -(int64_t{1} << 62),
                         1e300,
                         -0.5,
                         "",
                         "nobody",
                         Json::array(),
                         Json::object(),
                         nullptr,
                         true,
                         {1, 2, 3}};
  const Json operation = operation_of(0, 0), whole = text_of(0);
  for (const char* const part : {"operations", "running"})
    for (const auto& [key, was] : operation.items())
      for (const Json& value : values) {
        SCOPED_TRACE(fmt::format("{}: {} is {}", part, key, value.dump()));
        auto texts = good();
        Json text = text_of(1);
        text[part][0][key] = value;
        texts[1] = text.dump();
        (void)take(texts);
      }
  for (const auto& [key, was] : whole.items())
    for (const Json& value : values)
      for (const size_t rank : {0, 2}) {
        SCOPED_TRACE(fmt::format("{} is {}", key, value.dump()));
        auto texts = good();
        Json text = text_of(static_cast<int>(rank));
        text[key] = value;
        texts[rank] = text.dump();
        (void)take(texts);
      }
  for (size_t field = 0; field < 7; ++field)
    for (const Json& value : values) {
      SCOPED_TRACE(fmt::format("step field {} is {}", field, value.dump()));
      auto texts = good();
      Json text = text_of(0);
      for (Json& step : text["steps"]) step[field] = value;
      texts[0] = text.dump();
      (void)take(texts);
    }
}

TEST(ForeignTexts, TakeAnyBytes) {
  size_t read = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    auto texts = good();
    std::string& text = texts[random.below(kRanks)];
    const std::string tail = text.substr(std::min<size_t>(text.size(), 8000));
    text.resize(text.size() - tail.size());
    for (size_t i = 1 + random.below(3); i > 0; --i) testing::mutate(text, texts[0], random);
    text += tail;
    read += take(texts);
  }
  EXPECT_GT(read, 0u);
}

}  // namespace
}  // namespace ringwood::tools
