// Several collectives of one group under way at once, of two priorities: who passes whom, and that
// every result is that of calls carried out one after the other.
#include <atomic>
#include <bit>
#include <latch>
#include <mutex>
#include <numeric>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

CallOptions with(Priority priority) {
  CallOptions call;
  call.priority = priority;
  return call;
}

void run(int n, const std::string& transports, int in_flight,
         const std::function<void(Communicator&)>& body) {
  const auto options = [&](int rank) {
    Options o = options_for(transports, rank);
    o.in_flight = in_flight;
    return o;
  };
  run_ranks(n, options, body);
}

class InFlightOn : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(Transports, InFlightOn, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

// ---- who passes whom ---------------------------------------------------------------------------

// Two calls, and the order in which they ended here.
struct Race {
  std::vector<float> large;
  int64_t small = 0;
  OperationPtr ops[2];
  std::mutex mutex;
  std::vector<int> ended;

  void call(Communicator& c) {
    const auto note = [this](int which) {
      ops[which]->on_done([this, which](const Error*) {
        std::lock_guard lock(mutex);
        ended.push_back(which);
      });
    };
    ops[0] = c.all_reduce(large.data(), large.size(), DataType::float32, ReduceOp::sum);
    note(0);
    ops[1] = c.all_reduce(&small, 1, DataType::int64, ReduceOp::sum, with(Priority::high));
    note(1);
  }
};

// The last rank calls both in a callback of its driver, which so finds them together; the others
// have begun the first by then.
void expect_order(int n, const std::string& transports, int in_flight, size_t elements,
                  const std::vector<int>& order) {
  std::latch listening(1), called(n - 1);
  run(n, transports, in_flight, [&](Communicator& c) {
    Race race;
    race.large.assign(elements, 1.0f);
    race.small = c.rank() + 1;
    if (c.rank() == n - 1) {
      std::atomic<bool> done{false};
      auto barrier = c.barrier();
      barrier->on_done([&](const Error*) {
        called.wait();
        race.call(c);
        done = true;
      });
      listening.count_down();
      must(barrier->wait());
      while (!done) std::this_thread::yield();
    } else {
      listening.wait();
      must(c.barrier());
      race.call(c);
      called.count_down();
    }
    for (const auto& op : race.ops) must(op);
    must(c.barrier());  // callbacks have run
    std::lock_guard lock(race.mutex);
    EXPECT_EQ(race.ended, order) << "rank " << c.rank();
    EXPECT_EQ(race.small, n * (n + 1) / 2);
    for (float x : race.large)
      if (x != static_cast<float>(n)) throw std::runtime_error(fmt::format("{} not {}", x, n));
  });
}

TEST_P(InFlightOn, ASmallCallOfHighPriorityPassesALargeOne) {
  const bool fast = GetParam() != "mixed" && !is_emulated(GetParam());
  for (int n : {2, 3})
    for (int in_flight : {2, 3})
      expect_order(n, GetParam(), in_flight, fast ? size_t{16} << 20 : size_t{1} << 20, {1, 0});
}

TEST_P(InFlightOn, WithOneAtATimeNobodyPasses) {
  expect_order(2, GetParam(), 1, size_t{1} << 18, {0, 1});
}

TEST(InFlight, ByDefaultHighPriorityPasses) { EXPECT_GE(Options().in_flight, 2); }

// ---- any calls, from several threads -----------------------------------------------------------

// One call of a program that is the same on all ranks, and how its result is checked.
struct DrawnCall {
  int kind, root;
  size_t count;
  Priority priority;
};

std::vector<DrawnCall> random_steps(std::mt19937& random, int n, int count) {
  std::vector<DrawnCall> steps;
  for (int i = 0; i < count; ++i) {
    const size_t most = random() % 8 == 0 ? 150000 : random() % 3 == 0 ? 6000 : 20;
    steps.push_back({static_cast<int>(random() % 9), static_cast<int>(random() % n),
                     random() % most, random() % 3 == 0 ? Priority::high : Priority::normal});
  }
  return steps;
}

int64_t value(int rank, size_t i, size_t step) {
  return static_cast<int64_t>((rank + 1) * 1000003 + i * 7 + step * 31);
}

class Carried {
 public:
  Carried(Communicator& c, const DrawnCall& step, size_t number)
      : rank_(c.rank()), n_(c.size()), step_(step), number_(number) {
    const bool by_blocks = step.kind >= 3 && step.kind < 7;
    in_.resize(by_blocks && step.kind != 3 ? step.count * n_ : step.count);
    for (size_t i = 0; i < in_.size(); ++i) in_[i] = value(rank_, i, number);
    out_.assign(by_blocks && step.kind != 4 ? step.count * n_ : step.count, -1);
    doubles_.assign(step.count, static_cast<double>(rank_ + 1));
    halves_.assign(step.count, 0x3f80);  // 1 in bfloat16
    op_ = call(c);
  }
  void check() {
    must(op_);
    for (size_t i = 0; i < step_.count; ++i) check_element(i);
  }

 private:
  OperationPtr call(Communicator& c) {
    CallOptions how = with(step_.priority);
    const size_t count = step_.count;
    switch (step_.kind) {
      case 0: return c.all_reduce(in_.data(), count, DataType::int64, ReduceOp::sum, how);
      case 1: return c.reduce(in_.data(), count, DataType::int64, ReduceOp::sum, step_.root, how);
      case 2: return c.broadcast(in_.data(), count, DataType::int64, step_.root, how);
      case 3: return c.all_gather(in_.data(), out_.data(), count, DataType::int64, how);
      case 4:
        return c.reduce_scatter(in_.data(), out_.data(), count, DataType::int64, ReduceOp::sum,
                                how);
      case 5: return c.all_to_all(in_.data(), out_.data(), count, DataType::int64, how);
      case 6: return gather(c, how);
      case 7:
        how.factor = rank_ + 1;
        return c.reduce(doubles_.data(), count, DataType::float64, ReduceOp::premul_sum, step_.root,
                        how);
      default:  // its factors are gathered by an operation before
        how.factor = rank_ + 1;
        return c.all_reduce(halves_.data(), count, DataType::bfloat16, ReduceOp::premul_sum, how);
    }
  }
  OperationPtr gather(Communicator& c, CallOptions how) {
    std::vector<Block> blocks;
    how.uneven = true;
    for (int r = 0; r < n_; ++r) blocks.push_back({out_.data() + r * step_.count, step_.count});
    return c.gather({in_.data(), step_.count}, blocks, DataType::int64, step_.root, how);
  }
  int64_t sum(size_t i) const {
    int64_t all = 0;
    for (int r = 0; r < n_; ++r) all += value(r, i, number_);
    return all;
  }
  void expect(double got, double want) const {
    if (got != want)
      throw std::runtime_error(
          fmt::format("call {} of kind {}: {} not {}", number_, step_.kind, got, want));
  }
  void check_element(size_t i) const {
    const bool root = rank_ == step_.root;
    const int all = n_ * (n_ + 1) / 2, squares = n_ * (n_ + 1) * (2 * n_ + 1) / 6;
    const auto whole = [&](int64_t got, int64_t want) { expect(double(got), double(want)); };
    switch (step_.kind) {
      case 0: return whole(in_[i], sum(i));
      case 1: return whole(in_[i], root ? sum(i) : value(rank_, i, number_));
      case 2: return whole(in_[i], value(step_.root, i, number_));
      case 4: return whole(out_[i], sum(rank_ * step_.count + i));
      case 7: return expect(doubles_[i], root ? squares : rank_ + 1);
      case 8: return expect(double(float_of(halves_[i])), all);
      default: break;
    }
    for (int r = 0; r < n_; ++r) {
      const size_t at = step_.kind == 5 ? rank_ * step_.count + i : i;
      const bool here = step_.kind != 6 || root;
      whole(out_[r * step_.count + i], here ? value(r, at, number_) : -1);
    }
  }
  static float float_of(uint16_t bfloat16) {
    return std::bit_cast<float>(static_cast<uint32_t>(bfloat16) << 16);
  }

  const int rank_, n_;
  const DrawnCall step_;
  const size_t number_;
  std::vector<int64_t> in_, out_;
  std::vector<double> doubles_;
  std::vector<uint16_t> halves_;
  OperationPtr op_;
};

// Threads call in turn, so that the order is the same on all ranks, and wait as they like.
void run_steps(Communicator& c, const std::vector<DrawnCall>& steps, uint32_t seed) {
  constexpr size_t kThreads = 3;
  std::atomic<size_t> turn{0};
  std::vector<std::thread> threads;
  std::vector<std::string> errors(kThreads);
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(seed * 100 + c.rank() * 10 + static_cast<uint32_t>(t));
      std::vector<std::unique_ptr<Carried>> mine;
      try {
        for (size_t i = t; i < steps.size(); i += kThreads) {
          while (turn < i) std::this_thread::yield();
          mine.push_back(std::make_unique<Carried>(c, steps[i], i));
          turn = i + 1;
          if (random() % 4 == 0) mine[random() % mine.size()]->check();
        }
        for (auto& one : mine) one->check();
      } catch (const std::exception& e) {
        errors[t] = e.what();
        turn = steps.size();
        c.abort(e.what());
      }
    });
  for (auto& t : threads) t.join();
  for (const std::string& error : errors)
    if (!error.empty()) throw std::runtime_error(error);
}

