// Collectives over copies of the caller's memory (CallOptions::copied): in the order of their calls
// with all that touches the same memory.
#include <atomic>
#include <latch>
#include <random>

#include <gtest/gtest.h>

#include "collectives/operations/copied_memory.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

using Words = std::vector<int64_t>;

class Copied : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(Transports, Copied, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

// Every `stride`-th word from `first`, `count` of them.
struct Places {
  size_t first, count, stride;
};

// Words of the caller's by way of a buffer of their own, as the options of a call over it.
CallOptions through(Words& buffer, int64_t* memory, const Places& at, CallOptions call = {}) {
  buffer.resize(at.count);
  auto copied = std::make_shared<CopiedMemory>();
  int64_t* const from = memory + at.first;
  const CopiedMemory::Range range{from, ((at.count - 1) * at.stride + 1) * sizeof(int64_t)};
  copied->read = copied->written = {range};
  copied->fill = [&buffer, from, at] {
    for (size_t i = 0; i < at.count; ++i) buffer[i] = from[i * at.stride];
  };
  copied->finish = [&buffer, from, at] {
    for (size_t i = 0; i < at.count; ++i) from[i * at.stride] = buffer[i];
  };
  call.copied = std::move(copied);
  return call;
}

OperationPtr sum(Communicator& c, Words& buffer, const CallOptions& call) {
  return c.all_reduce(buffer.data(), buffer.size(), DataType::int64, ReduceOp::sum, call);
}

// A call of all ranks, over words that may lie elsewhere on each.
struct Step {
  int kind = 0;  // 0: sum, 1: broadcast, 2: sum at the root only
  int root = 0;
  bool packed = false;  // with another of its size, in a group
  std::vector<Places> at;
  std::vector<bool> copied;  // by rank
};

std::vector<Step> random_steps(std::mt19937& random, int n, int steps, size_t words) {
  const auto upto = [&](size_t most) { return random() % (most + 1); };
  std::vector<Step> all(steps);
  for (Step& step : all) {
    step.kind = static_cast<int>(upto(2));
    step.root = static_cast<int>(upto(n - 1));
    step.packed = upto(3) == 0;
    const size_t count = upto(3) == 0 ? 1 + upto(3) : 1 + upto(words / 4 - 1);
    for (int r = 0; r < n; ++r) {
      const bool copied = upto(1) == 0;
      const size_t stride = copied ? 1 + upto(1) : 1, span = (count - 1) * stride + 1;
      step.at.push_back({upto(words - span), count, stride});
      step.copied.push_back(copied);
    }
  }
  return all;
}

void apply(const Step& step, std::vector<Words>& memory) {
  const auto word = [&](size_t rank, size_t i) -> int64_t& {
    const Places& at = step.at[rank];
    return memory[rank][at.first + i * at.stride];
  };
  for (size_t i = 0; i < step.at[0].count; ++i) {
    int64_t result = step.kind == 1 ? word(step.root, i) : 0;
    for (size_t r = 0; r < memory.size() && step.kind != 1; ++r) result += word(r, i);
    for (size_t r = 0; r < memory.size(); ++r)
      if (step.kind != 2 || static_cast<int>(r) == step.root) word(r, i) = result;
  }
}

OperationPtr call(Communicator& c, const Step& step, Words& memory, Words& buffer) {
  const Places& at = step.at[c.rank()];
  CallOptions how;
  int64_t* data = memory.data() + at.first;
  if (step.copied[c.rank()]) {
    how = through(buffer, memory.data(), at);
    // Only the root's words change.
    if (step.kind == 2 && step.root != c.rank()) {
      auto reading = std::make_shared<CopiedMemory>(*how.copied);
      reading->written.clear();
      reading->finish = nullptr;
      how.copied = reading;
    }
    data = buffer.data();
  }
  switch (step.kind) {
    case 1: return c.broadcast(data, at.count, DataType::int64, step.root, how);
    case 2: return c.reduce(data, at.count, DataType::int64, ReduceOp::sum, step.root, how);
    default: return c.all_reduce(data, at.count, DataType::int64, ReduceOp::sum, how);
  }
}

void expect_as_one_by_one(const std::string& transports, uint32_t seed, int in_flight) {
  constexpr int n = 3, kSteps = 60;
  constexpr size_t kWords = 600;
  std::mt19937 random(seed);
  const std::vector<Step> steps = random_steps(random, n, kSteps, kWords);
  std::vector<Words> before(n, Words(kWords)), want;
  for (Words& words : before)
    for (int64_t& word : words) word = static_cast<int64_t>(random() % 1000);
  want = before;
  for (const Step& step : steps) apply(step, want);
  const auto options = [&](int rank) {
    Options o = options_for(transports, rank);
    o.in_flight = in_flight;
    return o;
  };
  run_ranks(n, options, [&](Communicator& c) {
    Words memory = before[c.rank()];
    std::vector<Words> buffers(kSteps);
    std::vector<OperationPtr> ops;
    for (size_t i = 0; i < steps.size(); ++i) {
      std::optional<GroupOfCalls> group;
      if (steps[i].packed) group.emplace(c);
      ops.push_back(call(c, steps[i], memory, buffers[i]));
    }
    for (const auto& op : ops) must(op);
    EXPECT_EQ(memory == want[c.rank()], true) << "rank " << c.rank() << ", seed " << seed;
  });
}

TEST_P(Copied, CallsTakeEffectInOrder) {
  for (uint32_t seed = 0; seed < 12; ++seed)
    expect_as_one_by_one(GetParam(), seed, 1 + static_cast<int>(seed % 4));
}

// Small calls that are carried out as one, each by way of copies or not, as a rank likes.
TEST_P(Copied, PacksAreOfEveryKind) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    Words memory{1, 2, 3, 4, 5, 6}, a, b;
    std::vector<OperationPtr> ops;
    {
      GroupOfCalls group(c);
      if (c.rank() == 0) {
        ops.push_back(sum(c, a, through(a, memory.data(), {0, 2, 2})));
        ops.push_back(c.all_reduce(&memory[1], 1, DataType::int64, ReduceOp::sum));
      } else {
        ops.push_back(c.all_reduce(&memory[0], 2, DataType::int64, ReduceOp::sum));
        ops.push_back(sum(c, b, through(b, memory.data(), {4, 1, 1})));
      }
    }
    for (const auto& op : ops) must(op);
    EXPECT_EQ(ops[0]->sequence(), ops[1]->sequence());
    EXPECT_EQ(memory, c.rank() == 0 ? (Words{2, 7, 5, 4, 5, 6}) : (Words{2, 5, 3, 4, 7, 6}));
  });
}

