// The executor against a sequential interpreter: random schedules, random interleavings, links that
// delay and reorder.
//
// All ranks live in one thread: the set-up needs threads (it is collective), the runs are stepped
// one executor at a time in a seeded order, so that a failure repeats.
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/algorithms.h"
#include "collectives/executor.h"
#include "tests/meshes.h"
#include "transports/arena.h"
#include "transports/shm/shm.h"

namespace ringwood::testing {
namespace {

using Memory = std::vector<std::vector<int64_t>>;  // by rank: the buffer

// Any program of messages and local steps, one global event after the other, is a valid set of
// schedules.
struct Program {
  std::vector<Schedule> schedules;
  Memory before, after;
};

struct Machine {
  int n, chunks, scratch;
  size_t count;
  std::vector<std::vector<std::vector<int64_t>>> at;  // rank, chunk, element

  void apply(int rank, Span dst, const std::vector<std::vector<int64_t>>& values, bool reduce) {
    for (int i = 0; i < dst.count; ++i)
      for (size_t e = 0; e < values[i].size(); ++e) {
        int64_t& x = at[rank][dst.first + i][e];
        x = reduce ? x + values[i][e] : values[i][e];
      }
  }
  std::vector<std::vector<int64_t>> read(int rank, Span src) const {
    return {at[rank].begin() + src.first, at[rank].begin() + src.first + src.count};
  }
};

Program random_program(std::mt19937& random, int n, size_t count, int events) {
  const auto pick = [&](int below) { return static_cast<int>(random() % below); };
  const int chunks = 1 + pick(5);
  Program program;
  Machine m{n, chunks, chunks, count, {}};
  for (int r = 0; r < n; ++r) {
    program.before.emplace_back();
    for (size_t e = 0; e < count; ++e)
      program.before[r].push_back(static_cast<int64_t>(random() % 1000));
    Schedule s;
    s.rank = r;
    s.n = n;
    s.chunks = chunks;
    m.at.emplace_back();
    for (int c = 0; c < chunks; ++c) {
      const Piece p = piece(count, chunks, c, 8);
      m.at[r].emplace_back(program.before[r].begin() + p.first,
                           program.before[r].begin() + p.first + p.count);
    }
    for (int c = 0; c < chunks; ++c) {
      s.add_scratch(c);
      m.at[r].emplace_back(m.at[r][c].size(), 0);
    }
    // Scratch begins undefined, so it is written before it is read.
    s.copy({chunks, chunks}, {0, chunks});
    for (int c = 0; c < chunks; ++c) m.at[r][chunks + c] = m.at[r][c];
    program.schedules.push_back(std::move(s));
  }
  for (int k = 0; k < events; ++k) {
    const int first = pick(chunks), width = 1 + pick(chunks - first);
    const Span dst{first + (pick(2) ? chunks : 0), width},
        src{first + (pick(2) ? chunks : 0), width};
    const int from = pick(n), to = pick(n);
    const bool reduce = pick(2);
    if (from == to && dst == src) continue;
    Schedule &a = program.schedules[from], &b = program.schedules[to];
    if (from == to) {
      reduce ? a.reduce(dst, src) : a.copy(dst, src);
    } else {
      a.send(to, src);
      reduce ? b.recv_reduce(from, dst) : b.recv(from, dst);
    }
    m.apply(to, dst, m.read(from, src), reduce);
  }
  for (int r = 0; r < n; ++r) {
    program.after.emplace_back();
    for (int c = 0; c < chunks; ++c)
      program.after[r].insert(program.after[r].end(), m.at[r][c].begin(), m.at[r][c].end());
  }
  return program;
}

struct Runner {
  std::vector<std::unique_ptr<Mesh>> meshes;
  std::vector<std::unique_ptr<Executor>> executors;
  uint64_t sequence = 0;

  explicit Runner(std::vector<std::unique_ptr<Mesh>> made) : meshes(std::move(made)) {
    for (auto& mesh : meshes) executors.push_back(std::make_unique<Executor>(*mesh));
  }
  Runner(int n, const LoopbackFaults& faults) : Runner(loopback_meshes(n, faults)) {}