TEST_P(InFlightOn, AnyCallsOfAnyPriorityFromSeveralThreadsAreRight) {
  for (int in_flight : {1, 2, 3, 8})
    for (int n : {2, 3}) {
      const uint32_t seed = static_cast<uint32_t>(in_flight * 10 + n);
      std::mt19937 random(seed);
      const auto steps = random_steps(random, n, 45);
      run(n, GetParam(), in_flight, [&](Communicator& c) { run_steps(c, steps, seed); });
      if (HasFailure()) FAIL() << "in flight " << in_flight << ", ranks " << n;
    }
}

// ---- calls that touch the same memory ----------------------------------------------------------

constexpr size_t kWords = 3000;

struct Window {
  int kind, root;
  size_t count;
  Priority priority;
  std::vector<size_t> at;  // by rank
};

// Where `shared` is false, only rank 0's windows overlap.
std::vector<Window> random_windows(std::mt19937& random, int n, int count, bool shared) {
  std::vector<Window> all;
  for (int i = 0; i < count; ++i) {
    Window w{static_cast<int>(random() % 5),
             static_cast<int>(random() % n),
             1 + random() % 400,
             random() % 2 ? Priority::high : Priority::normal,
             {}};
    for (int r = 0; r < n; ++r)
      w.at.push_back(shared || r == 0 ? random() % (kWords - 2 * 400)
                                      : kWords + 400 * static_cast<size_t>(2 * i));
    all.push_back(w);
  }
  return all;
}

