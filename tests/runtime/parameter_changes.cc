// Other parameters while a group runs: every call has the right result, whatever it is doing when
// its rank hears of the change, all ranks change at the same operation, and reproducible results
// keep their bits.
#include <algorithm>
#include <cmath>
#include <deque>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/plan/fingerprint.h"
#include "collectives/plan/plan.h"
#include "collectives/planner/group_planner.h"
#include "collectives/runtime/group_parts.h"
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/model_tuner.h"
#include "tests/support/patience.h"
#include "tests/support/ranks.h"
#include "tests/support/seeds.h"

namespace ringwood::testing {
namespace {

Options apart(int rank) {
  Options o = options_for("tcp", rank);
  o.host_id = fmt::format("host-{}", rank);
  o.calibration = "off";
  return o;
}

// Rounds are dear, or bytes are.
MachineModel slow_rounds() {
  MachineModel machine;
  machine.net.latency = 1e-2;
  machine.net.nic = 1e11;
  machine.net.copied = 1e11;
  return machine;
}
MachineModel slow_bytes() {
  MachineModel machine;
  machine.net.nic = 1e6;
  machine.net.exceptions = {{0, 0.25, "host-0"}};
  return machine;
}

// As if that had been measured.
void change_parameters(const Communicator& c, const MachineModel& machine) {
  const TunerInUse now = parts_of(c).plans().in_use();
  const auto& tuner = dynamic_cast<const ModelTuner&>(*now.tuner);
  parts_of(c).mesh().control->propose(tuner.propose(machine.net, now.choices));
}

std::string choice_of(const Communicator& c, size_t bytes) {
  const auto choice = c.choice(Collective::all_reduce, bytes, DataType::float32, ReduceOp::sum);
  return fmt::format("{} {}", choice.algorithm, choice.segments);
}

std::string chosen(MachineModel machine, int n, size_t bytes, bool reproducible) {
  machine.hosts.resize(static_cast<size_t>(n));
  std::iota(machine.hosts.begin(), machine.hosts.end(), 0);
  Options options = apart(0);
  options.reproducible = reproducible;
  ModelQuery q;
  q.bytes = bytes;
  q.n = n;
  q.machine = &machine;
  const TuningChoice choice = choose(q, options);
  return fmt::format("{} {}", choice.algorithm, choice.segments);
}

// Calls small sums until this rank chooses so; all ranks call alike, because each says whether it
// still waits. Throws if it never does.
template <class Sum>
void call_until(Communicator& c, size_t bytes, const std::string& choice, Sum sum) {
  for (const Deadline limit = patiently();;) {
    int32_t waiting = choice_of(c, bytes) != choice;
    sum(waiting);
    if (waiting == 0) return;
    if (limit.passed()) throw std::runtime_error("the parameters have not changed");
  }
}

void add_up(Communicator& c, int32_t& value, const CallOptions& call = {}) {
  must(c.all_reduce(&value, 1, DataType::int32, ReduceOp::sum, call));
}

// ---- every kind of call -------------------------------------------------------------------------

// What each rank calls, in the same order; the results are exact.
class Program {
 public:
  Program(Communicator& c, uint64_t seed) : c_(c), common_(seed), own_(seed + 1 + c.rank()) {
    const CallOptions persistent{.persistent = true};
    persistent_.assign(3000, 0);
    again_ = c_.all_reduce(persistent_.data(), persistent_.size(), DataType::int32, ReduceOp::sum,
                           persistent);
  }

  void call() {
    if (own_() % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own_() % 2000));
    const size_t count = 1 + common_() % 2 * 4000;
    switch (common_() % 6) {
      case 0: return sum(count, {.synchronous = true});
      case 1: return sum(count, {});
      case 2: return sums_in_a_group();
      case 3: return repeat();
      case 4: return gather(count);
      default: return sum(count, {.synchronous = true, .priority = Priority::high});
    }
  }
  void finish() {
    for (auto& one : open_) check(one);
    open_.clear();
  }

 private:
  struct Sum {
    std::vector<int32_t> data;
    OperationPtr operation;
  };
  int total() const { return c_.size() * (c_.size() + 1) / 2; }
  int mine() const { return c_.rank() + 1; }

