// Names, the table of what is supported, averages and divisions, and the choice of instruction set.
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/kernels/reduce.h"

namespace ringwood {
namespace {

std::string cause_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    return error.cause;
  }
  return "nothing was thrown";
}

TEST(ReduceNames, PrintAndParse) {
  for (int i = 0; i < kDataTypes; ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_EQ(parse_data_type(to_string(type)), type) << to_string(type);
  }
  for (int i = 0; i < kReduceOps; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    EXPECT_EQ(parse_reduce_op(to_string(op)), op) << to_string(op);
  }
  EXPECT_EQ(parse_data_type("float"), DataType::float32);
  EXPECT_EQ(parse_data_type("half"), DataType::float16);
  EXPECT_EQ(parse_data_type("bf16"), DataType::bfloat16);
  EXPECT_EQ(parse_data_type("double"), DataType::float64);
  EXPECT_EQ(parse_data_type("f8e4m3"), DataType::float8_e4m3);
  EXPECT_EQ(parse_data_type("f8e5m2"), DataType::float8_e5m2);
  EXPECT_EQ(parse_reduce_op("prod"), ReduceOp::product);
  EXPECT_EQ(parse_reduce_op("mulsum"), ReduceOp::premul_sum);
  EXPECT_STREQ(to_string(DataType::float8_e4m3), "float8_e4m3");
  EXPECT_STREQ(to_string(ReduceOp::premul_sum), "premul_sum");
}

TEST(ReduceNames, ErrorsNameTheChoices) {
  EXPECT_EQ(cause_of([] { parse_data_type("float12"); }),
            "'float12' is not a data type; did you mean float32? Use one of float64, float32, "
            "float16, bfloat16, "
            "float8_e4m3, float8_e5m2, int8, int16, int32, int64, uint8, bool8, complex64, "
            "complex128, uint32");
  EXPECT_EQ(cause_of([] { parse_reduce_op("mean"); }),
            "'mean' is not a reduction; use one of sum, avg, min, max, product, band, bor, bxor, "
            "premul_sum");
  EXPECT_EQ(cause_of([] { parse_data_type(""); }).find("'' is not a data type"), 0u);
}

TEST(ReduceNames, SizesAndKinds) {
  constexpr size_t kBytes[] = {8, 4, 2, 2, 1, 1, 1, 2, 4, 8, 1, 1, 8, 16, 4};
  for (int i = 0; i < kDataTypes; ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_EQ(size_of(type), kBytes[i]) << to_string(type);
    EXPECT_EQ(is_float(type), i <= 5) << to_string(type);
  }
}

// One column per op: sum avg min max product band bor bxor premul_sum.
TEST(ReduceSupport, Table) {
  struct Row {
    DataType type;
    const char* supported;
  };
  constexpr Row kRows[] = {
      {DataType::float64, "111110001"},     {DataType::float32, "111110001"},
      {DataType::float16, "111110001"},     {DataType::bfloat16, "111110001"},
      {DataType::float8_e4m3, "111110001"}, {DataType::float8_e5m2, "111110001"},
      {DataType::int8, "111111110"},        {DataType::int16, "111111110"},
      {DataType::int32, "111111110"},       {DataType::int64, "111111110"},
      {DataType::uint8, "111111110"},       {DataType::bool8, "101111110"},
      {DataType::complex64, "110000001"},   {DataType::complex128, "110000001"},
      {DataType::uint32, "111111110"},
  };
  for (const Row& row : kRows) {
    for (int i = 0; i < kReduceOps; ++i) {
      const auto op = static_cast<ReduceOp>(i);
      EXPECT_EQ(supports(row.type, op), row.supported[i] == '1')
          << to_string(row.type) << " " << to_string(op);
      const bool small = is_float(row.type) && size_of(row.type) <= 2;
      const bool adds = op == ReduceOp::sum || op == ReduceOp::avg || op == ReduceOp::product ||
                        op == ReduceOp::premul_sum;
      EXPECT_EQ(accumulates_wide(row.type, op), small && adds)
          << to_string(row.type) << " " << to_string(op);
    }
  }
}

