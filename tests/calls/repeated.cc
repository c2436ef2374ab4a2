// Synchronous calls again and again: what is like a recent call is known from its arguments alone,
// and must be as right, and as wrong, as the first.
#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>

#include "collectives/operations/copied_memory.h"
#include "tests/support/allocations.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

constexpr size_t kCount = 3;
constexpr auto kType = DataType::int32;
using Numbers = std::vector<int32_t>;

class Repeated : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(Transports, Repeated, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

CallOptions at_once() {
  CallOptions call;
  call.synchronous = true;
  return call;
}

// `blocks` of kCount numbers, which no other rank has in this round, nor this one in another.
Numbers numbers(int rank, int round, int blocks) {
  Numbers all(kCount * static_cast<size_t>(blocks));
  std::iota(all.begin(), all.end(), 1000 * round + 100 * rank);
  return all;
}
int32_t number(int rank, int round, size_t i) { return numbers(rank, round, 8)[i]; }
int32_t sum(int n, int round, size_t i) {
  int32_t all = 0;
  for (int r = 0; r < n; ++r) all += number(r, round, i);
  return all;
}

// Each does one call in buffers of its own and says whether what came is right.
using Call = std::function<bool(Communicator&, int round)>;

bool all_reduces(Communicator& c, int round) {
  Numbers x = numbers(c.rank(), round, 1);
  must(c.all_reduce(x.data(), kCount, kType, ReduceOp::sum, at_once()));
  for (size_t i = 0; i < kCount; ++i)
    if (x[i] != sum(c.size(), round, i)) return false;
  return true;
}

bool reduces_to(Communicator& c, int round, int root) {
  Numbers x = numbers(c.rank(), round, 1);
  must(c.reduce(x.data(), kCount, kType, ReduceOp::sum, root, at_once()));
  if (c.rank() != root) return x == numbers(c.rank(), round, 1);
  for (size_t i = 0; i < kCount; ++i)
    if (x[i] != sum(c.size(), round, i)) return false;
  return true;
}

bool broadcasts(Communicator& c, int round, int root) {
  Numbers x = numbers(c.rank(), round, 1);
  must(c.broadcast(x.data(), kCount, kType, root, at_once()));
  return x == numbers(root, round, 1);
}

bool all_gathers(Communicator& c, int round, bool in_place) {
  const auto own = static_cast<ptrdiff_t>(kCount) * c.rank();
  const Numbers mine = numbers(c.rank(), round, 1);
  Numbers out(kCount * static_cast<size_t>(c.size()));
  if (in_place) std::ranges::copy(mine, out.begin() + own);
  must(c.all_gather(in_place ? out.data() + own : mine.data(), out.data(), kCount, kType,
                    at_once()));
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i] != number(static_cast<int>(i / kCount), round, i % kCount)) return false;
  return mine == numbers(c.rank(), round, 1);
}

bool reduce_scatters(Communicator& c, int round, bool in_place) {
  const size_t own = kCount * static_cast<size_t>(c.rank());
  Numbers in = numbers(c.rank(), round, c.size()), apart(kCount);
  int32_t* const out = in_place ? in.data() + own : apart.data();
  must(c.reduce_scatter(in.data(), out, kCount, kType, ReduceOp::sum, at_once()));
  for (size_t i = 0; i < kCount; ++i)
    if (out[i] != sum(c.size(), round, own + i)) return false;
  return in_place || in == numbers(c.rank(), round, c.size());
}

bool exchanges(Communicator& c, int round) {
  const Numbers in = numbers(c.rank(), round, c.size());
  Numbers out(in.size());
  must(c.all_to_all(in.data(), out.data(), kCount, kType, at_once()));
  const size_t mine = kCount * static_cast<size_t>(c.rank());
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i] != number(static_cast<int>(i / kCount), round, mine + i % kCount)) return false;
  return in == numbers(c.rank(), round, c.size());
}

bool meets(Communicator& c, int) {
  must(c.barrier(at_once()));
  return true;
}

