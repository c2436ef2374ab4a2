// What the report of `ringwood perf` says first, of made-up results.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tools/perf/html/perf_html_verdicts.h"

namespace ringwood::tools {
namespace {

constexpr size_t kKi = 1024;

// As an undisturbed run on two ranks of one host has them, at 1 GB/s; nothing stands out.
Row row_of(const std::string& collective, size_t bytes) {
  Row row;
  row.collective = collective;
  row.ranks = 2;
  row.bytes = bytes;
  row.count = bytes / 4;
  row.dtype = "float32";
  row.op = collective == "all_reduce" ? "sum" : "none";
  row.root = collective == "broadcast" ? 0 : -1;
  row.algorithm = "ring";
  row.transports = "shm";
  const double us = static_cast<double>(bytes) / 1e3;
  row.times.best_us = us * 0.98;
  row.times.median_us = us;
  row.times.spread = {100, us, us * 1.5, us * 0.05, us * 0.1, 1, us * 0.03, 0};
  row.busbw_gbs = 1;
  row.predicted_us = us * 1.1;
  return row;
}

std::vector<Row> rows_of(const std::string& collective = "all_reduce") {
  std::vector<Row> rows;
  for (const size_t bytes : {kKi, 4 * kKi, 16 * kKi, 64 * kKi, 256 * kKi, 1024 * kKi})
    rows.push_back(row_of(collective, bytes));
  return rows;
}

// Beside the choice, one that takes `factor` of its time.
Row other(const Row& choice, double factor) {
  Row row = choice;
  row.chosen = false;
  row.algorithm = "direct";
  row.times.median_us *= factor;
  *row.predicted_us *= factor;
  return row;
}

using Rows = std::vector<Row>;
using Change = std::function<void(Rows&)>;

Change compare_with(std::vector<double> factors) {
  return [factors](Rows& rows) {
    Rows all;
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].compared = rows[i].chosen = true;
      all.push_back(rows[i]);
      all.push_back(other(rows[i], factors[i]));
    }
    rows = all;
  };
}

