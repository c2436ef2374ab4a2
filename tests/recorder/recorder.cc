// The recorder: what is kept of operations on real ranks, alike on all of them, who is named as
// late, and that no reader sees a record that is half written.
#include "collectives/recorder/recorder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/recorder/track_recorder.h"
#include "tests/support/late_wakes.h"
#include "tests/support/patience.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

CallOptions at_once() {
  CallOptions call;
  call.synchronous = true;
  return call;
}

// All ranks are threads of one process.
std::shared_ptr<const Recorder> recorder_of(const Communicator& c, int rank) {
  for (const auto& one : recorders_of_process())
    if (one->group().rank == rank && one->group().size == c.size()) return one;
  throw std::runtime_error("no recorder");
}
std::shared_ptr<const Recorder> recorder_of(const Communicator& c) {
  return recorder_of(c, c.rank());
}

// Until that rank, in that operation, waits for another one.
void await_waiting(const Communicator& c, int rank, int64_t sequence) {
  const auto recorder = recorder_of(c, rank);
  for (const Deadline patience = patiently(); !patience.passed(); std::this_thread::yield()) {
    const auto running = recorder->running();
    if (running.size() == 1 && std::cmp_equal(running[0].call.sequence, sequence) &&
        running[0].waited_for >= 0)
      return;
  }
  throw std::runtime_error("it does not wait");
}

void add(Communicator& c, std::vector<float>& x) {
  must(c.all_reduce(x.data(), x.size(), DataType::float32, ReduceOp::sum, at_once()));
}

std::vector<OperationRecord> whole(const std::vector<OperationRecord>& records) {
  std::vector<OperationRecord> all;
  for (const OperationRecord& one : records)
    if (one.entered_ns != 0) all.push_back(one);
  return all;
}

TEST(Recorder, KeepsTheLastRecords) {
  RecordRing<StepRecord, 4> ring;
  EXPECT_FALSE(ring.read(0)) << "nothing is written yet";
  for (int i = 0; i < 6; ++i) ring.add({.step = i});
  EXPECT_EQ(ring.oldest(), 2u);
  EXPECT_FALSE(ring.read(1)) << "its slot has another record";
  EXPECT_FALSE(ring.read(6));
  for (int i = 2; i < 6; ++i) EXPECT_EQ(ring.read(static_cast<uint64_t>(i))->step, i);
}

TEST(Recorder, ReadersSeeWholeRecords) {
  RecordRing<StepRecord, 8> ring;
  std::atomic<bool> over{false};
  std::thread reader([&] {
    for (uint64_t seen = 0; !over || seen == 0;)
      for (uint64_t n = ring.oldest(); n < ring.written(); ++n)
        if (const auto r = ring.read(n)) {
          ++seen;
          EXPECT_EQ(r->sequence, n);
          EXPECT_EQ(r->bytes, n);
          EXPECT_EQ(static_cast<uint64_t>(r->completed_ns), n);
        }
  });
  for (uint64_t n = 0; n < 200000; ++n)
    ring.add({.sequence = n, .completed_ns = static_cast<int64_t>(n), .bytes = n});
  over = true;
  reader.join();
}

// So that what is counted is a rate, also while the driver overwrites what is read.
TEST(Recorder, HasNoGapInTheLatest) {
  Recorder recorder({.name = {}, .session = {}, .hosts = {0}, .ways = {}},
                    std::make_shared<CallCounter>());
  std::atomic<bool> over{false};
  std::thread driver([&] {
    OperationRecord record;
    for (uint64_t n = 0; !over; ++n) {
      record.call.sequence = n;
      recorder.add(record);
    }
  });
  while (recorder.written() <= 2 * kRecordedOperations) std::this_thread::yield();
  for (int look = 0; look < 200; ++look) {
    const auto records = recorder.latest();
    for (size_t i = 1; i < records.size(); ++i)
      ASSERT_EQ(records[i].call.sequence, records[i - 1].call.sequence + 1);
  }
  over = true;
  driver.join();
}

