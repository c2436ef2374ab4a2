// What `ringwood tune` makes of its measurements: who is chosen, and that wrong results are told,
// whoever has them.
#include <fstream>
#include <iterator>
#include <mutex>

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tools/tune/contest.h"
#include "tools/tune/ranges.h"
#include "tools/tune/tune_report.h"

namespace ringwood::testing {
namespace {

using namespace ringwood::tools;

// ---- who is chosen, of synthetic times ---------------------------------------------------------

class Noise {
 public:
  explicit Noise(uint64_t seed) : state_(seed) {}
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) / static_cast<double>(uint64_t{1} << 53);
  }
  // Times of a busy machine: their true median is `seconds`, a quarter is up to 15 % off, and one
  // in twelve takes up to three times as long.
  std::vector<double> times(double seconds, int count) {
    std::vector<double> all;
    for (int i = 0; i < count; ++i) {
      const double off = next() < 0.25 ? 0.3 * (next() - 0.5) : 0.04 * (next() - 0.5);
      all.push_back(seconds * (1 + off) * (next() < 1.0 / 12 ? 1 + 2 * next() : 1));
    }
    return all;
  }

 private:
  uint64_t state_;
};

Contender contender(const std::string& name, std::vector<double> times, bool is_default = false) {
  Contender c;
  c.algorithm = name;
  c.is_default = is_default;
  c.time = measured_time(times, 1);
  c.times = std::move(times);
  return c;
}

TuneResult result_of(std::vector<Contender> contenders) {
  TuneResult r;
  r.bytes = 1024;
  r.contenders = std::move(contenders);
  return r;
}

// How often the challenger is chosen, whose true time is `ratio` of the default's.
int chosen_of_200(double ratio, int repetitions) {
  int chosen = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Noise noise(seed * 7919);
    const TuneResult r = result_of({contender("default", noise.times(1e-3, repetitions), true),
                                    contender("other", noise.times(1e-3 * ratio, repetitions))});
    chosen += r.choice() != r.incumbent();
  }
  return chosen;
}

TEST(TuneChoice, NeverTakesWhatIsSlower) {
  for (const int repetitions : {kMinRepetitions, 9, 25}) {
    for (const double ratio : {1.5, 1.1, 1.03}) EXPECT_EQ(chosen_of_200(ratio, repetitions), 0);
    // As fast as the default: a rare one that is chosen loses nothing.
    EXPECT_LE(chosen_of_200(1.0, repetitions), 2) << repetitions;
    EXPECT_LE(chosen_of_200(0.99, repetitions), 10) << "less than the margin";
  }
}

TEST(TuneChoice, TakesWhatIsFasterBeyondDoubt) {
  EXPECT_GE(chosen_of_200(0.7, 9), 170);  // one in twelve is an outlier
  EXPECT_GE(chosen_of_200(0.9, 25), 190);
}

TEST(TuneChoice, DemandsTheWholeIntervalAndTheMargin) {
  const auto steady = [](double seconds) { return std::vector<double>(9, seconds); };
  const struct {
    std::vector<double> before, after;
    bool chosen;
  } cases[] = {
      {steady(1.00), steady(0.979), true},
      {steady(1.00), steady(0.981), false},
      {steady(1.00), steady(1.10), false},
      {steady(1.00), {0.5, 0.5, 0.5, 0.5, 0.5, 1.5, 1.5, 1.5, 1.5}, false},
      {{0.5, 0.5, 0.5, 1, 1, 1, 1, 1, 1}, steady(0.8), false},
      {steady(1.00), {0.5, 0.5, 0.5, 0.5}, false},  // too few
  };
  for (const auto& c : cases) {
    const TuneResult r =
        result_of({contender("default", c.before, true), contender("other", c.after)});
    EXPECT_EQ(r.choice() != r.incumbent(), c.chosen) << c.after[0];
  }
  // The fastest of several; none that was beaten or wrong.
  TuneResult r = result_of({contender("default", steady(1), true), contender("a", steady(0.9)),
                            contender("b", steady(0.8)), contender("c", steady(0.7)),
                            contender("d", steady(0.6))});
  r.contenders[3].outcome = Outcome::beaten;
  r.contenders[4].outcome = Outcome::wrong;
  EXPECT_EQ(r.choice()->algorithm, "b");
}

// ---- wrong results -----------------------------------------------------------------------------