struct NamedCall {
  const char* name;
  Call run;
};
const NamedCall kCalls[] = {
    {"all_reduce", all_reduces},
    {"reduce to 0", [](auto& c, int round) { return reduces_to(c, round, 0); }},
    {"reduce to the last", [](auto& c, int round) { return reduces_to(c, round, c.size() - 1); }},
    {"broadcast from 0", [](auto& c, int round) { return broadcasts(c, round, 0); }},
    {"broadcast from the last",
     [](auto& c, int round) { return broadcasts(c, round, c.size() - 1); }},
    {"all_gather", [](auto& c, int round) { return all_gathers(c, round, false); }},
    {"all_gather in place", [](auto& c, int round) { return all_gathers(c, round, true); }},
    {"reduce_scatter", [](auto& c, int round) { return reduce_scatters(c, round, false); }},
    {"reduce_scatter in place", [](auto& c, int round) { return reduce_scatters(c, round, true); }},
    {"all_to_all", exchanges},
    {"barrier", meets},
};

// Every two of them in turns, so that each is known when it comes again.
TEST_P(Repeated, CallsAreRightInAnyOrder) {
  for (const int n : {1, 2, 3})
    run_ranks(n, GetParam(), [](Communicator& c) {
      int round = 0;
      for (const NamedCall& one : kCalls)
        for (const NamedCall& other : kCalls)
          for (int i = 0; i < 2; ++i)
            for (const NamedCall* call : {&one, &other})
              if (!call->run(c, ++round)) throw std::runtime_error(call->name);
    });
}

// The same call but for one thing, which is wrong, or means something else.
TEST_P(Repeated, MistakesAreRefusedAndNothingElseIsTheSame) {
  run_ranks(2, GetParam(), [](Communicator& c) {
    for (int round = 1; round <= 3; ++round)
      for (const NamedCall& call : kCalls)
        if (!call.run(c, round)) throw std::runtime_error(call.name);
    Numbers x(4 * kCount);
    const auto refused = [](const char* what, const std::function<OperationPtr()>& call) {
      try {
        (void)call();
        ADD_FAILURE() << "accepted: " << what;
      } catch (const Error& error) {
        EXPECT_EQ(error.code, ErrorCode::invalid_argument) << error.message();
      }
    };
    int32_t *const a = x.data(), *const b = a + 2 * kCount;
    const CallOptions call = at_once();
    for (int i = 0; i < 2; ++i) {
      all_reduces(c, 1);
      refused("null", [&] { return c.all_reduce(nullptr, kCount, kType, ReduceOp::sum, call); });
      refused("root", [&] { return c.broadcast(a, kCount, kType, 2, call); });
      all_gathers(c, 1, false);
      refused("null", [&] { return c.all_gather(nullptr, b, kCount, kType, call); });
      refused("overlap", [&] { return c.all_gather(b + kCount / 2, b, kCount, kType, call); });
      reduce_scatters(c, 1, false);
      refused("overlap",
              [&] { return c.reduce_scatter(a, a + 1, kCount, kType, ReduceOp::sum, call); });
      exchanges(c, 1);
      refused("overlap", [&] { return c.all_to_all(a, a, kCount, kType, call); });
    }
    CallOptions scaled = at_once();
    float y[2] = {1, 2};
    must(c.all_reduce(y, 2, DataType::float32, ReduceOp::premul_sum, scaled));
    scaled.factor = 0.5;
    must(c.all_reduce(y, 2, DataType::float32, ReduceOp::premul_sum, scaled));
    if (y[0] != 2 || y[1] != 4) throw std::runtime_error("another factor");
    must(c.all_reduce(y, 2, DataType::float32, ReduceOp::max, at_once()));
    if (y[0] != 2 || y[1] != 4) throw std::runtime_error("another op");
  });
}

// A handle that is kept stays that of its own call.
TEST_P(Repeated, HandlesMayBeKept) {
  run_ranks(2, GetParam(), [](Communicator& c) {
    std::vector<OperationPtr> kept;
    int32_t x = 1;
    for (int i = 0; i < 6; ++i) {
      kept.push_back(c.all_reduce(&x, 1, kType, ReduceOp::sum, at_once()));
      must(c.all_reduce(&x, 1, kType, ReduceOp::max, at_once()));
    }
    if (x != 64) throw std::runtime_error("a wrong sum");
    for (size_t i = 1; i < kept.size(); ++i)
      if (kept[i]->sequence() != kept[i - 1]->sequence() + 2)
        throw std::runtime_error("a handle of another call");
  });
}