// As perf counts: of the whole buffer.
TEST(Recorder, CountsTheBytesOfAllBlocks) {
  struct Row {
    Collective collective;
    size_t count;
    std::vector<size_t> blocks;
    uint64_t elements;
  };
  const std::vector<Row> rows = {
      {Collective::all_reduce, 100, {}, 100},
      {Collective::broadcast, 100, {}, 100},
      {Collective::barrier, 0, {}, 0},
      {Collective::all_gather, 100, {}, 300},
      {Collective::gather, 100, {}, 300},
      {Collective::reduce_scatter, 100, {}, 300},
      {Collective::scatter, 100, {}, 300},
      {Collective::all_to_all, 100, {}, 300},
      {Collective::all_gather, 60, {10, 20, 30}, 60},
      {Collective::reduce_scatter, 60, {10, 20, 30}, 60},
      {Collective::gather, 0, {10, 20, 30}, 60},                 // the root
      {Collective::scatter, 0, {10, 20, 30, 20}, 60},            // the root
      {Collective::scatter, 0, {0, 0, 0, 20}, 20},               // another rank
      {Collective::all_to_all, 0, {10, 20, 30, 1, 2, 3}, 60},    // it sends most
      {Collective::all_to_all, 0, {1, 2, 3, 10, 20, 300}, 330},  // it gets most
  };
  for (const Row& row : rows) {
    CollectiveArgs args;
    args.collective = row.collective;
    args.count = row.count;
    args.blocks = row.blocks;
    args.type = DataType::float32;
    EXPECT_EQ(bytes_of_call(args, 3), 4 * row.elements) << to_string(row.collective);
  }
}

TEST(Recorder, CountsACallInBlocks) {
  run_ranks(3, "shm", [](Communicator& c) {
    std::vector<float> mine(10, 1), all(30);
    must(c.all_gather(mine.data(), all.data(), mine.size(), DataType::float32, at_once()));
    EXPECT_EQ(recorder_of(c)->count(Collective::all_gather).bytes, all.size() * sizeof(float));
    must(c.barrier(at_once()));
  });
}

TEST(Recorder, SamplesTheSameSmallOperationsOnAllRanks) {
  run_ranks(3, "shm", [](Communicator& c) {
    std::vector<float> x(2, 1);
    constexpr int kCalls = 2 * kSampled + 2;
    for (int i = 0; i < kCalls; ++i) add(c, x);
    const auto recorder = recorder_of(c);
    EXPECT_EQ(recorder->count(Collective::all_reduce).operations, uint64_t{kCalls});
    EXPECT_EQ(recorder->count(Collective::all_reduce).bytes, 8u * kCalls);
    std::vector<uint64_t> numbers;
    for (const OperationRecord& one : whole(recorder->latest())) {
      numbers.push_back(one.call.sequence);
      EXPECT_EQ(one.bytes, 8u);
      EXPECT_LE(one.entered_ns, one.begun_ns);
      EXPECT_LE(one.begun_ns, one.agreed_ns);
      EXPECT_LE(one.agreed_ns, one.ended_ns);
      EXPECT_EQ(one.end, RecordedEnd::done);
    }
    EXPECT_EQ(numbers, (std::vector<uint64_t>{0, kSampled, 2 * kSampled}));
    EXPECT_TRUE(recorder->running().empty());
    must(c.barrier(at_once()));
  });
}