// What stands for a broken network or row: rank 1's result of these rows is spoiled, from a run on.
struct Spoiled {
  std::set<std::string> rows;
  int from_run = 0;
  std::atomic<int> runs{0};
};
Spoiled* spoiled = nullptr;

void run_and_spoil(const Call& call) {
  find_operation("broadcast").run(call);
  if (call.rank() == 1 && spoiled->rows.contains(call.options.algorithm) &&
      spoiled->runs++ >= spoiled->from_run)
    call.out[0] ^= std::byte{1};
}

TuneResult contest_with(Spoiled& what) {
  spoiled = &what;
  TuneResult found;
  std::mutex mutex;
  run_ranks(3, [&](Communicator& c) {
    const OperationRow row{Collective::broadcast, run_and_spoil};
    const Buffer buffer(4096, BufferKind::ordinary);
    const Call call{&c,   DataType::float32, ReduceOp::sum, 0,
                    1024, buffer.data(),     buffer.data(), synchronous_call()};
    const tools::Pattern pattern(call.type, call.size());
    std::vector<Contender> all(2);
    all[0].algorithm = "linear";
    all[0].is_default = true;
    all[1].algorithm = "chain";
    Contest contest(row, call, pattern, {5, 2, 1, 0});
    contest.measure(all, [](const std::string&) {});
    const std::lock_guard lock(mutex);
    if (c.rank() == 0) found = result_of(all);
  });
  return found;
}

TEST(TuneContest, AWrongDefaultOrAllWrongLeavesNoChoice) {
  for (const std::set<std::string>& rows :
       {std::set<std::string>{"linear"}, std::set<std::string>{"linear", "chain"}}) {
    Spoiled what{rows};
    const TuneResult r = contest_with(what);
    ASSERT_EQ(r.contenders.size(), 2u);
    for (const Contender& c : r.contenders) {
      EXPECT_EQ(c.outcome == Outcome::wrong, rows.contains(c.algorithm)) << c.algorithm;
      EXPECT_EQ(c.wrong > 0, rows.contains(c.algorithm)) << c.algorithm;
    }
    EXPECT_EQ(r.standard()->algorithm, "linear");
    EXPECT_EQ(r.incumbent(), nullptr);
    EXPECT_EQ(r.choice(), nullptr);
    EXPECT_TRUE(ranges_of({r}, {}, [](size_t) { return "linear"; }).empty());
  }
}

TEST(TuneContest, ADefaultThatIsWrongAtTheEndIsNoDefault) {
  Spoiled what{{"linear"}, 6};
  const TuneResult r = contest_with(what);
  EXPECT_EQ(r.standard()->outcome, Outcome::wrong);
  EXPECT_FALSE(r.standard()->times.empty());
  EXPECT_EQ(r.choice(), nullptr);
}

TEST(TuneContest, AWrongChallengerIsDisqualified) {
  Spoiled what{{"chain"}};
  const TuneResult r = contest_with(what);
  EXPECT_EQ(r.contenders[1].outcome, Outcome::wrong);
  ASSERT_NE(r.choice(), nullptr);
  EXPECT_EQ(r.choice()->algorithm, "linear");
}

TEST(TuneReport, TellsWrongResultsOfTheDefault) {
  Spoiled what{{"linear", "chain"}};
  const OperationRow& row = find_operation("broadcast");
  const std::vector<TunedCollective> all{{&row, {contest_with(what)}}};
  const TemporaryPath json, page;
  TuneOptions options;
  options.json = json.path();
  options.html = page.path();
  TuneSummary summary;
  summary.wrong = 2;
  summary.wrong_defaults = 1;
  ::testing::internal::CaptureStdout();
  {
    TuneReport report(options, 3);
    report.begin(row);
    report.add(row, all[0].results[0]);
    report.end(all, summary);
  }
  const std::string table = ::testing::internal::GetCapturedStdout();
  EXPECT_PRED2(contains, table, "linear nothing is chosen: the result of the default is wrong");
  EXPECT_PRED2(contains, table, "WRONG: linear has ");
  EXPECT_PRED2(contains, table, "WRONG: chain has ");
  EXPECT_PRED2(contains, table, "the default gave wrong results at 1 of the sizes");
  const auto text_of = [](const std::string& path) {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_PRED2(contains, text_of(json.path()), "\"chosen\": null");
  EXPECT_PRED2(contains, text_of(json.path()), "\"wrong_defaults\": 1");
  EXPECT_PRED2(contains, text_of(page.path()), "default, wrong");
}

}  // namespace
}  // namespace ringwood::testing