// What calls one after the other would do; the halves of kind 4 are a group's two calls.
void apply(const Window& w, std::vector<std::vector<int64_t>>& memory) {
  const int n = static_cast<int>(memory.size());
  const size_t count = w.kind == 4 ? 2 * w.count : w.count;
  for (size_t i = 0; i < count; ++i) {
    int64_t sum = 0;
    for (int r = 0; r < n; ++r) sum += memory[r][w.at[r] + i];
    const int64_t roots = memory[w.root][w.at[w.root] + i];
    for (int r = 0; r < n; ++r) {
      int64_t& x = memory[r][w.at[r] + i];
      if (w.kind == 1)
        x = roots;
      else if (w.kind != 2 || r == w.root)
        x = sum;
    }
  }
}

std::vector<OperationPtr> call(Communicator& c, const Window& w, int64_t* memory) {
  const CallOptions how = with(w.priority);
  int64_t* const at = memory + w.at[c.rank()];
  switch (w.kind) {
    case 1: return {c.broadcast(at, w.count, DataType::int64, w.root, how)};
    case 2: return {c.reduce(at, w.count, DataType::int64, ReduceOp::sum, w.root, how)};
    case 4: {
      GroupOfCalls group(c);
      return {c.all_reduce(at, w.count, DataType::int64, ReduceOp::sum, how),
              c.all_reduce(at + w.count, w.count, DataType::int64, ReduceOp::sum, how)};
    }
    default: return {c.all_reduce(at, w.count, DataType::int64, ReduceOp::sum, how)};
  }
}