  void check(Sum& one) {
    must(one.operation);
    for (const int32_t x : one.data)
      if (x != total()) throw std::runtime_error(fmt::format("{} instead of {}", x, total()));
  }
  void sum(size_t count, const CallOptions& call) {
    open_.push_back({std::vector<int32_t>(count, mine()), nullptr});
    Sum& one = open_.back();
    one.operation = c_.all_reduce(one.data.data(), count, DataType::int32, ReduceOp::sum, call);
    if (open_.size() < 200) return;
    check(open_.front());
    open_.pop_front();
  }
  void sums_in_a_group() {
    GroupOfCalls group(c_);
    for (int i = 0; i < 5; ++i) sum(i == 3 ? 4001 : 7, {});
  }
  void repeat() {
    must(again_->wait());
    std::ranges::fill(persistent_, mine());
    must(again_->start());
    must(again_->wait());
    for (const int32_t x : persistent_)
      if (x != total()) throw std::runtime_error(fmt::format("again {} != {}", x, total()));
  }
  // The input is this rank's own block, or not: then the plan says whether it is copied first.
  void gather(size_t count) {
    const auto n = static_cast<size_t>(c_.size()), own = static_cast<size_t>(c_.rank());
    std::vector<int32_t> out(n * count, -1), in(count, mine());
    const bool in_place = common_() % 2;
    if (in_place) std::ranges::copy(in, out.begin() + static_cast<ptrdiff_t>(own * count));
    must(c_.all_gather(in_place ? out.data() + own * count : in.data(), out.data(), count,
                       DataType::int32, {.synchronous = common_() % 2 == 0}));
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i] != static_cast<int32_t>(i / count) + 1) throw std::runtime_error("other blocks");
  }

  Communicator& c_;
  std::mt19937_64 common_, own_;
  std::deque<Sum> open_;
  std::vector<int32_t> persistent_;
  OperationPtr again_;
};

class ChangesWith : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ChangesWith, ::testing::Values(2, 3, 4, 8));

// 1,000 calls, 200 of them in flight, on ranks of different speeds.
TEST_P(ChangesWith, EveryCallIsRight) {
  for_seeds(1, [&](uint64_t seed) {
    SCOPED_TRACE(seed);
    run_ranks(GetParam(), apart, [&](Communicator& c) {
      Program program(c, seed);
      for (int i = 0; i < 1000; ++i) {
        if (c.rank() == 0 && i % 150 == 75)
          change_parameters(c, i / 150 % 2 ? slow_bytes() : slow_rounds());
        program.call();
      }
      program.finish();
    });
  });
}

TEST_P(ChangesWith, AllRanksChooseByThem) {
  const int n = GetParam();
  constexpr size_t kBytes = 64 << 10;
  const std::string first = chosen(slow_rounds(), n, kBytes, false),
                    second = chosen(slow_bytes(), n, kBytes, false);
  ASSERT_TRUE(n < 4 || first != second) << first;
  run_ranks(n, apart, [&](Communicator& c) {
    for (int i = 0; i < 4; ++i) {
      must(c.barrier());
      if (c.rank() == 0) change_parameters(c, i % 2 ? slow_bytes() : slow_rounds());
      call_until(c, kBytes, i % 2 ? second : first, [&](int32_t& value) { add_up(c, value); });
    }
  });
}

// ---- reproducible results -----------------------------------------------------------------------

TEST_P(ChangesWith, ReproducibleResultsKeepTheirBits) {
  const int n = GetParam();
  constexpr size_t kCount = 16 << 10;
  const std::string first = chosen(slow_rounds(), n, kCount * 4, true),
                    second = chosen(slow_bytes(), n, kCount * 4, true);
  ASSERT_TRUE(n < 4 || first != second) << first;
  const auto options = [](int rank) {
    Options o = apart(rank);
    o.reproducible = true;
    return o;
  };
  std::mutex mutex;
  std::set<std::vector<float>> results;
  run_ranks(n, options, [&](Communicator& c) {
    for (int i = 0; i < 5; ++i) {
      std::vector<float> data(kCount);
      for (size_t k = 0; k < kCount; ++k)
        data[k] = std::sin(static_cast<float>(static_cast<size_t>(c.rank()) * 7919 + k)) * 3;
      must(c.all_reduce(data.data(), kCount, DataType::float32, ReduceOp::sum));
      const std::string row =
          c.choice(Collective::all_reduce, kCount * 4, DataType::float32, ReduceOp::sum).algorithm;
      if (!find_algorithm(Collective::all_reduce, row)->rank_order)
        throw std::runtime_error(row + " is not in rank order");
      {
        std::lock_guard lock(mutex);
        results.insert(data);
      }
      if (c.rank() == 0) change_parameters(c, i % 2 ? slow_bytes() : slow_rounds());
      call_until(c, kCount * 4, i % 2 ? second : first, [&](int32_t& value) { add_up(c, value); });
    }
  });
  EXPECT_EQ(results.size(), 1u) << "other bits";
}

// ---- what is said -------------------------------------------------------------------------------

TEST(Changes, ARankThatHasMissedOneIsNamed) {
  Fingerprint now = fingerprint_of(
      {Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, 8, {}}, "ring", 1, 17);
  Fingerprint before = now;
  now.epoch = 3;
  EXPECT_EQ(compare(now, 0, before, 5),
            "rank 0 plans all_reduce float32 x 8, sum (#17) by the parameters of epoch 3 while "
            "rank 5 plans it by those of epoch 0: one of them has missed a change");
}

}  // namespace
}  // namespace ringwood::testing