TEST_P(Copied, SynchronousAndPersistentOnesToo) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    Words memory{1, 0, 1}, buffer;
    const CallOptions now = through(buffer, memory.data(), {0, 2, 2}, {.synchronous = true});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(sum(c, buffer, now)->done());
    EXPECT_EQ(memory, (Words{8, 0, 8}));
    const CallOptions kept = through(buffer, memory.data(), {0, 2, 2}, {.persistent = true});
    const auto op = sum(c, buffer, kept);
    for (int i = 0; i < 2; ++i) {
      must(op->start());
      must(op);
    }
    EXPECT_EQ(memory, (Words{32, 0, 32}));
  });
}

// A copy that fails is the group's error.
TEST_P(Copied, OneThatThrowsEndsTheGroup) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    Words memory{1, 1}, buffer;
    CallOptions how = through(buffer, memory.data(), {0, 2, 1});
    auto throwing = std::make_shared<CopiedMemory>(*how.copied);
    if (c.rank() == 1) throwing->fill = [] { throw std::runtime_error("no copy today"); };
    how.copied = throwing;
    const Status s = sum(c, buffer, how)->wait();
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().message().find("no copy today"), std::string::npos) << s.error().message();
    EXPECT_EQ(memory, (Words{1, 1}));
  });
}

}  // namespace
}  // namespace ringwood::testing
