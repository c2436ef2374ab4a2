// What users do wrong and what breaks: every rank gets one error that says who, what and why, and
// nothing hangs.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <latch>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "tests/support/told_store.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

// ---- deadlines, aborts, departures
// --------------------------------------------------------------------------

class Faults : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(Transports, Faults, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

// The short limit of one rank, which calls last, ends the call for all.
TEST_P(Faults, ARankThatSkipsACallIsNamedByTheTimeout) {
  std::latch called(2), over(3);
  const auto body = [&](Communicator& c) {
    must(c.barrier());
    if (c.rank() == 2) return over.wait();
    float x = 1;
    CallOptions call;
    if (c.rank() == 1) {
      called.wait();
      call.timeout = std::chrono::milliseconds(400);
    }
    auto op = c.all_reduce(&x, 1, DataType::float32, ReduceOp::sum, call);
    if (c.rank() != 1) called.count_down();
    Status s = op->wait();
    over.count_down();
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, ErrorCode::timeout) << s.error().message();
    EXPECT_NE(s.error().message().find("missing: rank 2"), std::string::npos)
        << s.error().message();
    EXPECT_NE(s.error().message().find("not finished within 0.4 s"), std::string::npos)
        << s.error().message();
    EXPECT_EQ(x, 1);
    // The group is dead, and says the same again.
    Status later = c.barrier()->wait();
    ASSERT_FALSE(later.ok());
    EXPECT_EQ(later.error().message(), s.error().message());
  };
  run_ranks(4, GetParam(), body, unhurried_for);
}

// As milliseconds of Python's timedelta.max.
TEST_P(Faults, TheLongestTimeoutsAreLong) {
  for (const auto longest : {std::chrono::milliseconds::max(),
                             std::chrono::milliseconds(std::chrono::days(999'999'999))}) {
    const auto options = [&](const std::string& transport, int rank) {
      Options o = options_for(transport, rank);
      o.timeout = o.init_timeout = longest;
      return o;
    };
    const auto body = [&](Communicator& c) {
      float x[2] = {1, 1};
      must(c.all_reduce(&x[0], 1, DataType::float32, ReduceOp::sum));
      c.set_timeout(longest);
      must(c.barrier());
      CallOptions call;
      call.timeout = longest;
      must(c.all_reduce(&x[1], 1, DataType::float32, ReduceOp::sum, call)->wait(longest));
      EXPECT_EQ(x[0] + x[1], 4);
    };
    run_ranks(
        2, [&](int rank) { return options(GetParam(), rank); }, body);
  }
}

// A short wait for an operation that is queued behind one with more patience.
TEST_P(Faults, AQueuedOperationHasADeadlineToo) {
  std::atomic<bool> over{false};
  run_ranks(2, GetParam(), [&](Communicator& c) {
    must(c.barrier());
    if (c.rank() == 1) {
      while (!over) std::this_thread::yield();
      return;
    }
    float x = 1, y = 1;
    auto first = c.all_reduce(&x, 1, DataType::float32, ReduceOp::sum);
    auto second = c.all_reduce(&y, 1, DataType::float32, ReduceOp::sum);
    Status s = second->wait(std::chrono::milliseconds(300));
    over = true;
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, ErrorCode::timeout) << s.error().message();
    EXPECT_EQ(s.error().sequence, 2) << s.error().message();
    EXPECT_FALSE(first->wait().ok());
  });
}

