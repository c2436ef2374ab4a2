// What goes wrong while several collectives are under way: every operation ends, once, with the
// group's error.
#include <signal.h>

#include <atomic>
#include <latch>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/late_wakes.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"
#include "transports/bootstrap/store.h"

namespace ringwood::testing {
namespace {

using std::chrono::milliseconds;

CallOptions with(Priority priority, milliseconds timeout = milliseconds(0)) {
  CallOptions call;
  call.priority = priority;
  call.timeout = timeout;
  return call;
}

std::function<Options(int)> options_of(const std::string& transports, int in_flight,
                                       milliseconds heartbeat = milliseconds(50)) {
  return [=](int rank) {
    Options o = options_for(transports, rank);
    o.in_flight = in_flight;
    o.heartbeat = heartbeat;
    return o;
  };
}

class InFlightFaults : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(Transports, InFlightFaults, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
}

// ---- ranks that differ -------------------------------------------------------------------------

// `before`: calls that all make alike, and that end. `timeout`: of the last call of rank 0, which
// makes it when the others have made theirs; 0: of nobody.
void expect_priorities_compared(int n, int culprit, const std::function<Options(int)>& options,
                                int before, milliseconds timeout, bool others_high) {
  std::atomic<int> ready{0}, heard{0};
  std::latch called(n - 1);
  const LateWakes wakes;
  run_ranks(n, options, [&](Communicator& c) {
    for (int i = 0; i < before; ++i)
      must(c.barrier(with(i % 2 ? Priority::high : Priority::normal)));
    std::vector<float> x(1000, static_cast<float>(c.rank()));
    const std::vector<float> as_called = x;
    // The group's error must not overtake any rank's end of the last barrier.
    for (++ready; ready < n;) std::this_thread::yield();
    const bool high = (c.rank() == culprit) != others_high;
    const bool hurried = timeout.count() > 0 && c.rank() == 0;
    if (hurried) called.wait();
    auto op = c.all_reduce(
        x.data(), x.size(), DataType::float32, ReduceOp::sum,
        with(high ? Priority::high : Priority::normal, hurried ? timeout : milliseconds(0)));
    if (c.rank() != 0) called.count_down();
    Status s = op->wait();
    ASSERT_FALSE(s.ok());
    const std::string text = s.error().message();
    EXPECT_EQ(s.error().code, ErrorCode::mismatch) << text;
    // What the ranks called is told by those that reply to rank 0 in time, at least within 60 ms.
    if (wakes.worst() < milliseconds(20)) {
      expect_in(text, fmt::format("all_reduce float32 x 1000, sum (#{})", before));
      expect_in(text, fmt::format("all_reduce float32 x 1000, sum, high priority (#{})", before));
      expect_in(text, fmt::format("rank {}", culprit));
    }
    EXPECT_EQ(x, as_called);
    ++heard;
  });
  EXPECT_EQ(heard, n);
}

TEST_P(InFlightFaults, RanksThatDifferInPriorityHearOfEachOther) {
  for (int in_flight : {1, 2, 3})
    for (int n : {2, 3})
      for (int culprit = 0; culprit < n; ++culprit)
        expect_priorities_compared(n, culprit, options_of(GetParam(), in_flight), culprit * 3,
                                   milliseconds(0), (culprit + in_flight) % 2 == 1);
}

// Before any heartbeat.
TEST_P(InFlightFaults, TheDeadlineSaysItToo) {
  for (int culprit : {0, 1})
    expect_priorities_compared(2, culprit, options_of(GetParam(), 2, kUnhurried), 2,
                               milliseconds(400), false);
}

// Each of the two calls of one rank meets the other one of the other.
TEST_P(InFlightFaults, CallsInAnotherOrderMeetTheWrongOnes) {
  run_ranks(2, options_of(GetParam(), 2), [&](Communicator& c) {
    int64_t x = 1, y = 2;
    const auto sum = [&](int64_t& data, Priority priority) {
      return c.all_reduce(&data, 1, DataType::int64, ReduceOp::sum, with(priority));
    };
    const bool swapped = c.rank() == 1;
    auto first = swapped ? sum(y, Priority::high) : sum(x, Priority::normal);
    auto second = swapped ? sum(x, Priority::normal) : sum(y, Priority::high);
    for (const auto& op : {first, second}) {
      Status s = op->wait();
      ASSERT_FALSE(s.ok());
      EXPECT_EQ(s.error().code, ErrorCode::mismatch) << s.error().message();
    }
    EXPECT_EQ(x, 1);
    EXPECT_EQ(y, 2);
  });
}

TEST_P(InFlightFaults, TheNumberInFlightIsTheSameOnAllRanks) {
  auto store = memory_store();
  std::vector<std::string> errors(3);
  std::vector<std::thread> ranks;
  for (int r = 0; r < 3; ++r)
    ranks.emplace_back([&, r] {
      try {
        Communicator::create(store, r, 3, options_of(GetParam(), r == 1 ? 3 : 2)(r), "test");
      } catch (const Error& e) {
        errors[r] = e.message();
      }
    });
  for (auto& rank : ranks) rank.join();
  for (const std::string& error : errors)
    expect_in(error, "RINGWOOD_IN_FLIGHT is 2 on rank 0 but 3 on rank 1: set it alike");
}

// ---- the end of all of them --------------------------------------------------------------------

// Several calls that cannot end, and how often each was told what.
class Pending {
 public:
  Pending(Communicator& c, size_t count, milliseconds last_timeout = milliseconds(0)) {
    for (size_t i = 0; i < count; ++i) data_.emplace_back(100000, 1.0f);
    told_ = std::vector<std::atomic<int>>(count);
    for (size_t i = 0; i < count; ++i) {
      const auto priority = i % 3 == 2 ? Priority::high : Priority::normal;
      const bool last = i + 1 == count;
      ops_.push_back(c.all_reduce(data_[i].data(), data_[i].size(), DataType::float32,
                                  ReduceOp::sum,
                                  with(priority, last ? last_timeout : milliseconds(0))));
      ops_.back()->on_done([this, i](const Error* error) { told_[i] += error ? 1 : 1000; });
    }
  }
  const OperationPtr& last() const { return ops_.back(); }
  // The error of all.
  Error expect_ended(ErrorCode code) {
    Error error;
    for (size_t i = 0; i < ops_.size(); ++i) {
      Status s = ops_[i]->wait();
      if (s.ok()) throw std::runtime_error("no error");
      EXPECT_EQ(s.error().code, code) << s.error().message();
      error = s.error();
    }
    return error;
  }
  // To be called when the group is gone, and with it the thread that calls back.
  void expect_told_once() const {
    for (const auto& times : told_) EXPECT_EQ(times.load(), 1);
  }

