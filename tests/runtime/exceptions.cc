// What throws on the data path, or in a callback, is the group's error: no process ends, no rank
// hangs, and every rank hears who it was.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <future>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

constexpr size_t kLittle = 48 << 20;

// No more memory than is mapped now, and a bit.
void limit_memory(size_t more) {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t bytes = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) + more;
  const rlimit limit{bytes, bytes};
  if (setrlimit(RLIMIT_AS, &limit) != 0) throw std::runtime_error("setrlimit");
}

void be_no_superuser() {
  constexpr unsigned kNobody = 65534;
  if (getuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0)
    throw std::runtime_error("setresuid");
}

// Not one thread more. The superuser has no such limit.
void limit_threads() {
  be_no_superuser();
  const rlimit limit{1, 1};
  if (setrlimit(RLIMIT_NPROC, &limit) != 0) throw std::runtime_error("setrlimit");
}

struct Case {
  std::string transports;
  bool synchronous;
};
class DataPath : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::string& name = GetParam().transports;
    if (in_one_process(name)) GTEST_SKIP() << "its ranks are threads of one process";
    if (const std::string why = absent_here(name); !why.empty()) GTEST_SKIP() << why;
    if (kSlower > 1) GTEST_SKIP() << "a sanitizer needs the memory and the threads itself";
  }
  // Rank 1 of two is `limited` when all know each other; then both call. What each of them hears.
  std::vector<std::string> hear(const std::function<void()>& limited,
                                const std::function<Status(Communicator&)>& call) {
    TemporaryPath path;
    Processes ranks(2, [&](int rank, const Reporter& reporter) {
      // What ranks share is a file in memory, mapped once for all.
      const rlimit files{kLittle, kLittle};
      if (setrlimit(RLIMIT_FSIZE, &files) != 0) throw std::runtime_error("setrlimit");
      auto c =
          Communicator::create(file_store(path.path()), rank, 2, options_for(transports(), rank));
      must(c->barrier({.synchronous = true}));
      reporter.say("met");
      reporter.await_go();
      if (rank == 1) limited();
      const Status s = call(*c);
      reporter.say(s ? "no error" : s.error().message());
      reporter.say(c->health() ? "healthy" : "ended");
    });
    for (int rank : {0, 1}) EXPECT_EQ(ranks.line(rank), "met");
    ranks.go_all();
    std::vector<std::string> heard;
    for (int rank : {0, 1}) {
      heard.push_back(ranks.line(rank));
      EXPECT_EQ(ranks.line(rank), "ended") << rank;
      EXPECT_EQ(ranks.wait(rank), 0) << rank;
    }
    return heard;
  }
  const std::string& transports() const { return GetParam().transports; }
};
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& t : every_transport())
    for (bool synchronous : {true, false}) all.push_back({t, synchronous});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Transports, DataPath, ::testing::ValuesIn(cases()), [](const auto& info) {
  return info.param.transports + (info.param.synchronous ? "_synchronous" : "");
});

TEST_P(DataPath, ScratchThatCannotGrowEndsTheGroupWithItsReason) {
  const size_t count = size_t{64} << 20;
  CallOptions call;
  call.synchronous = GetParam().synchronous;
  call.algorithm = "one_shot";  // S bytes of scratch
  const std::unique_ptr<void, decltype(&std::free)> data(std::calloc(count, sizeof(float)),
                                                         &std::free);
  const auto heard =
      hear([] { limit_memory(kLittle); },
           [&](Communicator& c) -> Status {
             return c.all_reduce(data.get(), count, DataType::float32, ReduceOp::sum, call)->wait();
           });
  for (const std::string& text : heard) {
    EXPECT_NE(text.find("rank 1"), text.npos) << text;
    EXPECT_NE(text.find("memory"), text.npos) << text;
    EXPECT_NE(text.find("(system)"), text.npos) << text;
  }
}