// Also on the ranks that abort, whatever they say.
TEST_P(Faults, AbortsOfSeveralRanksAtOnceLeaveOneErrorEverywhere) {
  constexpr int kRanks = 3;
  for (int round = 0; round < 5; ++round) {
    std::string heard[kRanks], later[kRanks];
    std::latch together(kRanks);
    run_ranks(
        kRanks, GetParam(),
        [&](Communicator& c) {
          must(c.barrier());
          float x = 1;
          const auto sum = [&] { return c.all_reduce(&x, 1, DataType::float32, ReduceOp::sum); };
          const int idle = round % kRanks;  // the others never join its sum
          OperationPtr pending;
          if (c.rank() == idle) {
            pending = sum();
            together.count_down();
          } else {
            together.arrive_and_wait();
            c.abort(fmt::format("enough for rank {}", c.rank()));
            EXPECT_FALSE(c.health().ok()) << "when abort() returns";
          }
          const Status s = pending ? pending->wait() : c.health();
          ASSERT_FALSE(s.ok());
          heard[c.rank()] = s.error().message();
          const Status then = sum()->wait();
          ASSERT_FALSE(then.ok());
          later[c.rank()] = then.error().message();
        },
        unhurried_for);
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(heard[rank], heard[0]) << "rank " << rank;
      EXPECT_EQ(later[rank], heard[0]) << "rank " << rank;
    }
    EXPECT_NE(heard[0].find("enough for rank "), std::string::npos) << heard[0];
  }
}

TEST_P(Faults, AbortFromAnotherThreadEndsEverythingEverywhere) {
  std::atomic<int> begun{0};
  run_ranks(3, GetParam(), [&](Communicator& c) {
    must(c.barrier());
    std::vector<float> big(1 << 20, 1);
    std::vector<OperationPtr> pending;
    if (c.rank() != 1)
      for (int k = 0; k < 5; ++k)
        pending.push_back(c.all_reduce(big.data(), big.size(), DataType::float32, ReduceOp::sum));
    ++begun;
    std::thread other;
    if (c.rank() == 1)
      other = std::thread([&] {
        while (begun < 3) std::this_thread::yield();
        c.abort("the user pressed the button");
      });
    for (auto& op : pending) {
      Status s = op->wait();
      ASSERT_FALSE(s.ok());
      EXPECT_EQ(s.error().code, ErrorCode::aborted) << s.error().message();
      EXPECT_NE(s.error().message().find("the user pressed the button"), std::string::npos)
          << s.error().message();
    }
    if (other.joinable()) other.join();
    EXPECT_FALSE(c.health().ok());
  });
}

TEST_P(Faults, ARankThatLeavesEarlyIsNamed) {
  run_ranks(3, GetParam(), [&](Communicator& c) {
    must(c.barrier());
    if (c.rank() == 1) return;
    float x = 1;
    Status s = c.all_reduce(&x, 1, DataType::float32, ReduceOp::sum)->wait();
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().peer, 1) << s.error().message();
    EXPECT_EQ(s.error().code, ErrorCode::peer_lost) << s.error().message();
  });
}

// The last operation's data must reach those who are slower than the ones that leave.
TEST_P(Faults, LeavingLosesNothing) {
  for (int k = 0; k < 15; ++k)
    run_ranks(3, GetParam(), [&](Communicator& c) {
      std::vector<float> x(300000, 1);
      must(c.broadcast(x.data(), x.size(), DataType::float32, 0));
      std::vector<int> y(50000, c.rank());
      if (c.rank() == 0) must(c.send(y.data(), y.size(), DataType::int32, 2, 0));
      if (c.rank() == 2) must(c.recv(y.data(), y.size(), DataType::int32, 0, 0));
    });
}

TEST(Faults, ShutdownFailsWhatIsPendingAndLaterCalls) {
  run_ranks(2, [&](Communicator& c) {
    float x = 0;
    OperationPtr pending;
    if (c.rank() == 0) pending = c.recv(&x, 1, DataType::float32, 1, 0);
    must(c.barrier());
    (void)c.shutdown(std::chrono::milliseconds(50));
    if (pending) {
      // By the shutdown, or by that of the other rank; not by its own deadline.
      Status s = pending->wait();
      ASSERT_FALSE(s.ok());
      EXPECT_NE(s.error().code, ErrorCode::timeout) << s.error().message();
    }
    EXPECT_FALSE(c.barrier()->wait().ok());
  });
}

