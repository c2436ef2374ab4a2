// A rank that is late, stopped or busy is waited for, on every transport and in every call, until
// the operation's deadline: its host and its process live.
//
// Two ranks, a group for every call and size, all at once: one rank comes late by 20 times what its
// host may be silent. RINGWOOD_TEST_LATE_MS and RINGWOOD_TEST_HEARTBEAT_MS set other parameters.
#include <atomic>
#include <cstdlib>
#include <latch>
#include <mutex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"
#include "transports/base/log.h"
#include "transports/bootstrap/store.h"

namespace ringwood::testing {
namespace {

using Milliseconds = std::chrono::milliseconds;

Milliseconds parameter(const char* variable, int otherwise) {
  const char* const said = std::getenv(variable);
  return Milliseconds(said ? std::atoi(said) : otherwise);
}
const Milliseconds kHeartbeat = parameter("RINGWOOD_TEST_HEARTBEAT_MS", 10 * kSlower);
const Milliseconds kDelay = parameter("RINGWOOD_TEST_LATE_MS", 20 * 12 * 10);
// More than the kernel's buffers of a connection whose end is not read.
constexpr size_t kSmall = 2, kLarge = size_t{1} << 20;

// ---- every call, with its answer checked -------------------------------------------------------

using Numbers = std::vector<int>;

void expect(const Numbers& got, size_t from, size_t count, int value) {
  for (size_t i = from; i < from + count; ++i)
    if (got[i] != value)
      throw std::runtime_error(fmt::format("element {} is {}, not {}", i, got[i], value));
}

struct Call {
  const char* name;
  void (*run)(Communicator& c, size_t count);
};

const Call kCalls[] = {
    {"all_reduce",
     [](Communicator& c, size_t n) {
       Numbers x(n, c.rank() + 1);
       must(c.all_reduce(x.data(), n, DataType::int32, ReduceOp::sum));
       expect(x, 0, n, 3);
     }},
    {"reduce",
     [](Communicator& c, size_t n) {
       Numbers x(n, c.rank() + 1);
       must(c.reduce(x.data(), n, DataType::int32, ReduceOp::sum, 0));
       if (c.rank() == 0) expect(x, 0, n, 3);
     }},
    {"broadcast",
     [](Communicator& c, size_t n) {
       Numbers x(n, c.rank() + 1);
       must(c.broadcast(x.data(), n, DataType::int32, 0));
       expect(x, 0, n, 1);
     }},
    {"all_gather",
     [](Communicator& c, size_t n) {
       Numbers in(n, c.rank() + 1), out(2 * n);
       must(c.all_gather(in.data(), out.data(), n, DataType::int32));
       for (int r : {0, 1}) expect(out, r * n, n, r + 1);
     }},
    {"reduce_scatter",
     [](Communicator& c, size_t n) {
       Numbers in(2 * n, c.rank() + 1), out(n);
       must(c.reduce_scatter(in.data(), out.data(), n, DataType::int32, ReduceOp::sum));
       expect(out, 0, n, 3);
     }},
    {"all_to_all",
     [](Communicator& c, size_t n) {
       Numbers in(2 * n, c.rank() + 1), out(2 * n);
       must(c.all_to_all({{in.data(), n}, {in.data() + n, n}}, {{out.data(), n}, {&out[n], n}},
                         DataType::int32));
       for (int r : {0, 1}) expect(out, r * n, n, r + 1);
     }},
    {"gather",
     [](Communicator& c, size_t n) {
       Numbers in(n, c.rank() + 1), out(2 * n);
       std::vector<Block> blocks;
       if (c.rank() == 0) blocks = {{out.data(), n}, {&out[n], n}};
       must(c.gather({in.data(), n}, blocks, DataType::int32, 0));
       for (int r = 0; r < 2 && c.rank() == 0; ++r) expect(out, r * n, n, r + 1);
     }},
    {"scatter",
     [](Communicator& c, size_t n) {
       Numbers in(2 * n, 7), out(n);
       std::vector<ConstBlock> blocks;
       if (c.rank() == 0) blocks = {{in.data(), n}, {&in[n], n}};
       must(c.scatter(blocks, {out.data(), n}, DataType::int32, 0));
       expect(out, 0, n, 7);
     }},
    {"barrier", [](Communicator& c, size_t) { must(c.barrier()); }},
    {"message",
     [](Communicator& c, size_t n) {
       Numbers x(n, 5);
       must(c.rank() == 0 ? c.send(x.data(), n, DataType::int32, 1, 3)
                          : c.recv(x.data(), n, DataType::int32, 0, 3));
       expect(x, 0, n, 5);
     }},
    // The sender never waits for the receiver: it has many on their way.
    {"messages",
     [](Communicator& c, size_t n) {
       constexpr size_t kMessages = 8;
       Numbers x(kMessages * n, 6);
       std::vector<OperationPtr> all;
       for (size_t i = 0; i < kMessages; ++i)
         all.push_back(c.rank() == 0 ? c.send(&x[i * n], n, DataType::int32, 1, i)
                                     : c.recv(&x[i * n], n, DataType::int32, 0, i));
       for (const OperationPtr& one : all) must(one);
       expect(x, 0, x.size(), 6);
     }},
};

// ---- one rank, in a group for every call and size ----------------------------------------------

enum class How { computes, is_stopped };

struct Case {
  std::string name, transport;
  How how;
  int late;
  std::function<void(Options&)> options;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class Groups {
 public:
  Groups(const std::shared_ptr<Store>& store, int rank, const Case& how) : how_(how), rank_(rank) {
    for (const Call& call : kCalls)
      for (size_t count : {kSmall, kLarge})
        threads_.emplace_back([this, store, &call, count] { take_part(store, call, count); });
    ready_.wait();
  }
  // All are made; now one rank is late, until the end.
  void begin() { begun_.count_down(); }
  void end() {
    over_ = true;
    ended_.count_down();
  }
  // What went wrong.
  std::string join() {
    for (std::thread& thread : threads_) thread.join();
    return failures_;
  }

 private:
  static constexpr int kGroups = 2 * static_cast<int>(std::size(kCalls));

  void take_part(const std::shared_ptr<Store>& store, const Call& call, size_t count) try {
    Options options = options_for(how_.transport, rank_);
    options.timeout = kDelay + kPatience;
    options.heartbeat = kHeartbeat;
    how_.options(options);
    const std::string name = fmt::format("{}-{}", call.name, count);
    std::unique_ptr<Communicator> group;
    try {
      group = Communicator::create(prefix_store(store, name), rank_, 2, options, name);
    } catch (...) {
      ready_.count_down();
      throw;
    }
    if (Status s = group->barrier()->wait(); !s) note(call, count, s.error().message());
    ready_.count_down();
    begun_.wait();
    if (how_.how == How::computes) {
      if (rank_ == how_.late) ended_.wait();
      call.run(*group, count);
      return;
    }
    for (int over = 0; over == 0;) {
      call.run(*group, count);
      over = over_;
      must(group->all_reduce(&over, 1, DataType::int32, ReduceOp::max));
    }
  } catch (const std::exception& error) {
    note(call, count, error.what());
  }

  void note(const Call& call, size_t count, const std::string& what) {
    std::lock_guard lock(mutex_);
    failures_ += fmt::format("[rank {} {} of {}: {}] ", rank_, call.name, count, what);
  }

  const Case how_;
  const int rank_;
  std::latch ready_{kGroups}, begun_{1}, ended_{1};
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  std::string failures_;
  std::vector<std::thread> threads_;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const TransportRow& row, const std::string& name,
                       const std::function<void(Options&)>& options) {
    for (int late : {0, 1}) {
      all.push_back(
          {fmt::format("{}_rank{}_computes", name, late), row.name, How::computes, late, options});
      if (!row.one_process)
        all.push_back({fmt::format("{}_rank{}_is_stopped", name, late), row.name, How::is_stopped,
                       late, options});
    }
  };
  for (const TransportRow& row : transport_table()) {
    add(row, row.name, [](Options&) {});
    for (const Variant& v : traits_of(row.name).variants)
      if (!v.make && !v.zero_copy) add(row, fmt::format("{}_{}", row.name, v.name), v.options);
  }
  return all;
}

class Lateness : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, Lateness, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

void as_threads(const Case& how) {
  auto store = memory_store();
  std::vector<std::unique_ptr<Groups>> ranks(2);
  std::thread other([&] { ranks[1] = std::make_unique<Groups>(store, 1, how); });
  ranks[0] = std::make_unique<Groups>(store, 0, how);
  other.join();
  for (auto& rank : ranks) rank->begin();
  std::this_thread::sleep_for(kDelay);
  for (auto& rank : ranks) rank->end();
  for (auto& rank : ranks) EXPECT_EQ(rank->join(), "");
}

void be_a_rank(int rank, const Case& how, const std::string& path, const Reporter& reporter) {
  log_configure(LogLevel::warn, rank);
  if (const std::string why = absent_here(how.transport); !why.empty())
    return reporter.say("absent: " + why);
  Groups groups(file_store(path), rank, how);
  reporter.say("ready");
  reporter.await_go();
  groups.begin();
  reporter.await_go();
  groups.end();
  reporter.say("ended: " + groups.join());
}

// False with `why` where this transport does not work.
bool begin(Processes& ranks, std::string& why) {
  for (int rank : {0, 1}) {
    const std::string said = ranks.line(rank);
    why = said;
    if (said.starts_with("absent: ")) return false;
    EXPECT_EQ(said, "ready") << ranks.log_of(rank);
  }
  ranks.go_all();
  return true;
}

// By the other one, while it is late.
void expect_named(Processes& ranks, int late) {
  EXPECT_TRUE(ranks.log_shows(1 - late, fmt::format(" s for rank {} (", late)))
      << ranks.log_of(1 - late);
}

TEST_P(Lateness, IsWaitedFor) {
  const Case& how = GetParam();
  if (in_one_process(how.transport)) return as_threads(how);
  TemporaryPath place;
  Processes ranks(
      2, [&](int rank, const Reporter& reporter) { be_a_rank(rank, how, place.path(), reporter); });
  if (std::string why; !begin(ranks, why)) GTEST_SKIP() << why;
  if (how.how == How::is_stopped) {
    std::this_thread::sleep_for(Milliseconds(50));  // in the middle of something
    ranks.stop(how.late);
    std::this_thread::sleep_for(kDelay);
    EXPECT_TRUE(ranks.log_shows(1 - how.late, "stopped or starved?"));
    const std::string watched = ranks.log_of(1 - how.late);
    EXPECT_NE(watched.find(fmt::format("rank {} (", how.late)), std::string::npos) << watched;
    if (kDelay >= 25 * kHeartbeat) expect_named(ranks, how.late);
    ranks.signal(how.late, SIGCONT);
  } else {
    std::this_thread::sleep_for(kDelay);
    if (kDelay >= 25 * kHeartbeat) expect_named(ranks, how.late);
  }
  ranks.go_all();
  for (int rank : {0, 1}) EXPECT_EQ(ranks.line(rank), "ended: ") << ranks.log_of(rank);
}

// Also of one that has not read for long, so that nothing more could be sent to it.
TEST_P(Lateness, EndsAtOnceWhenTheRankDies) {
  const Case& how = GetParam();
  if (how.how != How::is_stopped) return;
  TemporaryPath place;
  Processes ranks(
      2, [&](int rank, const Reporter& reporter) { be_a_rank(rank, how, place.path(), reporter); });
  if (std::string why; !begin(ranks, why)) GTEST_SKIP() << why;
  std::this_thread::sleep_for(Milliseconds(50));
  ranks.stop(how.late);
  std::this_thread::sleep_for(kDelay / 4);
  ranks.signal(how.late, SIGKILL);
  ranks.go(1 - how.late);
  const std::string said = ranks.line(1 - how.late);
  EXPECT_NE(said.find("(peer_lost)"), std::string::npos) << said;
  EXPECT_EQ(said.find("(timeout)"), std::string::npos) << said;
}

}  // namespace
}  // namespace ringwood::testing