 private:
  std::vector<std::vector<float>> data_;
  std::vector<std::atomic<int>> told_;
  std::vector<OperationPtr> ops_;
};

// Rank n - 1 does not call, and does something else when the others have. `last_timeout`: of the
// last call of rank 0, which calls when the others have.
void with_pending(int n, const std::string& transports, int in_flight,
                  const std::function<void(Communicator&)>& other,
                  const std::function<void(Communicator&, Pending&)>& body,
                  milliseconds last_timeout = milliseconds(0)) {
  std::latch others(n - 2), called(n - 1), over(n - 1);
  run_ranks(n, options_of(transports, in_flight), [&](Communicator& c) {
    must(c.barrier());
    if (c.rank() == n - 1) {
      called.wait();
      other(c);
      over.wait();
      return;
    }
    const bool hurried = last_timeout.count() > 0 && c.rank() == 0;
    if (hurried) others.wait();
    Pending pending(c, 7, hurried ? last_timeout : milliseconds(0));
    if (c.rank() != 0) others.count_down();
    called.count_down();
    body(c, pending);
    (void)c.shutdown();
    pending.expect_told_once();
    over.count_down();
  });
}

TEST_P(InFlightFaults, AnAbortEndsAll) {
  for (int in_flight : {1, 2, 3, 8})
    with_pending(
        3, GetParam(), in_flight, [](Communicator& c) { c.abort("enough"); },
        [](Communicator&, Pending& pending) {
          expect_in(pending.expect_ended(ErrorCode::aborted).message(), "enough");
        });
}

// The last one has the least patience: it is under way, waits behind another one, or is urgent.
TEST_P(InFlightFaults, ADeadlineIsThatOfItsOperationAndEndsAll) {
  for (int in_flight : {1, 2, 8})
    with_pending(
        3, GetParam(), in_flight, [](Communicator&) {},
        [](Communicator&, Pending& pending) {
          const Error error = pending.expect_ended(ErrorCode::timeout);
          EXPECT_EQ(error.sequence, 7) << error.message();
          expect_in(error.message(), "rank 2");
        },
        milliseconds(300));
}

TEST_P(InFlightFaults, ShutdownGivesUpAll) {
  for (int in_flight : {2, 3})
    with_pending(
        2, GetParam(), in_flight, [](Communicator&) {},
        [](Communicator& c, Pending& pending) {
          Status s = c.shutdown(milliseconds(100));
          ASSERT_FALSE(s.ok());
          expect_in(s.error().message(), "7 operations were given up by shutdown");
          pending.expect_ended(ErrorCode::aborted);
        });
}

TEST_P(InFlightFaults, ShutdownWaitsForAllThatCanEnd) {
  run_ranks(2, options_of(GetParam(), 3), [](Communicator& c) {
    std::vector<std::vector<int64_t>> data(9, std::vector<int64_t>(5000, c.rank() + 1));
    std::vector<OperationPtr> ops;
    for (size_t i = 0; i < data.size(); ++i)
      ops.push_back(c.all_reduce(data[i].data(), data[i].size(), DataType::int64, ReduceOp::sum,
                                 with(i % 2 ? Priority::high : Priority::normal)));
    must(c.shutdown(kPatience));
    for (const auto& op : ops) {
      EXPECT_TRUE(op->done());
      must(op->wait());
    }
    for (const auto& one : data) EXPECT_EQ(one, std::vector<int64_t>(5000, 3));
  });
}

// ---- a rank that is killed ---------------------------------------------------------------------

TEST_P(InFlightFaults, AKilledRankEndsBoth) {
  const std::string transports = GetParam();
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not follow the fork of a process that has had threads";
#endif
  if (in_one_process(transports)) GTEST_SKIP() << "it is for ranks of one process";
  TemporaryPath path;
  Processes ranks(3, [&](int rank, const Reporter& reporter) {
    auto c = Communicator::create(file_store(path.path()), rank, 3, options_of(transports, 2)(rank),
                                  "test");
    std::vector<float> large(size_t{4} << 20, 1), small(1, 1);
    must(c->barrier());
    reporter.say("met");
    reporter.await_go();
    while (true) {
      auto first = c->all_reduce(large.data(), large.size(), DataType::float32, ReduceOp::max);
      auto second =
          c->all_reduce(small.data(), 1, DataType::float32, ReduceOp::max, with(Priority::high));
      const Status one = second->wait(), other = first->wait();
      if (one.ok() && other.ok()) continue;
      const Error error = other.ok() ? one.error() : other.error();
      reporter.say(fmt::format("{} {}", to_string(error.code), error.peer));
      return;
    }
  });
  for (int r = 0; r < 3; ++r) ASSERT_EQ(ranks.line(r), "met");
  ranks.go_all();
  poll(nullptr, 0, 50);
  ranks.signal(1, SIGKILL);
  for (int r : {0, 2}) EXPECT_EQ(ranks.line(r), "peer_lost 1");
}

}  // namespace
}  // namespace ringwood::testing