// What a call needed is free at its end, whether its handle is kept or not.
TEST_P(Repeated, CallsKeepNoMemory) {
  run_ranks(2, GetParam(), [](Communicator& c) {
    std::vector<std::weak_ptr<const CopiedMemory>> memory;
    std::vector<OperationPtr> kept;
    const auto through_copies = [&](int32_t* data, size_t count) {
      auto copied = std::make_shared<CopiedMemory>();
      copied->read = copied->written = {{data, count * sizeof *data}};
      copied->fill = copied->finish = [] {};
      CallOptions call = at_once();
      call.copied = copied;
      memory.push_back(copied);
      return c.all_reduce(data, count, kType, ReduceOp::sum, call);
    };
    Numbers x(8);
    for (size_t i = 0; i < 6; ++i) {
      must(through_copies(x.data(), 1 + i % 5));
      kept.push_back(through_copies(x.data(), 8));
    }
    for (const OperationPtr& handle : kept) must(handle);
    for (const auto& one : memory) EXPECT_TRUE(one.expired());
  });
}

size_t bytes_in_use() {
  const struct mallinfo2 now = ::mallinfo2();
  return now.uordblks + now.hblkhd;
}

TEST_P(Repeated, CallsFreeTheirScaledCopies) {
  if (kSlower > 1) GTEST_SKIP() << "a sanitizer has its own allocation, which is not counted";
  constexpr size_t kMax = 1 << 20;
  run_ranks(2, GetParam(), [](Communicator& c) {
    std::vector<float> in(2 * kMax), out(kMax);
    CallOptions call = at_once();
    call.factor = 0.5;
    const auto run = [&](ReduceOp op) {
      for (size_t i = 0; i < 6; ++i)
        must(c.reduce_scatter(in.data(), out.data(), kMax - 64 * i, DataType::float32, op, call));
      must(c.barrier(at_once()));
    };
    run(ReduceOp::sum);
    const size_t before = bytes_in_use();
    must(c.barrier(at_once()));
    run(ReduceOp::premul_sum);
    EXPECT_LT(bytes_in_use(), before + 8 * kMax) << "as much as one call needs on one rank";
    must(c.barrier(at_once()));
  });
}

// A call for which there is no memory leaves the way open for those after it.
TEST_P(Repeated, CallsAskForNoMemoryAfterOneThatFoundNone) {
  if (kSlower > 1) GTEST_SKIP() << "a sanitizer has its own allocation, which is not counted";
  run_ranks(2, GetParam(), [](Communicator& c) {
    constexpr size_t kMany = 1 << 20;
    std::vector<double> in(2 * kMany), out(kMany);
    const CallOptions call = at_once();
    const auto run = [&](size_t count, ReduceOp op) {
      return c.reduce_scatter(in.data(), out.data(), count, DataType::float64, op, call);
    };
    const auto some = [&] {
      for (int i = 0; i < 100; ++i) must(run(2, ReduceOp::sum));
    };
    some();
    refuse_allocations_from(sizeof(double) * kMany);
    EXPECT_THROW((void)run(kMany, ReduceOp::premul_sum), std::bad_alloc);
    refuse_allocations_from(0);
    some();
    const size_t before = allocations();
    some();
    EXPECT_LT(allocations() - before, 10u);
  });
}

TEST_P(Repeated, CallsAskForNoMemory) {
  if (kSlower > 1) GTEST_SKIP() << "a sanitizer has its own allocation, which is not counted";
  run_ranks(2, GetParam(), [](Communicator& c) {
    int32_t in[4] = {}, out[4] = {};
    const CallOptions call = at_once();
    const auto run = [&] {
      must(c.all_reduce(in, 2, kType, ReduceOp::sum, call));
      must(c.all_gather(in, out, 2, kType, call));
      must(c.reduce_scatter(in, out, 2, kType, ReduceOp::sum, call));
      must(c.broadcast(out, 2, kType, 1, call));
    };
    for (int i = 0; i < 100; ++i) run();
    const size_t before = allocations();
    for (int i = 0; i < 100; ++i) run();
    EXPECT_LT(allocations() - before, 10u);
  });
}

}  // namespace
}  // namespace ringwood::testing
