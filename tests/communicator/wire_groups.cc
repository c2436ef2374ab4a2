// Wire formats as a user meets them: a tolerance, ranks on several hosts over TCP, and what stays
// exact.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <mutex>

#include "collectives/kernels/wire.h"
#include "tests/support/ranks.h"

namespace ringwood::testing {
namespace {

Options apart(int rank, double tolerance) {
  Options o = options_for("tcp", rank);
  o.host_id = fmt::format("host-{}", rank);
  o.tolerance = tolerance;
  o.calibration = "off";
  return o;
}

float number(int rank, size_t i) { return std::sin(static_cast<float>(rank * 7919 + i)) * 3; }

std::vector<float> numbers(int rank, size_t count) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = number(rank, i);
  return x;
}

double sum_at(int n, size_t i) {
  double sum = 0;
  for (int r = 0; r < n; ++r) sum += number(r, i);
  return sum;
}

// The results of all ranks, to be compared.
class Results {
 public:
  void add(const std::vector<float>& x) {
    std::lock_guard lock(mutex_);
    if (first_.empty()) first_ = x;
    ASSERT_EQ(first_.size(), x.size());
    const size_t bytes = x.size() * sizeof(float);
    EXPECT_TRUE(bytes == 0 || std::memcmp(first_.data(), x.data(), bytes) == 0);
  }

 private:
  std::mutex mutex_;
  std::vector<float> first_;
};

struct ToleranceCase {
  double tolerance;
  int n;
  const char* wire;
};
class Tolerance : public ::testing::TestWithParam<ToleranceCase> {};
INSTANTIATE_TEST_SUITE_P(
    All, Tolerance,
    ::testing::Values(ToleranceCase{0, 2, "float32"}, ToleranceCase{0.003, 2, "float32"},
                      ToleranceCase{0.004, 2, "bf16"}, ToleranceCase{0.016, 2, "int8"},
                      ToleranceCase{0.003, 4, "float32"}, ToleranceCase{0.008, 3, "bf16"},
                      ToleranceCase{0.032, 3, "int8"}, ToleranceCase{0.032, 4, "int8"}));

TEST_P(Tolerance, IsKeptOverTcp) {
  const auto& p = GetParam();
  for (const size_t count : {size_t{16384}, (size_t{1} << 18) + 1}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
      Results results;
      run_ranks(
          p.n, [&](int rank) { return apart(rank, p.tolerance); },
          [&](Communicator& c) {
            const auto choice = c.choice(Collective::all_reduce, 4 * count, DataType::float32, op);
            EXPECT_EQ(choice.wire, p.wire) << choice.algorithm;
            std::vector<float> x = numbers(c.rank(), count);
            must(c.all_reduce(x.data(), count, DataType::float32, op));
            results.add(x);
            // Every number is at most 3, and fp32 rounds, too.
            const double allowed = (p.tolerance + 1e-6) * 3 * p.n;
            for (size_t i = 0; i < count; ++i) {
              const double got = op == ReduceOp::avg ? x[i] * p.n : x[i];
              ASSERT_NEAR(got, sum_at(p.n, i), allowed) << i;
            }
          });
    }
  }
}

TEST(Tolerance, OfTheOtherReductionsAndOfACall) {
  const int n = 3;
  const size_t count = 30000;
  run_ranks(
      n, [&](int rank) { return apart(rank, 0); },
      [&](Communicator& c) {
        CallOptions call;
        call.tolerance = 0.05;
        const double allowed = 0.05 * 3 * n;
        std::vector<float> x = numbers(c.rank(), n * count), block(count);
        const std::vector<float> in = x;
        bool rounded = false;
        const auto check = [&](const float* got, size_t first) {
          for (size_t i = 0; i < count; ++i) {
            ASSERT_NEAR(got[i], sum_at(n, first + i), allowed);
            rounded = rounded || std::fabs(got[i] - sum_at(n, first + i)) > 1e-4;
          }
        };
        must(c.reduce_scatter(x.data(), block.data(), count, DataType::float32, ReduceOp::sum,
                              call));
        check(block.data(), c.rank() * count);
        EXPECT_TRUE(rounded);
        EXPECT_EQ(x, in);
        rounded = false;
        must(c.reduce(x.data(), count, DataType::float32, ReduceOp::sum, 1, call));
        if (c.rank() == 1) {
          check(x.data(), 0);
          EXPECT_TRUE(rounded);
        } else {
          EXPECT_EQ(x, in);
        }
        call.tolerance = 1;
        EXPECT_THROW(c.all_reduce(x.data(), 1, DataType::float32, ReduceOp::sum, call), Error);
        call.tolerance = std::nan("");
        EXPECT_THROW(c.all_reduce(x.data(), 1, DataType::float32, ReduceOp::sum, call), Error);
      });
}

