// Random schedules, planned by random passes and carried out by ranks in threads of their own, on
// every transport: what they end with is what a sequential interpreter gives, and all sums have the
// same bits on all ranks. seeds.h has how to go on for an hour.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>

#include "collectives/executors/plan_runner.h"
#include "collectives/verify/verify.h"
#include "tests/support/inputs.h"
#include "tests/support/random_programs.h"
#include "tests/support/random_ways.h"
#include "tests/support/ranks.h"
#include "tests/support/seeds.h"
#include "tests/support/special_numbers.h"
#include "tests/support/transports.h"
#include "transports/mesh.h"

namespace ringwood::testing {
namespace {

constexpr uint64_t kPrograms = kSlow ? 10 : 40, kSums = kSlow ? 25 : 200;  // seeds
constexpr int kMaxRanks = 5;

using Buffers = std::deque<Guarded>;  // by rank

class Ranks {
 public:
  Ranks(int n, const std::string& transports) : meshes_(n), runners_(n) {
    auto store = memory_store();
    in_threads([&](int r) {
      meshes_[r] = make_mesh(store, r, n, options_for(transports, r), {});
      runners_[r] = std::make_unique<PlanRunner>(*meshes_[r]);
    });
    slots_ = std::ranges::all_of(meshes_, [](const auto& m) { return m && slots_to_all(*m); });
  }
  ~Ranks() {
    in_threads([&](int r) {
      runners_[r].reset();
      meshes_[r].reset();
    });
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  bool slots() const { return slots_; }

  // Carries out all ranks' plans, some of which begin late.
  void run(const PlanGroup& group, Buffers& buffers, uint64_t seed) {
    const std::vector<double> factors(meshes_.size(), 0.5);
    ++sequence_;
    in_threads([&](int r) {
      const Plan& plan = *group.plans[r];
      std::mt19937 random(static_cast<unsigned>(seed * 64 + r));
      if (random() % 4 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
      Fingerprint fingerprint = plan.fingerprint;
      fingerprint.sequence = sequence_;
      void* const data = buffers[r].data();
      const bool scaled = plan.key.args.op == ReduceOp::premul_sum;
      runners_[r]->start(
          {&plan, fingerprint, {&data, 1}, {}, {}, false, scaled ? &factors : nullptr});
      finish(*runners_[r], random);
    });
  }

 private:
  static void finish(PlanRunner& runner, std::mt19937& random) {
    const auto end = Clock::now() + kPatience;
    while (!runner.idle()) {
      bool progressed = false;
      must(runner.step(progressed));
      if (!progressed || random() % 16 == 0) std::this_thread::yield();
      if (!progressed && Clock::now() > end) throw std::runtime_error("no end");
    }
  }

  template <class Body>
  void in_threads(Body body) {
    std::vector<std::thread> threads;
    std::vector<std::string> errors(meshes_.size());
    for (size_t r = 0; r < meshes_.size(); ++r)
      threads.emplace_back([&, r] {
        try {
          body(static_cast<int>(r));
        } catch (const std::exception& e) {
          errors[r] = e.what();
        }
      });
    for (auto& t : threads) t.join();
    for (size_t r = 0; r < errors.size(); ++r)
      if (!errors[r].empty()) ADD_FAILURE() << "rank " << r << ": " << errors[r];
  }

  std::vector<std::unique_ptr<Mesh>> meshes_;
  std::vector<std::unique_ptr<PlanRunner>> runners_;
  bool slots_ = false;
  uint64_t sequence_ = 0;
};

// One group of each size for a whole test: links go on from one plan to the next.
class RandomPlans : public OnTransport {
 protected:
  Ranks& ranks(int n) {
    auto& found = groups_[n];
    if (!found) found = std::make_unique<Ranks>(n, GetParam());
    return *found;
  }

  // The protocol, and what does not change the numbers.
  PlanWay random_way(std::mt19937& random, const std::vector<Schedule>& all,
                     const CollectiveArgs& args, int segments) {
    PlanWay way;
    way.segments = segments;
    way.limits = random_limits(random);
    way.published = random() % 2;
    const size_t bytes = args.count * size_of(args.type);
    if (segments == 1 && bytes <= way.limits.one_round_bytes && fits_round(all) && random() % 4) {
      way.protocol = Protocol::one_round;
      way.published = false;  // as the plan cache has it
    }
    way.slots = ranks(static_cast<int>(all.size())).slots() && random() % 4;
    way.apart = random() % 2;
    // The copies of a device are copies: here the host carries them out.
    if (way.protocol == Protocol::queued && random() % 4 == 0) way.memory = MemoryKind::device;
    return way;
  }

  // With what is needed to see it again, where anything is wrong.
  void run(const PlanGroup& group, Buffers& buffers, uint64_t seed) {
    const int n = static_cast<int>(group.plans.size());
    ranks(n).run(group, buffers, seed);
    for (int r = 0; r < n; ++r) EXPECT_TRUE(buffers[r].guards_intact()) << "rank " << r;
  }
  static std::string words(const PlanGroup& group, uint64_t seed) {
    std::string text = fmt::format("seed {}, {}\n", seed, group.name);
    for (const Schedule& s : group.proved) text += print(s);
    return text;
  }

 private:
  std::map<int, std::unique_ptr<Ranks>> groups_;
};
INSTANTIATE_TEST_SUITE_P(Transports, RandomPlans, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

// All in memory that peers read in place, none, or some.
Buffers random_buffers(std::mt19937& random, int n, size_t count, DataType type) {
  const auto which = random() % 3;
  Buffers buffers;
  for (int r = 0; r < n; ++r) {
    const bool arena = which == 0 || (which == 1 && random() % 2);
    buffers_placed = arena ? Placement::arena : Placement::heap;
    buffers.emplace_back(count, type);
  }
  buffers_placed = Placement::heap;
  return buffers;
}

bool same_bytes(Guarded& a, Guarded& b, size_t bytes) {
  return bytes == 0 || std::memcmp(a.data(), b.data(), bytes) == 0;
}

TEST_P(RandomPlans, EndWithWhatTheInterpreterGives) {
  constexpr DataType kTypes[] = {DataType::int64, DataType::int32, DataType::int16,
                                 DataType::uint8};
  for_seeds(kPrograms, [&](uint64_t seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const int n = 2 + static_cast<int>(random() % (kMaxRanks - 1));
    const DataType type = kTypes[random() % 4];
    // The interpreter takes far longer than the ranks.
    const size_t count = random_count(random) / 4, size = size_of(type);
    const int events = 1 + static_cast<int>(random() % 40);
    const Program program = random_program(random, n, count, events, size);
    const CollectiveArgs args = plan_args(Collective::all_reduce, type, ReduceOp::sum, count, 0);
    PlanWay way = random_way(random, program.schedules, args, 1);
    way.traces = false;
    const PlanGroup group = plan_group(program.schedules, args, "test", way);
    Buffers buffers = random_buffers(random, n, count, type);
    // The low bytes, in the order of the machine.
    for (int r = 0; r < n; ++r)
      for (size_t i = 0; i < count; ++i)
        std::memcpy(buffers[r].data() + i * size, &program.before[r][i], size);
    run(group, buffers, seed);
    for (int r = 0; r < n; ++r)
      for (size_t i = 0; i < count; ++i)
        ASSERT_EQ(0, std::memcmp(buffers[r].data() + i * size, &program.after[r][i], size))
            << "rank " << r << " number " << i << ", " << words(group, seed);
    ASSERT_FALSE(HasFailure()) << words(group, seed);
  });
}

struct Sum {
  DataType type;
  ReduceOp op;
};
Sum random_sum(std::mt19937& random) {
  for (;;) {
    const auto type = static_cast<DataType>(random() % kDataTypes);
    const auto op = static_cast<ReduceOp>(random() % kReduceOps);
    // The products of other types are made before the plan begins.
    const bool whole = op != ReduceOp::premul_sum || scales_operands(type, op);
    if (supports(type, op) && whole) return {type, op};
  }
}

// Of exact numbers: what every rank should have, as far as the wire format keeps it.
void expect_sums(const PlanGroup& group, Buffers& buffers, int roundings,
                 const std::string& words) {
  const CollectiveArgs& args = group.plans[0]->key.args;
  const auto wire = static_cast<WireFormat>(group.plans[0]->fingerprint.wire);
  const int n = static_cast<int>(group.plans.size());
  const double error = wire == WireFormat::exact ? 0 : error_bound(wire, roundings) * 3 * n + 1e-5;
  Guarded want(1, args.type);
  for (size_t i = 0; i < args.count; ++i) {
    want.set(0, expected(args.type, args.op, i, n));
    ASSERT_LE(std::abs(buffers[0][i] - want[0]), error) << "number " << i << ", " << words;
  }
}

TEST_P(RandomPlans, SumUpExactlyAndAlike) {
  for_seeds(kSums, [&](uint64_t seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const int n = 2 + static_cast<int>(random() % (kMaxRanks - 1));
    const std::vector<Schedule> all = random_all_reduce(random, n);
    ASSERT_EQ(verify(Collective::all_reduce, all), std::nullopt) << "seed " << seed;
    const auto [type, op] = random_sum(random);
    const CollectiveArgs args =
        plan_args(Collective::all_reduce, type, op, random_count(random), 0);
    PlanWay way = random_way(random, all, args, 1 + static_cast<int>(random() % 4));
    const Places places = random_hosts(random, n);
    const WireProof proof = prove_wire(Collective::all_reduce, all, places.host);
    if (may_encode(Collective::all_reduce, type, op) && proof.equal_bits && random() % 2) {
      way.wire = random() % 2 ? WireFormat::bf16 : WireFormat::int8;
      way.published = false;
      way.protocol = Protocol::queued;
    }
    const PlanGroup group = plan_group(all, args, "test", way, places);
    Buffers buffers = random_buffers(random, n, args.count, type);
    const bool special = random() % 3 == 0;  // NaN and all that: alike, whatever they are
    for (int r = 0; r < n; ++r) {
      if (special) fill_special(buffers[r].data(), args.count, type, seed * 16 + r);
      for (size_t i = 0; i < args.count && !special; ++i) buffers[r].set(i, input(type, op, i, r));
    }
    run(group, buffers, seed);
    for (int r = 1; r < n; ++r)
      ASSERT_TRUE(same_bytes(buffers[0], buffers[r], args.count * size_of(type)))
          << "ranks 0 and " << r << " differ, " << words(group, seed);
    if (!special) expect_sums(group, buffers, proof.roundings, words(group, seed));
    ASSERT_FALSE(HasFailure()) << words(group, seed);
  });
}

}  // namespace
}  // namespace ringwood::testing