class RecorderOn : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(Transports, RecorderOn, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

TEST_P(RecorderOn, HasEveryStepOfALargeOperation) {
  run_ranks(3, GetParam(), [](Communicator& c) {
    std::vector<float> x(1 << 19, 1);
    add(c, x);
    add(c, x);
    const auto recorder = recorder_of(c);
    const auto records = whole(recorder->latest());
    ASSERT_EQ(records.size(), 2u);
    for (const OperationRecord& one : records) {
      EXPECT_EQ(one.bytes, x.size() * sizeof(float));
      EXPECT_GT(one.predicted_seconds, 0);
      const auto steps = recorder->steps_of(one);
      // #0 has them always, #1 where they cost little of what it is predicted to take.
      if (one.call.sequence == 0 || !steps.empty()) {
        EXPECT_EQ(steps.size(), one.steps);
      }
      std::vector<int> seen;
      for (const StepRecord& step : steps) {
        seen.push_back(step.step);
        EXPECT_GE(step.completed_ns, one.begun_ns);
        EXPECT_LE(step.completed_ns, one.ended_ns);
        EXPECT_LE(step.posted_ns, step.completed_ns);
        EXPECT_LT(step.peer, c.size());
        EXPECT_NE(step.peer, c.rank());
      }
      std::ranges::sort(seen);
      EXPECT_TRUE(std::ranges::adjacent_find(seen) == seen.end()) << "a step twice";
    }
    must(c.barrier(at_once()));
  });
}

// Its own record, if it has one, shows nothing of the time before its call.
TEST_P(RecorderOn, NamesTheRankThatIsWaitedFor) {
  run_ranks(3, GetParam(), [&](Communicator& c) {
    std::vector<float> x(2, 1);
    for (int i = 0; i < 5; ++i) add(c, x);
    constexpr auto kLate = 50ms;
    if (c.rank() == 2) {
      for (const int other : {0, 1}) await_waiting(c, other, 5);
      std::this_thread::sleep_for(kLate);
    }
    const int64_t called_ns = clock_ns();
    add(c, x);
    const auto recorder = recorder_of(c);
    const auto records = recorder->latest();
    const auto late = std::ranges::find_if(
        records, [](const OperationRecord& one) { return one.call.sequence == 5; });
    if (c.rank() == 2) {
      // Without begun_ns the record is of a short wait for the agreement that followed.
      if (late != records.end()) {
        const int64_t since = late->begun_ns > 0 ? late->begun_ns : late->waiting_ns;
        EXPECT_GE(since, called_ns);
      }
    } else {
      ASSERT_NE(late, records.end());
      // Across hosts a rank may hear of it from the leader of the late one's host.
      const bool across = GetParam() == "mixed" && c.rank() == 1;
      const int named = across && late->waited_for == 0 ? 0 : 2;
      EXPECT_EQ(late->waited_for, named);
      EXPECT_GT(late->agreed_ns - late->waiting_ns, kLate / 2ns);
      EXPECT_GE(recorder->waits_for(named).operations, 1u);
      EXPECT_GT(recorder->waits_for(named).waited_ns, kLate / 2ns);
    }
    must(c.barrier(at_once()));
  });
}

TEST(Recorder, ShowsWhatIsUnderWayAndHowItFailed) {
  std::latch shown(1);
  run_ranks(2, "shm", [&](Communicator& c) {
    const auto recorder = recorder_of(c);
    std::vector<float> x(1 << 20, 1);
    if (c.rank() == 1) {
      shown.wait();
      return c.abort("enough");
    }
    auto operation = c.all_reduce(x.data(), x.size(), DataType::float32, ReduceOp::sum);
    std::vector<OperationRecord> running;
    const Deadline patience = patiently();
    while (!patience.passed() && (running.empty() || running[0].waited_for < 0))
      running = recorder->running();
    shown.count_down();
    ASSERT_EQ(running.size(), 1u);
    EXPECT_EQ(running[0].waited_for, 1);
    EXPECT_FALSE(operation->wait(kPatience));
    const auto records = recorder->latest();
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].end, RecordedEnd::failed);
    EXPECT_TRUE(recorder->running().empty());
  });
}

// A folder for RINGWOOD_TRACE_DIR, and options with it.
struct TraceFolder {
  fs::path path = fs::temp_directory_path() / fmt::format("ringwood-traces-{}", getpid());
  explicit TraceFolder(const std::string& given = "") {
    if (!given.empty()) path = given;
    fs::create_directories(path);
  }
  ~TraceFolder() { fs::remove_all(path); }

  Options options(int rank) const {
    Options o = options_for("shm", rank);
    o.trace_dir = path;
    return o;
  }
  // Of this rank, whole. The group may not be the first one of the process.
  bool has_file_of(int rank) const {
    const std::string end = fmt::format("-rank{}.json", rank);
    return std::ranges::any_of(fs::directory_iterator(path), [&](const auto& entry) {
      return entry.path().string().ends_with(end);
    });
  }
};

