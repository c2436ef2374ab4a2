// Calls over memory whose elements lie in another order than that of their indices
// (CopiedMemory::order): no copy is made where all ranks' elements lie alike, and the results are
// right where they do not.
#include <atomic>
#include <memory>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/operations/copied_memory.h"
#include "tests/executors/layouts.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

class StorageOrdersOn : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(Transports, StorageOrdersOn, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

// More than travels with the fingerprints, and less.
constexpr size_t kLarge = 12'000, kSmall = 60;

using Numbers = std::vector<double>;

// The numbers of one rank, in a layout, and the copy that a call of them is given.
struct Tensor {
  const Layout layout;
  Numbers own, copy;
  double* const memory;
  int fills = 0, finishes = 0;

  explicit Tensor(const Layout& its, double* at = nullptr)
      : layout(its), own(at ? 0 : its.count()), copy(its.count()), memory(at ? at : own.data()) {}
  double& at(size_t i) { return memory[layout.place(i)]; }
  void set(int rank) {
    for (size_t i = 0; i < copy.size(); ++i) at(i) = rank + static_cast<double>(i % 97);
  }
  bool plain() const { return layout.order() == 0; }
  double* data() { return plain() ? memory : copy.data(); }
  CallOptions through(CallOptions call = {}) {
    if (plain()) return call;
    auto copied = std::make_shared<CopiedMemory>();
    copied->read = copied->written = {{memory, copy.size() * sizeof(double)}};
    copied->fill = [this] {
      ++fills;
      for (size_t i = 0; i < copy.size(); ++i) copy[i] = at(i);
    };
    copied->finish = [this] {
      ++finishes;
      for (size_t i = 0; i < copy.size(); ++i) at(i) = copy[i];
    };
    copied->order = layout.order();
    copied->memory = memory;
    call.copied = std::move(copied);
    return call;
  }
};

enum class Kind { sum, average, multiplied, broadcast, reduced, multiplied_at_root };
constexpr Kind kKinds[] = {Kind::sum,       Kind::average, Kind::multiplied,
                           Kind::broadcast, Kind::reduced, Kind::multiplied_at_root};

OperationPtr call(Communicator& c, Kind kind, Tensor& x, CallOptions how = {}) {
  constexpr DataType type = DataType::float64;
  const int root = c.size() - 1;
  how = x.through(how);
  const auto sum_by = [&](ReduceOp op) {
    return c.all_reduce(x.data(), x.copy.size(), type, op, how);
  };
  const auto sum_at_root = [&](ReduceOp op) {
    return c.reduce(x.data(), x.copy.size(), type, op, root, how);
  };
  how.factor = 1 << c.rank();
  switch (kind) {
    case Kind::average: return sum_by(ReduceOp::avg);
    case Kind::multiplied: return sum_by(ReduceOp::premul_sum);
    case Kind::broadcast: return c.broadcast(x.data(), x.copy.size(), type, root, how);
    case Kind::reduced: return sum_at_root(ReduceOp::sum);
    case Kind::multiplied_at_root: return sum_at_root(ReduceOp::premul_sum);
    default: return sum_by(ReduceOp::sum);
  }
}

// After a call of numbers as set() makes them.
double result(Kind kind, int rank, int n, size_t i) {
  const auto number = [&](int r) { return r + static_cast<double>(i % 97); };
  const bool multiplies = kind == Kind::multiplied || kind == Kind::multiplied_at_root;
  double sum = 0;
  for (int r = 0; r < n; ++r) sum += (multiplies ? 1 << r : 1) * number(r);
  switch (kind) {
    case Kind::average: return sum / n;
    case Kind::broadcast: return number(n - 1);
    case Kind::reduced:
    case Kind::multiplied_at_root: return rank == n - 1 ? sum : number(rank);
    default: return sum;
  }
}

// `which`: of each rank, one of layouts_of().
void expect_right(Communicator& c, Kind kind, const std::vector<size_t>& which, size_t count,
                  const CallOptions& how = {}) {
  const auto mine = which[static_cast<size_t>(c.rank())];
  const std::string what =
      fmt::format("kind {}, rank {} of {}, {} numbers, layouts {}", static_cast<int>(kind),
                  c.rank(), c.size(), count, fmt::join(which, " "));
  Tensor x(layouts_of(count)[mine]);
  x.set(c.rank());
  must(call(c, kind, x, how));
  for (size_t i = 0; i < count; ++i)
    ASSERT_DOUBLE_EQ(x.at(i), result(kind, c.rank(), c.size(), i)) << what << " at " << i;
  if (count != kLarge) return;
  // A rank that multiplies, and is not the root, does so in a copy of its own.
  const bool alike = std::ranges::count(which, mine) == std::ssize(which) &&
                     (kind != Kind::multiplied_at_root || c.size() == 1);
  EXPECT_EQ(x.fills, alike || x.plain() ? 0 : 1) << what;
  EXPECT_EQ(x.finishes, x.fills) << what;
}

TEST_P(StorageOrdersOn, OneOfAllRanksNeedsNoCopy) {
  for (const int n : {1, 2, 3, 4})
    run_ranks(n, GetParam(), [&](Communicator& c) {
      for (const Kind kind : kKinds)
        for (const size_t count : {kSmall, kLarge})
          for (const size_t layout : {1, 2}) {
            const std::vector<size_t> alike(static_cast<size_t>(n), layout);
            expect_right(c, kind, alike, count);
            expect_right(c, kind, alike, count, {.synchronous = true});
          }
    });
}

TEST_P(StorageOrdersOn, DifferentOnesAreRight) {
  for (const int n : {2, 3, 4})
    run_ranks(n, GetParam(), [&](Communicator& c) {
      for (const Kind kind : kKinds)
        for (const size_t count : {kSmall, kLarge})
          for (int odd = 0; odd < n; ++odd)
            for (const auto& [usual, other] : {std::pair{0, 1}, {1, 0}, {1, 2}}) {
              std::vector<size_t> which(static_cast<size_t>(n), static_cast<size_t>(usual));
              which[static_cast<size_t>(odd)] = static_cast<size_t>(other);
              expect_right(c, kind, which, count, {.synchronous = odd % 2 == 0});
            }
    });
}

// Of those of several hosts the leaders tell one another, and then the others.
TEST(StorageOrders, AreFoundOutOnHosts) {
  const std::string hosts = "aaabbc";
  const auto n = static_cast<int>(hosts.size());
  const auto options = [&](int rank) {
    Options o = unhurried_for("mixed", rank);
    o.host_id = hosts[static_cast<size_t>(rank)];
    return o;
  };
  run_ranks(n, options, [&](Communicator& c) {
    for (const Kind kind : kKinds)
      for (int odd = -1; odd < n; ++odd) {
        std::vector<size_t> which(static_cast<size_t>(n), 1);
        if (odd >= 0) which[static_cast<size_t>(odd)] = odd % 2 ? 0 : 2;
        expect_right(c, kind, which, kLarge);
      }
  });
}

// Each start begins with the memory itself, wherever the one before has ended.
TEST_P(StorageOrdersOn, PersistentOnesToo) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    for (const Kind kind : {Kind::sum, Kind::multiplied})
      for (const bool alike : {true, false}) {
        Tensor x(layouts_of(kLarge)[c.rank() == 1 && !alike ? 2 : 1]);
        const auto op = call(c, kind, x, {.persistent = true});
        for (int start = 1; start <= 3; ++start) {
          x.set(c.rank());
          must(op->start());
          must(op);
          for (size_t i = 0; i < kLarge; ++i)
            ASSERT_DOUBLE_EQ(x.at(i), result(kind, c.rank(), 2, i)) << "start " << start;
          EXPECT_EQ(x.fills, alike ? 0 : start);
          EXPECT_EQ(x.finishes, x.fills);
        }
      }
  });
}