TEST(Faults, ACallbackMayCallCollectives) {
  run_ranks(2, [&](Communicator& c) {
    float x = 1, y = 1;
    std::atomic<bool> done{false};
    auto op = c.all_reduce(&x, 1, DataType::float32, ReduceOp::sum);
    op->on_done([&](const Error* e) {
      if (!e) must(c.all_reduce(&y, 1, DataType::float32, ReduceOp::sum));
      done = true;
    });
    must(op);
    while (!done) std::this_thread::yield();
    EXPECT_EQ(y, 2);
  });
}

// ---- processes
// ----------------------------------------------------------------------------------------------

struct Shared {  // between forked ranks
  std::atomic<int> ready{0};
  char text[8][600];
};

struct KillCase {
  std::string transports;
  int n, victim;
  // Of the store, at which the victim dies; null: at work.
  const char* call = nullptr;
  const char* key = "";
};

void rank_process(int rank, const KillCase& how, const std::string& path, Shared* shared) {
  try {
    std::shared_ptr<Store> store = file_store(path);
    const auto die = [&](const std::string& call) {
      if (call.rfind(how.call, 0) != 0 || call.find(how.key) == call.npos) return;
      raise(SIGKILL);
    };
    if (rank == how.victim && how.call) store = std::make_shared<ToldStore>(store, die);
    auto c = Communicator::create(store, rank, how.n, options_for(how.transports, rank));
    std::vector<float> x(100000, 1);
    for (int k = 0;; ++k) {
      Status s = c->all_reduce(x.data(), x.size(), DataType::float32, ReduceOp::max)->wait();
      if (k == 0) ++shared->ready;
      if (s.ok()) continue;
      snprintf(shared->text[rank], sizeof shared->text[rank], "%s", s.error().message().c_str());
      _exit(0);
    }
  } catch (const std::exception& e) {
    snprintf(shared->text[rank], sizeof shared->text[rank], "%s", e.what());
    _exit(1);
  }
}

std::vector<KillCase> kill_cases() {
  std::vector<KillCase> all = {{"mixed", 4, 1}};
  for (const std::string& t : between_processes()) {
    for (const auto& [n, victim] : {std::pair{2, 1}, {3, 0}, {4, 0}, {4, 2}, {4, 3}})
      all.push_back({t, n, victim});
    // While links are made: the control connection stands.
    for (int n : {3, 4}) all.push_back({t, n, 0, "remove", "/addr/0"});
  }
  // It meets through the store.
  all.push_back({shared_memory_transport().name, 4, 2, "set", "/shm/"});
  return all;
}
class Killed : public OnTransportOf<KillCase> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Killed, ::testing::ValuesIn(kill_cases()), [](const auto& info) {
  return fmt::format("{}_{}_rank{}{}", info.param.transports, info.param.n, info.param.victim,
                     info.param.call ? "_set_up" : "");
});

TEST_P(Killed, EverySurvivorNamesIt) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not follow the fork of a process that has had threads";
#endif
  const auto [transports, n, victim, call, key] = GetParam();
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("ringwood-killed-{}", getpid());
  std::filesystem::create_directory(folder);
  auto* shared =
      new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          Shared();
  std::vector<pid_t> pids;
  for (int r = 0; r < n; ++r) {
    const pid_t pid = fork();
    if (pid == 0) rank_process(r, GetParam(), (folder / "store").string(), shared);
    pids.push_back(pid);
  }
  if (!call) {
    for (const Deadline limit = patiently(); shared->ready < n && !limit.passed();) usleep(1000);
    ASSERT_EQ(shared->ready.load(), n) << shared->text[0] << shared->text[1];
    kill(pids[victim], SIGKILL);
  }
  for (pid_t pid : pids) waitpid(pid, nullptr, 0);
  for (int r = 0; r < n; ++r) {
    if (r == victim) continue;
    const std::string text = shared->text[r];
    EXPECT_NE(text.find(fmt::format("rank {}", victim)), std::string::npos) << text;
    EXPECT_EQ(text.find("(timeout)"), std::string::npos) << text;
  }
  munmap(shared, sizeof(Shared));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ringwood::testing