void expect_as_one_by_one(const std::string& transports, bool shared) {
  constexpr int n = 3, kCalls = 40;
  for (int in_flight : {1, 2, 3, 8}) {
    std::mt19937 random(static_cast<uint32_t>(in_flight));
    const auto windows = random_windows(random, n, kCalls, shared);
    std::vector<std::vector<int64_t>> want(n);
    for (int r = 0; r < n; ++r)
      for (size_t i = 0; i < kWords + 800 * kCalls; ++i) want[r].push_back(value(r, i, 0));
    const auto before = want;
    for (const Window& w : windows) apply(w, want);
    run(n, transports, in_flight, [&](Communicator& c) {
      auto memory = before[c.rank()];
      std::vector<OperationPtr> ops;
      for (const Window& w : windows)
        for (auto& op : call(c, w, memory.data())) ops.push_back(std::move(op));
      for (const auto& op : ops) must(op);
      EXPECT_EQ(memory == want[c.rank()], true) << "rank " << c.rank() << " of " << in_flight;
    });
  }
}

TEST_P(InFlightOn, CallsOverTheSameMemoryTakeEffectInOrder) {
  expect_as_one_by_one(GetParam(), true);
}

TEST_P(InFlightOn, AlsoWhereOnlyOneRanksBuffersOverlap) { expect_as_one_by_one(GetParam(), false); }

// What is scaled or packed before it is sent is read when it is its turn.
TEST_P(InFlightOn, InputsAreReadWhenEarlierCallsHaveWrittenThem) {
  run(2, GetParam(), 3, [&](Communicator& c) {
    for (int again = 0; again < 20; ++again) {
      std::vector<double> x(20000, 1), y(20000);
      CallOptions half = with(Priority::high);
      half.factor = 0.5;
      auto first = c.all_reduce(x.data(), x.size(), DataType::float64, ReduceOp::sum);
      auto second = c.reduce(x.data(), x.size(), DataType::float64, ReduceOp::premul_sum, 0, half);
      must(first);
      must(second);
      for (double got : x) EXPECT_EQ(got, 2) << c.rank();
      if (HasFailure()) return;
    }
  });
}

// Pages change while others read them.
TEST(InFlight, BuffersThatAreReadTwiceAtOnceAreRemapped) {
  const auto options = [](int rank) {
    Options o = options_for(rank);
    o.remap = 4096;
    o.in_flight = 3;
    return o;
  };
  run_ranks(3, options, [](Communicator& c) {
    constexpr size_t kMany = 200000;
    std::vector<int64_t> root(kMany), got[3];
    for (auto& one : got) one.resize(kMany);
    for (int round = 0; round < 30; ++round) {
      std::iota(root.begin(), root.end(), round);
      std::vector<OperationPtr> ops;
      for (size_t k = 0; k < 3; ++k) {
        const size_t first = k * 1001, count = kMany - 2 * first;
        int64_t* const data = c.rank() == 0 ? &root[first] : &got[k][first];
        const auto priority = k == 2 ? Priority::high : Priority::normal;
        ops.push_back(c.broadcast(data, count, DataType::int64, 0, with(priority)));
      }
      for (const auto& op : ops) must(op);
      for (size_t k = 0; k < 3 && c.rank() > 0; ++k)
        for (size_t i = k * 1001; i < kMany - k * 1001; ++i)
          if (got[k][i] != static_cast<int64_t>(i) + round) throw std::runtime_error("wrong");
      must(c.barrier());
    }
  });
}

}  // namespace
}  // namespace ringwood::testing