TEST_P(DataPath, AThreadThatCannotStartEndsTheGroupWithItsReason) {
  if (GetParam().synchronous) GTEST_SKIP() << "needs no thread";
  float x = 1;
  const auto heard = hear([] { limit_threads(); },
                          [&](Communicator& c) -> Status {
                            return c.all_reduce(&x, 1, DataType::float32, ReduceOp::sum)->wait();
                          });
  for (const std::string& text : heard) {
    EXPECT_NE(text.find("rank 1"), text.npos) << text;
    EXPECT_NE(text.find("cannot be started"), text.npos) << text;
    EXPECT_NE(text.find("(system)"), text.npos) << text;
  }
}

// Set-up needs threads of its own. It says so to all, and ends.
TEST_P(DataPath, AThreadThatCannotStartEndsSetUp) {
  if (GetParam().synchronous) GTEST_SKIP() << "the same";
  // The others may not hear of it: then they must have met it before their limit.
  const auto says_so = [this](std::chrono::milliseconds limit) {
    TemporaryPath path;
    const int n = 3;
    Processes ranks(n, [&](int rank, const Reporter& reporter) {
      be_no_superuser();  // all: a rank takes no other user's store
      if (rank == n - 1) limit_threads();
      Options o = options_for(transports(), rank);
      o.init_timeout = limit;
      try {
        Communicator::create(file_store(path.path()), rank, n, o);
        reporter.say("made");
      } catch (const Error& error) {
        reporter.say(error.message());
      }
    });
    const std::string culprit = ranks.line(n - 1);
    for (int rank = 0; rank < n; ++rank) {
      if (rank != n - 1) {
        EXPECT_NE(ranks.line(rank), "made") << rank;
      }
      EXPECT_EQ(ranks.wait(rank), 0) << rank;
    }
    return culprit.find("cannot be started") != culprit.npos;
  };
  EXPECT_TRUE(with_growing_limit(std::chrono::seconds(3), says_so));
}

// The operation ends before its callback is added, or after, in the progress thread or in this one.
TEST(Callbacks, WhatTheyThrowEndsTheGroup) {
  enum class Added { at_once, when_done };
  for (Added added : {Added::at_once, Added::when_done})
    for (bool waits : {true, false})
      run_ranks(2, [&](Communicator& c) {
        float x = 1;
        std::atomic<int> ran{0};
        auto op = c.all_reduce(&x, 1, DataType::float32, ReduceOp::sum);
        if (added == Added::when_done && c.rank() == 1) must(op);
        if (c.rank() == 1)
          op->on_done([&](const Error*) {
            ++ran;
            throw std::runtime_error("no, thanks");
          });
        op->on_done([&](const Error*) { ++ran; });
        // Either hears of the throw or was finished before.
        if (waits) (void)op->wait();
        const auto until = patiently();
        while (c.health() && !until.passed()) std::this_thread::yield();
        const Status s = c.health();
        ASSERT_FALSE(s.ok());
        EXPECT_NE(s.error().message().find("no, thanks"), std::string::npos) << s.error().message();
        EXPECT_NE(s.error().message().find("rank 1"), std::string::npos) << s.error().message();
        while (ran.load() < (c.rank() == 1 ? 2 : 1) && !until.passed()) std::this_thread::yield();
        EXPECT_EQ(ran.load(), c.rank() == 1 ? 2 : 1);
      });
}

// In the progress thread, which then has the last handle on the engine.
TEST(Callbacks, MayDropTheLastHandleOnTheCommunicator) {
  for (int again = 0; again < 20; ++again) {
    auto store = memory_store();
    std::vector<std::thread> ranks;
    for (int r : {0, 1})
      ranks.emplace_back([&, r] {
        auto c = Communicator::create(store, r, 2, options_for(r));
        auto* const raw = c.get();
        static thread_local float x;
        std::promise<void> over;
        {
          auto op = raw->all_reduce(&x, 1, DataType::float32, ReduceOp::sum);
          op->on_done([&over, owner = std::make_shared<decltype(c)>(std::move(c))](const Error*) {
            owner->reset();
            over.set_value();
          });
        }
        over.get_future().wait();
      });
    for (auto& t : ranks) t.join();
  }
}

}  // namespace
}  // namespace ringwood::testing