// Rank 1 ends the group, rank 0 waits for it, and rank 2 calls nothing.
TEST(Recorder, EveryRankOfAFailedGroupLeavesAFile) {
  const TraceFolder folder;
  run_ranks(
      3, [&](int rank) { return folder.options(rank); },
      [&](Communicator& c) {
        std::vector<float> x(2, 1);
        if (c.rank() == 1) c.abort("enough");
        if (c.rank() == 0) {
          const Status ended =
              c.all_reduce(x.data(), x.size(), DataType::float32, ReduceOp::sum)->wait();
          EXPECT_FALSE(ended);
        }
        const Deadline patience = patiently();
        while (!folder.has_file_of(c.rank()) && !patience.passed())
          std::this_thread::sleep_for(1ms);
        EXPECT_TRUE(folder.has_file_of(c.rank()))
            << "rank " << c.rank() << ", while the group's object lives";
      });
}

// Its status is that of a process that a second process, which it forked, ended likewise.
[[noreturn]] void end_child_and_oneself(const Options& options, bool with_child) {
  const auto alone = Communicator::create(memory_store(), 0, 1, options);
  if (with_child) {
    const pid_t child = ::fork();
    while (child == 0) ::pause();  // for ever: a 0 below would be all our group
    int status = 0;
    if (child < 0 || ::kill(child, SIGTERM) != 0 || ::waitpid(child, &status, 0) != child ||
        !WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM)
      std::_Exit(3);
  }
  ::raise(SIGTERM);
  std::this_thread::sleep_for(20s);
  std::_Exit(4);
}

// A child that was forked ends at once, and the process itself once its file is there.
TEST(RecorderDeathTest, ATerminatedProcessLeavesAFile) {
#if defined(__SANITIZE_THREAD__)
  // It puts handlers off until a call that it follows, and follows none in a child of threads.
  constexpr bool kHandlersInChildren = false;
#else
  constexpr bool kHandlersInChildren = true;
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* const given = std::getenv("RINGWOOD_TEST_FOLDER");
  const TraceFolder folder(given ? given : "");
  ::setenv("RINGWOOD_TEST_FOLDER", folder.path.c_str(), 1);
  EXPECT_EXIT(end_child_and_oneself(folder.options(0), kHandlersInChildren),
              ::testing::KilledBySignal(SIGTERM), "");
  EXPECT_TRUE(folder.has_file_of(0));
  ::unsetenv("RINGWOOD_TEST_FOLDER");
}

// Each file is first a pipe that nobody reads: to open it waits for ever.
TEST(Recorder, AnErrorDoesNotWaitForTheFile) {
  const TraceFolder folder;
  std::vector<std::string> pipes;
  for (int rank = 0; rank < 2; ++rank)
    for (int nth = 1; nth < 20; ++nth) {
      const std::string group = nth == 1 ? "world" : fmt::format("world-{}", nth);
      pipes.push_back(
          fmt::format("{}/{}-rank{}.json.{}", folder.path.string(), group, rank, getpid()));
      ASSERT_EQ(::mkfifo(pipes.back().c_str(), 0600), 0);
    }
  run_ranks(
      2, [&](int rank) { return folder.options(rank); },
      [&](Communicator& c) {
        std::vector<float> x(2, 1);
        if (c.rank() == 1) return c.abort("enough");
        const auto operation = c.all_reduce(x.data(), x.size(), DataType::float32, ReduceOp::sum);
        const LateWakes wakes;
        const auto began = Clock::now();
        const Status ended = operation->wait(kPatience);
        ASSERT_FALSE(ended);
        EXPECT_EQ(ended.error().code, ErrorCode::aborted) << ended.error().message();
        EXPECT_LT(Clock::now() - began, wakes.stretch(2s)) << "the file is given up after 5 s";
      });
  for (const std::string& pipe : pipes) {  // the threads end
    const int fd = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
    if (fd >= 0) ::close(fd);
  }
}

}  // namespace
}  // namespace ringwood::testing