// A pack's numbers lie in the order of their indices.
TEST_P(StorageOrdersOn, PacksAreOfCopies) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    for (const Kind kind : {Kind::sum, Kind::broadcast, Kind::reduced}) {
      Tensor a(layouts_of(kSmall)[1]), b(layouts_of(kSmall)[c.rank() == 0 ? 0 : 2]);
      a.set(c.rank());
      b.set(c.rank());
      std::vector<OperationPtr> ops;
      {
        GroupOfCalls group(c);
        ops.push_back(call(c, kind, a));
        ops.push_back(call(c, kind, b));
      }
      for (const auto& op : ops) must(op);
      EXPECT_EQ(ops[0]->sequence(), ops[1]->sequence());
      for (size_t i = 0; i < kSmall; ++i)
        for (Tensor* x : {&a, &b}) ASSERT_EQ(x->at(i), result(kind, c.rank(), 2, i));
    }
  });
}

// One call after another over the same memory, of which each rank has some in flight.
TEST_P(StorageOrdersOn, CallsTakeEffectInOrder) {
  run_ranks(3, GetParam(), [&](Communicator& c) {
    const std::vector<Layout> layouts = layouts_of(kLarge);
    Numbers memory(kLarge, 1.0);
    std::vector<std::unique_ptr<Tensor>> views;
    std::vector<OperationPtr> ops;
    for (size_t k = 0; k < 6; ++k) {
      // The ranks' orders differ in every third call.
      Tensor& x = *views.emplace_back(
          std::make_unique<Tensor>(layouts[k % 3 == 2 && c.rank() == 1 ? 2 : 1], memory.data()));
      ops.push_back(call(c, Kind::sum, x));
    }
    for (const auto& op : ops) must(op);
    for (const double number : memory) ASSERT_EQ(number, 729.0);
  });
}

TEST_P(StorageOrdersOn, ADifferentCallIsStillFound) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    Tensor x(layouts_of(kLarge)[static_cast<size_t>(c.rank())]);
    x.set(c.rank());
    const Numbers before = x.own;
    const ReduceOp op = c.rank() == 0 ? ReduceOp::max : ReduceOp::sum;
    const auto odd = c.all_reduce(x.data(), kLarge, DataType::float64, op, x.through());
    const Status s = odd->wait();
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().message().find("12000, max"), std::string::npos) << s.error().message();
    EXPECT_EQ(x.own, before);
  });
}

}  // namespace
}  // namespace ringwood::testing