template <class T>
void expect_division(DataType type, int64_t divisor) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {0, 1, 2, 3, 7, 100, Limits::max(), Limits::min(), Limits::max() - 1};
  for (const int negative : {-1, -2, -7, -100}) values.push_back(static_cast<T>(negative));
  std::vector<T> divided = values;
  divide(divided.data(), divided.size(), type, divisor);
  for (size_t i = 0; i < values.size(); ++i) {
    const __int128 quotient = static_cast<__int128>(values[i]) / divisor;
    EXPECT_EQ(divided[i], static_cast<T>(quotient)) << +values[i] << " / " << divisor;
  }
}

TEST(ReduceDivide, IntegersTruncateTowardZero) {
  for (const int64_t divisor : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, int64_t{1000},
                                int64_t{1} << 31, int64_t{1} << 40, int64_t{-1}, int64_t{-3}}) {
    for (const TypeTraits& row : kTypeTraits)
      if (row.kind == NumberKind::integer)
        visit_integer(row.type, [&]<class T>(T) { expect_division<T>(row.type, divisor); });
  }
}

template <class T>
void expect_quotients(DataType type) {
  for (int n = 1; n <= 300; ++n) {
    std::vector<T> sums(1000);
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] = static_cast<T>(n) * (1 + static_cast<T>(i) / 997) - 500;
    }
    std::vector<T> averages = sums;
    divide(averages.data(), sums.size() * sizeof(T) / size_of(type), type, n);
    for (size_t i = 0; i < sums.size(); ++i) {
      ASSERT_EQ(averages[i], sums[i] / static_cast<T>(n)) << to_string(type) << " " << n;
    }
  }
}

// Multiplying by 1/n in the type itself would miss some of them.
TEST(ReduceDivide, FloatsGiveTheRoundedQuotient) {
  for (const std::string& simd : simd_targets()) {
    force_simd_target(simd);
    expect_quotients<float>(DataType::float32);
    expect_quotients<float>(DataType::complex64);
    expect_quotients<double>(DataType::float64);
    expect_quotients<double>(DataType::complex128);
  }
  force_simd_target("");
}

TEST(ReduceSimd, EachTargetCanBeForced) {
  const std::vector<std::string> targets = simd_targets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(simd_target(), targets.front()) << "the best is the default";
  for (const std::string& target : targets) {
    force_simd_target(target);
    EXPECT_EQ(simd_target(), target);
  }
  force_simd_target("");
  EXPECT_EQ(simd_target(), targets.front());
}

TEST(ReduceSimd, UnknownTargetIsRefusedAndChangesNothing) {
  const std::string before = simd_target();
  const std::string cause = cause_of([] { force_simd_target("mmx"); });
  EXPECT_EQ(cause.find("'mmx' is not an instruction set of this build; use one of "), 0u) << cause;
  EXPECT_NE(cause.find(before), std::string::npos) << cause;
  EXPECT_NE(cause.find("RINGWOOD_SIMD"), std::string::npos) << cause;
  EXPECT_EQ(simd_target(), before);
}

TEST(ReduceSimd, MayChangeWhileOthersReduce) {
  std::atomic<bool> done{false};
  std::thread changer([&done] {
    while (!done) {
      for (const std::string& target : simd_targets()) force_simd_target(target);
      force_simd_target("");
    }
  });
  std::vector<std::thread> reducers;
  std::atomic<int> wrong{0};
  for (int k = 0; k < 3; ++k) {
    reducers.emplace_back([&wrong] {
      for (int round = 0; round < 200; ++round) {
        std::vector<int32_t> sums(333), ones(333, 1);
        std::iota(sums.begin(), sums.end(), 0);
        reduce(sums.data(), ones.data(), sums.size(), DataType::int32, ReduceOp::sum);
        for (size_t i = 0; i < sums.size(); ++i) wrong += sums[i] != static_cast<int32_t>(i) + 1;
      }
    });
  }
  for (std::thread& reducer : reducers) reducer.join();
  done = true;
  changer.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(simd_target(), simd_targets().front());
}

}  // namespace
}  // namespace ringwood
