// A user's tuner in front of the others: what it says is taken where that can be, on all ranks.
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "collectives/schedule/collective.h"
#include "collectives/tuner/candidate.h"
#include "collectives/tuner/tuner_plugin.h"
#include "tests/support/ranks.h"

namespace ringwood::testing {
namespace {

std::atomic<int> begun{0}, ended{0}, asked{0};

void* begin(const ringwood_tuner_group* group, char*, size_t) {
  ++begun;
  return new int(group->ranks);
}
void end(void* state) {
  ++ended;
  delete static_cast<int*>(state);
}
void say(ringwood_tuner_choice* choice, const char* algorithm, int segments) {
  std::strncpy(choice->algorithm, algorithm, sizeof choice->algorithm - 1);
  choice->segments = segments;
}
// Sums by ring in 3 segments, broadcasts by what is none, and nothing on the rest.
int choose_some(void* state, const ringwood_tuner_query* query, ringwood_tuner_choice* choice) {
  ++asked;
  EXPECT_EQ(*static_cast<int*>(state), 2);
  if (std::string(query->collective) == "all_reduce") return say(choice, "ring", 3), 1;
  if (std::string(query->collective) == "broadcast") return say(choice, "no such row", 1), 1;
  return 0;
}
int choose_direct(void*, const ringwood_tuner_query*, ringwood_tuner_choice* choice) {
  return say(choice, "direct", 1), 1;
}
void* refuse(const ringwood_tuner_group* group, char* why, size_t why_bytes) {
  std::snprintf(why, why_bytes, "%d ranks are too few", group->ranks);
  return nullptr;
}

constexpr ringwood_tuner kSome{RINGWOOD_TUNER_VERSION, "some", begin, choose_some, end};
constexpr ringwood_tuner kDirect{RINGWOOD_TUNER_VERSION, "direct", nullptr, choose_direct, nullptr};
constexpr ringwood_tuner kRefusing{RINGWOOD_TUNER_VERSION, "strict", refuse, choose_some, nullptr};
constexpr ringwood_tuner kNewer{RINGWOOD_TUNER_VERSION + 1, "newer", begin, choose_some, end};

Options with(const ringwood_tuner& plugin, int rank) {
  Options options = options_for(rank);
  options.tuner_plugin = &plugin;
  return options;
}

std::string choice_of(const Communicator& c, Collective collective, size_t bytes = 1 << 20) {
  const auto choice = c.choice(collective, bytes, DataType::float32, ReduceOp::sum);
  return choice.algorithm + "/" + std::to_string(choice.segments);
}

// What a plain group of two chooses.
std::string predicted(Collective collective) {
  std::string choice;
  run_ranks(
      2, [](int rank) { return options_for(rank); },
      [&](Communicator& c) {
        if (c.rank() == 0) choice = choice_of(c, collective);
        must(c.barrier());
      });
  return choice;
}

void sum(Communicator& c, const CallOptions& call = {}) {
  std::vector<float> data(3 << 10, static_cast<float>(c.rank() + 1));
  must(c.all_reduce(data.data(), data.size(), DataType::float32, ReduceOp::sum, call));
  for (const float x : data) ASSERT_EQ(x, 3);
}

TEST(TunerPlugin, IsAskedFirst) {
  begun = ended = asked = 0;
  const std::string broadcast = predicted(Collective::broadcast),
                    gather = predicted(Collective::all_gather);
  run_ranks(
      2, [](int rank) { return with(kSome, rank); },
      [&](Communicator& c) {
        EXPECT_EQ(choice_of(c, Collective::all_reduce), "ring/3");
        EXPECT_EQ(c.choice(Collective::all_reduce, 1 << 20, DataType::float32, ReduceOp::sum).why,
                  "the user's tuner says so");
        EXPECT_EQ(choice_of(c, Collective::broadcast), broadcast)
            << "an answer that cannot be used";
        EXPECT_EQ(choice_of(c, Collective::all_gather), gather) << "no answer";
        sum(c);
        for (int i = 0; i < 2; ++i) must(c.barrier());  // the second is asked for by nobody
        const int before = asked;
        sum(c);
        CallOptions direct;
        direct.algorithm = "direct";
        sum(c, direct);
        EXPECT_EQ(asked, before)
            << "answers are remembered, and what a call names is not asked for";
        must(c.barrier());
      });
  EXPECT_EQ(begun, 2);
  EXPECT_EQ(ended, 2);
}

// A NaN is equal to any tolerance in the answers that are remembered.
TEST(TunerPlugin, SeesNoToleranceThatIsNone) {
  run_ranks(
      2, [](int rank) { return with(kSome, rank); },
      [&](Communicator& c) {
        sum(c);
        CallOptions call;
        call.tolerance = std::nan("");
        std::vector<float> data(3 << 10);
        EXPECT_THROW(
            (void)c.all_reduce(data.data(), data.size(), DataType::float32, ReduceOp::sum, call),
            Error);
        must(c.barrier());
      });
}

TEST(TunerPlugin, IsExplained) {
  run_ranks(
      2, [](int rank) { return with(kSome, rank); },
      [&](Communicator& c) {
        int chosen = 0;
        for (const Candidate& one : c.explain(Collective::all_reduce, 1 << 20)) {
          if (!one.chosen) continue;
          ++chosen;
          EXPECT_EQ(one.algorithm, "ring");
          EXPECT_EQ(one.why, "by the tuner some");
        }
        EXPECT_EQ(chosen, 1);
      });
}

TEST(TunerPlugin, GivesWayToTheUsersOptions) {
  const auto options = [](int rank) {
    Options o = with(kSome, rank);
    o.algorithm = "all_reduce:direct";
    return o;
  };
  run_ranks(2, options, [&](Communicator& c) {
    EXPECT_EQ(choice_of(c, Collective::all_reduce).substr(0, 7), "direct/");
  });
}

TEST(TunerPlugin, IsNotAskedWhereResultsMustBeReproducible) {
  const auto options = [](int rank) {
    Options o = with(kSome, rank);
    o.reproducible = true;
    return o;
  };
  run_ranks(2, options, [&](Communicator& c) {
    EXPECT_NE(choice_of(c, Collective::all_reduce), "ring/3");
    must(c.barrier());
  });
}

// As any ranks that call different things: an error on both, before data has moved.
TEST(TunerPlugin, MustBeTheSameOnAllRanks) {
  const auto options = [](int rank) { return with(rank == 0 ? kSome : kDirect, rank); };
  std::atomic<int> named{0};
  run_ranks(2, options, [&](Communicator& c) {
    std::vector<float> data(1 << 18, 1);
    const Status s =
        c.all_reduce(data.data(), data.size(), DataType::float32, ReduceOp::sum)->wait();
    ASSERT_FALSE(s);
    EXPECT_EQ(s.error().code, ErrorCode::mismatch) << s.error().message();
    if (s.error().message().find("ring") != std::string::npos) ++named;
    EXPECT_EQ(data[0], 1);
  });
  EXPECT_EQ(named, 2);
}

std::string refusal(const Options& options) {
  try {
    (void)Communicator::create(nullptr, 0, 1, options, "test");
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    return error.cause;
  }
  return "";
}

TEST(TunerPlugin, IsRefusedInOneSentence) {
  EXPECT_EQ(refusal(with(kRefusing, 0)),
            "RINGWOOD_TUNER strict: it refuses this group of 1: 1 ranks are too few");
  EXPECT_EQ(refusal(with(kNewer, 0)),
            "RINGWOOD_TUNER Options::tuner_plugin: it is made for version 2 of tuner_plugin.h, and "
            "this is 1: compile it anew");
  Options options = options_for(0);
  options.tuner = "/no/such/library.so";
  EXPECT_NE(refusal(options).find("/no/such/library.so"), std::string::npos);
  EXPECT_NE(refusal(options).find("or unset it"), std::string::npos) << refusal(options);
  options.tuner = "libc.so.6";
  EXPECT_EQ(refusal(options),
            "RINGWOOD_TUNER libc.so.6: it has no ringwood_tuner_v1(): see ringwood/tuner_plugin.h");
}

}  // namespace
}  // namespace ringwood::testing