struct Case {
  const char* name;
  Change change;
  std::vector<std::string> sentences;  // all of them, in their order
  RunShape shape = {};
  std::vector<EarlierResults> earlier = {};
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class PerfVerdicts : public testing::TestWithParam<Case> {};

TEST_P(PerfVerdicts, AreTheseSentences) {
  const Case& c = GetParam();
  Rows rows = rows_of();
  c.change(rows);
  std::vector<std::string> told;
  for (const PerfFinding& one : findings_of(rows, c.earlier, c.shape)) told.push_back(one.sentence);
  EXPECT_EQ(told, c.sentences);
}

void predict(Rows& rows, std::vector<size_t> at, double factor) {
  for (const size_t i : at) rows[i].predicted_us = rows[i].times.median_us * factor;
}

const std::string kName = "all_reduce, float32, sum";

INSTANTIATE_TEST_SUITE_P(
    Predictions, PerfVerdicts,
    testing::Values(
        Case{"Nothing", [](Rows&) {}, {}},
        Case{"TooSlowAtTwo",
             [](Rows& rows) {
               predict(rows, {2}, 0.5);
               predict(rows, {3}, 0.4);
             },
             {kName + ", at 2 of 6 sizes from 16 KiB to 64 KiB, most at 64 KiB: an operation takes "
                      "65.5 µs, 2.5 times the 26.2 µs that are predicted for ring: ringwood tune "
                      "all_reduce --sizes 16K,64K --ranks 2 lets measurements choose, and ringwood "
                      "explain all_reduce 64K --ranks 2 says what the prediction follows from."}},
        Case{"TooQuickBetweenHosts",
             [](Rows& rows) {
               predict(rows, {4, 5}, 1.6);
               for (Row& row : rows) row.transports = "tcp";
             },
             {kName +
              ", at 2 of 6 sizes from 256 KiB to 1 MiB, most at 256 KiB: an operation takes "
              "262 µs, 0.625 times the 419 µs that are predicted for ring: RINGWOOD_TRANSPORTS=tcp "
              "ringwood tune all_reduce --sizes 256K,1M lets measurements choose."},
             {2, false, false, {"tcp"}}},
        Case{"NotNeighbours",
             [](Rows& rows) {
               predict(rows, {1, 3, 5}, 3);
             },
             {}},
        Case{"NotEnough",
             [](Rows& rows) {
               predict(rows, {1, 2, 3}, 1.45);
             },
             {}},
        Case{"NotPredicted",
             [](Rows& rows) {
               for (Row& row : rows) row.predicted_us.reset();
             },
             {}}),
    [](const auto& one) { return std::string(one.param.name); });

void spread(Row& row, double factor, int samples = 100) {
  row.times.spread.samples = samples;
  row.times.spread.p99_us = row.times.spread.p50_us * factor;
}
void skew(Row& row, double share, double clock_error_us = 0) {
  row.times.spread.skew_p50_us = row.times.median_us * share;
  row.times.spread.last_rank = 3;
  row.times.spread.clock_error_us = clock_error_us;
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, PerfVerdicts,
    testing::Values(
        Case{"OneOfAHundred",
             [](Rows& rows) { spread(rows[3], 12.5); },
             {kName + ", at 64 KiB: one of 100 operations takes 819 µs or more, 12.5 times the "
                      "median of 65.5 µs: something else runs on these cores, memory is paged or "
                      "packets are sent again; look at the counters below, and run ringwood "
                      "doctor."}},
        Case{"OneOfAHundredBetweenHosts",
             [](Rows& rows) {
               for (Row& row : rows) spread(row, 5);
               spread(rows[5], 200);
             },
             {kName +
              ", at 6 of 6 sizes from 1 KiB to 1 MiB, most at 1 MiB: one of 100 operations takes "
              "210 ms or more, 200 times the median of 1.05 ms: something else runs on these "
              "cores, memory is paged or packets are sent again; look at the counters below, and "
              "run ringwood doctor --all-hosts."},
             {2, false, false, {}}},
        Case{"TooFewSamples", [](Rows& rows) { spread(rows[3], 12.5, 19); }, {}},
        Case{"UsualSpread", [](Rows& rows) { spread(rows[3], 4.9); }, {}},
        Case{"LateRank",
             [](Rows& rows) {
               skew(rows[3], 0.3);
               skew(rows[4], 0.25);
             },
             {kName + ", at 2 of 6 sizes from 64 KiB to 256 KiB, most at 64 KiB: ranks come to an "
                      "operation 19.7 µs apart, 30 % of the 65.5 µs that it takes, and rank 3 "
                      "comes last: see what it does meanwhile, with RINGWOOD_TRACE_DIR=traces "
                      "ringwood perf all_reduce --sizes 64K --ranks 2 and then ringwood trace "
                      "traces."}},
        Case{"UncertainClock", [](Rows& rows) { skew(rows[3], 0.3, 25); }, {}},
        Case{"AsLongAsTheClockIsRead", [](Rows& rows) { skew(rows[0], 0.45); }, {}},
        Case{"UsualSkew", [](Rows& rows) { skew(rows[3], 0.19); }, {}},
        Case{"ARootRunsAhead",
             [](Rows& rows) {
               rows = rows_of("broadcast");
               for (Row& row : rows) skew(row, 0.9);
             },
             {}},
        Case{"ButNotBehindABarrier",
             [](Rows& rows) {
               rows = rows_of("broadcast");
               skew(rows[5], 0.9);
             },
             {"broadcast, float32, at 1 MiB: ranks come to an operation 944 µs apart, 90 % of the "
              "1.05 ms that it takes, and rank 3 comes last: see what it does meanwhile, with "
              "RINGWOOD_TRACE_DIR=traces ringwood perf broadcast --sizes 1M --ranks 2 and then "
              "ringwood trace traces."},
             {1, true, false, {}}}),
    [](const auto& one) { return std::string(one.param.name); });

void bandwidth(Rows& rows, std::vector<double> gbs) {
  for (size_t i = 0; i < gbs.size(); ++i) rows[i].busbw_gbs = gbs[i];
  rows.resize(gbs.size(), rows[0]);
}
// Of this bandwidth.
void limit(Row& row, double gbs) { row.limit_us = row.times.best_us * row.busbw_gbs / gbs; }

INSTANTIATE_TEST_SUITE_P(
    Bandwidth, PerfVerdicts,
    testing::Values(
        Case{"Falls",
             [](Rows& rows) {
               bandwidth(rows, {1, 3, 9, 8, 7, 7.2});
             },
             {kName + ", at 1 MiB: the bus bandwidth has fallen to 7.2 GB/s from the 9 GB/s at "
                      "16 KiB: ringwood perf --ladder --sizes 16K,1M tells which layer loses it."}},
        Case{"FallsBelowTheLimit",
             [](Rows& rows) {
               bandwidth(rows, {1, 3, 9, 4});
               limit(rows[3], 6);
             },
             {kName + ", at 64 KiB: the bus bandwidth has fallen to 4 GB/s from the 9 GB/s at "
                      "16 KiB, and memory and links allow 6 GB/s: ringwood perf --ladder --sizes "
                      "16K,64K tells which layer loses it."}},
        Case{"FallsAsCachesEnd",
             [](Rows& rows) {
               bandwidth(rows, {1, 3, 9, 4});
               limit(rows[3], 4.5);
             },
             {}},
        Case{"ThreeSizes",
             [](Rows& rows) {
               bandwidth(rows, {1, 9, 4});
             },
             {}},
        Case{"Recovers",
             [](Rows& rows) {
               bandwidth(rows, {1, 9, 4, 4, 7.5});
             },
             {}}),
    [](const auto& one) { return std::string(one.param.name); });

EarlierResults earlier(std::vector<double> bytes, std::vector<double> times_us,
                       std::string op = "sum") {
  return {"NCCL",
          {"all_reduce", "float32", std::move(op), -1},
          std::move(bytes),
          std::move(times_us),
          std::vector<double>(times_us.size(), 1)};
}

INSTANTIATE_TEST_SUITE_P(
    EarlierResults, PerfVerdicts,
    testing::Values(
        Case{"FasterAtTwo",
             [](Rows&) {},
             {kName + ", at 2 of 3 sizes from 4 KiB to 64 KiB, most at 64 KiB: NCCL takes 30 µs, "
                      "and this run 65.5 µs, 2.18 times as long: ringwood perf all_reduce --sizes "
                      "4K,64K --ranks 2 --algorithm all tells whether another algorithm is as "
                      "fast."},
             {},
             {earlier({4096, 8192, 16384, 65536}, {3.5, 1, 20, 30})}},
        Case{"FasterAtTheOnlyOne",
             compare_with({1, 1, 1, 1, 1, 1}),
             {kName + ", at 64 KiB: NCCL takes 32 µs, and this run 65.5 µs, 2.05 times as long: "
                      "ringwood perf --ladder --sizes 64K tells which layer takes it."},
             {},
             {earlier({65536}, {32})}},
        Case{"FasterAtOneSlowerAtAnother",
             [](Rows&) {},
             {},
             {},
             {earlier({16384, 65536}, {17, 32})}},
        Case{"HardlyFaster", [](Rows&) {}, {}, {}, {earlier({16384, 65536}, {15, 60})}},
        Case{"OfAnotherOperation", [](Rows&) {}, {}, {}, {earlier({16384, 65536}, {1, 1}, "max")}}),
    [](const auto& one) { return std::string(one.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Algorithms, PerfVerdicts,
    testing::Values(
        Case{"FasterAtTwo",
             compare_with({0.8, 0.7, 0.95, 1.5, 2, 2}),
             {kName + ", at 2 of 6 sizes from 1 KiB to 4 KiB, most at 4 KiB: direct takes 2.87 µs "
                      "where the choice, ring, takes 4.1 µs, and saves 1.43 µs in all: ringwood "
                      "tune all_reduce --sizes 1K,4K --ranks 2 measures what groups then choose "
                      "by."}},
        Case{"MuchFasterAtOne",
             compare_with({2, 2, 2, 0.8, 2, 2}),
             {kName + ", at 64 KiB: direct takes 52.4 µs where the choice, ring, takes 65.5 µs: "
                      "ringwood tune all_reduce --sizes 64K --ranks 2 measures what groups then "
                      "choose by."}},
        Case{"AtManySizesOfAnotherType",
             [](Rows& rows) {
               compare_with({0.5, 0.5, 0.5, 0.5, 0.5, 0.5})(rows);
               for (Row& row : rows) {
                 row.dtype = "bfloat16";
                 row.op = "max";
               }
             },
             {"all_reduce, bfloat16, max, at 6 of 6 sizes from 1 KiB to 1 MiB, most at 1 KiB: "
              "direct takes 0.512 µs where the choice, ring, takes 1.02 µs, and saves 699 µs in "
              "all: ringwood tune all_reduce -b 1K -e 1M -d bfloat16 -o max --ranks 2 --memory "
              "shared measures what groups then choose by."},
             {1, false, true, {}}},
        Case{"HardlyFasterAtOne", compare_with({0.5, 2, 2, 2, 2, 2}), {}},
        Case{"NotFaster", compare_with({0.91, 1, 1, 2, 0.95, 1}), {}}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(PerfVerdicts, OfTwoAlgorithmsTheOneThatSavesMoreIsNamed) {
  Rows rows = rows_of();
  compare_with({1, 1, 1, 0.8, 0.8, 1})(rows);
  for (const size_t at : {6, 8}) {
    Row quicker = other(rows[at], 0.5);
    quicker.algorithm = "double_tree";
    quicker.segments = 4;
    rows.push_back(quicker);
  }
  const auto found = findings_of(rows, {}, {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].symptom, Symptom::other_algorithm);
  EXPECT_NE(found[0].sentence.find("double_tree, segmented takes"), std::string::npos);
}

// Named algorithms may not have the choice among them: the quickest is judged.
TEST(PerfVerdicts, WithoutAChoiceTheQuickestOfEachSizeIsJudged) {
  Rows rows = rows_of();
  compare_with({2, 2, 2, 2, 2, 2})(rows);
  for (Row& row : rows) row.chosen = false;
  for (size_t i = 1; i < rows.size(); i += 2) predict(rows, {i}, 0.1);  // of the slower ones
  EXPECT_TRUE(findings_of(rows, {}, {}).empty());
}

TEST(PerfVerdicts, WhatPutsFiguresInDoubtIsToldFirst) {
  Rows rows = rows_of();
  bandwidth(rows, {1, 3, 9, 8, 7, 3});
  predict(rows, {0, 1}, 100);
  compare_with({1, 1, 0.5, 0.5, 1, 1})(rows);
  spread(rows[4], 9);
  skew(rows[6], 0.3);
  std::vector<Symptom> told;
  for (const PerfFinding& one : findings_of(rows, {earlier({65536}, {32})}, {}))
    told.push_back(one.symptom);
  EXPECT_EQ(told, (std::vector<Symptom>{Symptom::spread, Symptom::late_rank,
                                        Symptom::other_algorithm, Symptom::earlier_results,
                                        Symptom::falling_bandwidth, Symptom::prediction}));
}

TEST(PerfVerdicts, SweepsAreJudgedApart) {
  // Neighbours in the list, but of two types: neither has two sizes.
  Rows rows = {row_of("all_reduce", kKi), row_of("all_reduce", kKi)};
  rows[1].dtype = "float64";
  predict(rows, {0, 1}, 5);
  EXPECT_TRUE(findings_of(rows, {}, {}).empty());
  // Of four, the three worst have a sentence of their own.
  rows.clear();
  for (const char* const type : {"float32", "float64", "int32", "int64"}) {
    for (const size_t root : {0, 1}) {
      Row row = row_of("broadcast", kKi);
      row.dtype = type;
      row.root = static_cast<int>(root);
      spread(row, 6 + static_cast<double>(rows.size()));
      rows.push_back(row);
    }
  }
  const auto found = findings_of(rows, {}, {});
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].sweep, "broadcast, int64, root 1");
  EXPECT_EQ(found[1].sweep, "broadcast, int64");
  EXPECT_EQ(found[2].sweep, "broadcast, int32, root 1");
  EXPECT_EQ(found[3].sentence, "Likewise, but less so: 5 more, of broadcast.");
}

TEST(PerfVerdicts, ABarrierHasNoSize) {
  Row row = row_of("barrier", 0);
  row.dtype = "none";
  row.times.median_us = row.times.spread.p50_us = 10;
  spread(row, 6);
  const auto found = findings_of({row}, {}, {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].sentence.starts_with("barrier: one of 100 operations takes 60 µs"));
}

TEST(PerfVerdicts, WhatWasLookedAtIsTold) {
  Rows rows = rows_of();
  EXPECT_EQ(nothing_found(rows, {}),
            "Nothing stands out: looked at were 6 sizes of 1 sweep, with the predictions, the "
            "spread and the skew of the ranks, and the bandwidth beside its peak.");
  compare_with({1, 1, 1, 1, 1, 1})(rows);
  EXPECT_TRUE(nothing_found(rows, {earlier({8}, {1})})
                  .ends_with("its peak, the other algorithms, earlier results."));
  for (Row& row : rows) {
    row.ranks = 1;
    spread(row, 100);
  }
  EXPECT_TRUE(findings_of(rows, {}, {}).empty());
  EXPECT_TRUE(nothing_found(rows, {}).starts_with("One rank sends nothing"));
}

}  // namespace
}  // namespace ringwood::tools