  // Steps the executors in random order until all are idle. False: no end within a bound far above
  // what is needed.
  bool run(const std::vector<Schedule>& schedules, const Shape& shape, int lanes, Memory& memory,
           std::mt19937& random) {
    const size_t n = schedules.size();
    std::vector<void*> buffers;
    for (size_t r = 0; r < n; ++r) buffers.push_back(memory[r].data());
    return run(schedules, shape, lanes, buffers, random);
  }
  bool run(const std::vector<Schedule>& schedules, const Shape& shape, int lanes,
           const std::vector<void*>& buffers, std::mt19937& random,
           Opener opener = Opener::agreement) {
    const size_t n = schedules.size();
    std::vector<std::shared_ptr<const Plan>> plans;
    for (size_t r = 0; r < n; ++r)
      plans.push_back(make_plan(schedules[r], shape, "test", lanes, opener));
    for (size_t r = 0; r < n; ++r)
      executors[r]->start({plans[r].get(),
                           fingerprint_of(shape, "test", lanes, sequence),
                           {&buffers[r], 1},
                           {},
                           {},
                           false});
    ++sequence;
    const auto bound = Clock::now() + std::chrono::seconds(20);
    while (Clock::now() < bound) {
      bool all = true;
      for (size_t k = 0; k < n; ++k) {
        Executor& e = *executors[random() % n];
        bool progressed = false;
        if (e.idle()) continue;
        if (Status s = e.step(progressed); !s) throw std::runtime_error(s.error().message());
      }
      for (auto& e : executors) all &= e->idle();
      if (all) return true;
    }
    return false;
  }
};

struct ExecutorCase {
  int n;
  uint64_t seed;
};
class RandomSchedules : public ::testing::TestWithParam<ExecutorCase> {};
std::vector<ExecutorCase> executor_cases() {
  std::vector<ExecutorCase> all;
  for (int n : {2, 3, 5})
    for (uint64_t seed = 1; seed <= 4; ++seed) all.push_back({n, seed});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedules, ::testing::ValuesIn(executor_cases()),
                         [](const auto& info) {
                           return fmt::format("n{}_seed{}", info.param.n, info.param.seed);
                         });

TEST_P(RandomSchedules, GiveWhatTheInterpreterGives) {
  LoopbackFaults faults;
  faults.seed = GetParam().seed;
  faults.delay = GetParam().seed % 2 ? 6 : 0;  // polls
  Runner runner(GetParam().n, faults);
  std::mt19937 random(static_cast<unsigned>(GetParam().seed * 1000 + GetParam().n));
  for (int k = 0; k < 40; ++k) {
    const size_t count = k % 4 == 0 ? random() % 4 : 1 + random() % 3000;
    Program program =
        random_program(random, GetParam().n, count, 1 + static_cast<int>(random() % 60));
    Shape shape;
    shape.collective = Collective::all_reduce;
    shape.type = DataType::int64;
    shape.count = count;
    ASSERT_TRUE(runner.run(program.schedules, shape, 1, program.before, random))
        << "no end, program " << k;
    for (int r = 0; r < GetParam().n; ++r)
      ASSERT_EQ(program.before[r], program.after[r]) << "program " << k << " rank " << r;
  }
}

TEST(Executor, RunsEveryAllReduceRowWithLanes) {
  const std::vector<int> host = {0, 1, 1, 0};  // for the hierarchical ones
  const int n = 4;
  Runner runner(n, LoopbackFaults{});
  std::mt19937 random(7);
  for (const AlgorithmRow& row : algorithm_table()) {
    if (row.collective != Collective::all_reduce || !row.accepts(Where{0, n, 0, host})) continue;
    for (int lanes : {1, 2, 5}) {
      const size_t count = 1237;
      Memory memory(n);
      std::vector<int64_t> want(count, 0);
      std::vector<Schedule> schedules;
      for (int r = 0; r < n; ++r) {
        schedules.push_back(row.build({r, n, 0, host}));
        for (size_t e = 0; e < count; ++e) {
          memory[r].push_back(static_cast<int64_t>(random() % 1000));
          want[e] += memory[r][e];
        }
      }
      Shape shape;
      shape.collective = Collective::all_reduce;
      shape.type = DataType::int64;
      shape.count = count;
      ASSERT_TRUE(runner.run(schedules, shape, lanes, memory, random)) << row.name;
      for (int r = 0; r < n; ++r) ASSERT_EQ(memory[r], want) << row.name << " lanes " << lanes;
    }
  }
}

Schedule direct_for(int rank, int n) {
  return find_algorithm(Collective::all_reduce, "direct")->build({rank, n, 0, {}});
}

Shape sum_of(size_t count) {
  Shape shape;
  shape.collective = Collective::all_reduce;
  shape.type = DataType::int64;
  shape.count = count;
  return shape;
}

// Nothing in the result would tell that operands go the long way.
TEST(Executor, ReducesInOnePassWhereEveryOperandCanBeAnsweredInPlace) {
  for (int n : {2, 3}) {
    Runner runner(make_meshes(n, make_shm));
    std::mt19937 random(3);
    const size_t count = 30000 * n;
    std::vector<Schedule> schedules;
    std::vector<void*> buffers;
    for (int r = 0; r < n; ++r) {
      schedules.push_back(direct_for(r, n));
      buffers.push_back(Arena::of_process()->allocate(count * sizeof(int64_t)));
    }
    for (int again = 0; again < 3; ++again) {
      for (void* b : buffers) std::fill_n(static_cast<int64_t*>(b), count, 5);
      ASSERT_TRUE(runner.run(schedules, sum_of(count), 1, buffers, random));
      for (void* b : buffers)
        ASSERT_EQ(std::count(static_cast<int64_t*>(b), static_cast<int64_t*>(b) + count, 5 * n),
                  static_cast<std::ptrdiff_t>(count));
    }
    for (const auto& e : runner.executors) EXPECT_EQ(e->fused(), 3u) << n;
    for (void* b : buffers) Arena::of_process()->release(b);
  }
}

TEST(Executor, OpensByLetterWithAndWithoutTheDataInIt) {
  const int n = 3;
  Runner runner(make_meshes(n, make_shm));
  std::mt19937 random(5);
  for (int k = 0; k < 60; ++k) {
    const size_t count = random() % 2000;
    const bool enclosed = k % 3 != 0;
    Memory memory(n, std::vector<int64_t>(count, k));
    std::vector<Schedule> schedules;
    std::vector<void*> buffers;
    for (int r = 0; r < n; ++r) {
      schedules.push_back(enclosed ? one_shot_all_reduce({r, n, 0}) : direct_for(r, n));
      buffers.push_back(memory[r].data());
    }
    ASSERT_TRUE(runner.run(schedules, sum_of(count), 1, buffers, random,
                           enclosed ? Opener::one_round : Opener::agreement));
    ASSERT_EQ(memory, Memory(n, std::vector<int64_t>(count, k * n))) << k;
  }
}

TEST(Executor, FindsADifferentCallBeforeAnyBufferIsWritten) {
  const int n = 2;
  auto meshes = loopback_meshes(n, LoopbackFaults{});
  std::vector<std::unique_ptr<Executor>> executors;
  for (auto& mesh : meshes) executors.push_back(std::make_unique<Executor>(*mesh));
  Memory memory{{1, 2, 3}, {4, 5, 6}};
  const Memory before = memory;
  std::vector<std::shared_ptr<const Plan>> plans;
  std::vector<std::vector<void*>> buffers{{memory[0].data()}, {memory[1].data()}};
  for (int r = 0; r < n; ++r) {
    Shape shape;
    shape.collective = Collective::all_reduce;
    shape.type = DataType::int64;
    shape.op = r ? ReduceOp::max : ReduceOp::sum;
    shape.count = 3;
    plans.push_back(make_plan(one_shot_all_reduce({r, n, 0}), shape, "one_shot", 1));
    executors[r]->start(
        {plans[r].get(), fingerprint_of(shape, "one_shot", 1, 5), buffers[r], {}, {}, false});
  }
  std::string text[2];
  for (int k = 0; k < 1000 && (text[0].empty() || text[1].empty()); ++k)
    for (int r = 0; r < n; ++r) {
      if (!text[r].empty()) continue;
      bool progressed = false;
      if (Status s = executors[r]->step(progressed); !s) text[r] = s.error().cause;
    }
  EXPECT_EQ(text[0],
            "rank 0 called all_reduce int64 x 3, sum (#5) while rank 1 called all_reduce int64 x "
            "3, max (#5)");
  EXPECT_EQ(text[1],
            "rank 1 called all_reduce int64 x 3, max (#5) while rank 0 called all_reduce int64 x "
            "3, sum (#5)");
  EXPECT_EQ(memory, before);
}

TEST(Plans, FoldWhatIsReceivedOnlyToBeAdded) {
  const Shape shape{Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, 100, {}};
  const auto folds = [&](const Schedule& schedule, Opener opener) {
    std::string text;
    const auto plan = make_plan(schedule, shape, "x", 1, opener);
    for (const BoundStep& step : plan->steps) text += step.folds ? '+' : '-';
    return text;
  };
  EXPECT_EQ(folds(exchange_all_reduce({0, 2, 0}), Opener::one_round), "-+-");
  EXPECT_EQ(folds(exchange_all_reduce({0, 2, 0}), Opener::agreement), "---");
  // Read twice, or not by the next step: it must be kept.
  EXPECT_EQ(folds(parse_schedule("schedule rank 0 of 2 chunks 1 scratch 0 0\n"
                                 "send 1 [0]\nrecv 1 [1]\nreduce [0] <- [1]\ncopy [2] <- [1]\n"),
                  Opener::one_round),
            "----");
}

TEST(Pieces, CoverEverythingOnceInWholeCacheLinesWhereTheyCan) {
  for (size_t count : {0, 1, 5, 63, 64, 1000, 4099})
    for (int parts : {1, 2, 3, 7, 64})
      for (size_t unit : {1, 8, 16}) {
        size_t next = 0;
        for (int i = 0; i < parts; ++i) {
          const Piece p = piece(count, parts, i, unit);
          ASSERT_EQ(p.first, next);
          if (count >= unit * parts * 4) {
            ASSERT_EQ(p.first % unit, 0u);
          }
          next += p.count;
        }
        ASSERT_EQ(next, count);
      }
}

}  // namespace
}  // namespace ringwood::testing