// Two hosts of two: over shared memory nothing is rounded.
TEST(Tolerance, HostsOfSeveralRanks) {
  Results results;
  const size_t count = 100000;
  run_ranks(
      4,
      [&](int rank) {
        Options o = options_for("mixed", rank);
        o.tolerance = 0.016;
        o.calibration = "off";
        return o;
      },
      [&](Communicator& c) {
        for (const char* name : {"hierarchical", "hierarchical_leaders"}) {
          CallOptions call;
          call.algorithm = name;
          std::vector<float> x = numbers(c.rank(), count);
          must(c.all_reduce(x.data(), count, DataType::float32, ReduceOp::sum, call));
          double most = 0;
          for (size_t i = 0; i < count; ++i) most = std::max(most, std::fabs(x[i] - sum_at(4, i)));
          EXPECT_LE(most, 0.016 * 3 * 4) << name;
          EXPECT_GT(most, 1e-4) << name;
          if (std::string(name) == "hierarchical") results.add(x);
        }
      });
}

TEST(Tolerance, WhatStaysExact) {
  const size_t count = 50000;
  run_ranks(
      2,
      [&](int rank) {
        Options o = apart(rank, 0.05);
        o.reproducible = true;  // a permission does not weigh against a demand
        return o;
      },
      [&](Communicator& c) {
        std::vector<float> x = numbers(c.rank(), count);
        must(c.all_reduce(x.data(), count, DataType::float32, ReduceOp::sum));
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(x[i], number(0, i) + number(1, i));
      });
  run_ranks(
      2, [&](int rank) { return apart(rank, 0.05); },
      [&](Communicator& c) {
        std::vector<float> x = numbers(c.rank(), count);
        must(c.all_reduce(x.data(), count, DataType::float32, ReduceOp::max));
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(x[i], std::max(number(0, i), number(1, i)));
        x = numbers(c.rank(), count);
        must(c.broadcast(x.data(), count, DataType::float32, 1));
        EXPECT_EQ(x, numbers(1, count));
        std::vector<double> y(count, 1.0 / (3 + c.rank()));
        must(c.all_reduce(y.data(), count, DataType::float64, ReduceOp::sum));
        for (const double v : y) ASSERT_EQ(v, 1.0 / 3 + 1.0 / 4);
        x = numbers(c.rank(), 1000);  // small: latency is all
        must(c.all_reduce(x.data(), 1000, DataType::float32, ReduceOp::sum));
        for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(x[i], number(0, i) + number(1, i));
      });
}

TEST(Tolerance, OfRanksThatDiffer) {
  run_ranks(
      2, [&](int rank) { return apart(rank, rank == 0 ? 0.004 : 0.016); },
      [&](Communicator& c) {
        std::vector<float> x = numbers(c.rank(), 1 << 18);
        const std::vector<float> before = x;
        Status s = c.all_reduce(x.data(), x.size(), DataType::float32, ReduceOp::sum)->wait();
        ASSERT_FALSE(s.ok());
        EXPECT_EQ(s.error().code, ErrorCode::mismatch);
        const std::string text = s.error().message();
        for (const char* part : {"as bf16", "as int8", "RINGWOOD_TOLERANCE"})
          EXPECT_NE(text.find(part), std::string::npos) << text;
        EXPECT_EQ(x, before);
      });
}

}  // namespace
}  // namespace ringwood::testing
