// Wire formats by themselves, on every instruction set: the error of one rounding, that another one
// changes nothing, what becomes of specials, and sizes around a block.
#include "collectives/kernels/wire.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace ringwood::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kSizes[] = {0, 1, 3, 7, 64, 255, 256, 257, 511, 513, 1000, 16384};
constexpr size_t kBlock = 256;

struct WireCase {
  std::string simd;
  WireFormat format;
};
class Codec : public ::testing::TestWithParam<WireCase> {
 protected:
  void SetUp() override { force_simd_target(GetParam().simd); }
  void TearDown() override { force_simd_target(""); }

  // Off by one element from any alignment, and with guards behind.
  std::vector<float> there_and_back(const std::vector<float>& x) const {
    const WireFormat f = GetParam().format;
    const size_t bytes = wire_bytes(f, x.size());
    constexpr std::byte kGuard{0x5a};
    std::vector<std::byte> wire(bytes + 2, kGuard);
    encode(f, wire.data() + 1, x.data(), x.size());
    EXPECT_EQ(wire[0], kGuard);
    EXPECT_EQ(wire[bytes + 1], kGuard);
    std::vector<float> y(x.size() + 1, 7.0f);
    decode(f, y.data(), wire.data() + 1, x.size());
    EXPECT_EQ(y.back(), 7.0f);
    y.pop_back();
    std::vector<float> sum(x.size(), 1.0f);
    decode_add(f, sum.data(), wire.data() + 1, x.size());
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_TRUE(sum[i] == 1.0f + y[i] || std::isnan(y[i])) << i;
    return y;
  }

  // What one rounding may do to element i.
  double allowed(const std::vector<float>& x, size_t i) const {
    double of = std::fabs(x[i]);
    const size_t begin = i / kBlock * kBlock, end = std::min(begin + kBlock, x.size());
    if (GetParam().format == WireFormat::int8)
      for (size_t k = begin; k < end; ++k) of = std::max<double>(of, std::fabs(x[k]));
    return error_bound(GetParam().format, 1) * of;
  }
};
std::vector<WireCase> cases() {
  std::vector<WireCase> all;
  for (const std::string& simd : simd_targets())
    for (const WireFormat f : {WireFormat::bf16, WireFormat::int8}) all.push_back({simd, f});
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, Codec, ::testing::ValuesIn(cases()), [](const auto& info) {
  return fmt::format("{}_{}", info.param.simd, to_string(info.param.format));
});

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.empty() || a.size() != b.size()) return a.size() == b.size();
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_P(Codec, KeepsWithinItsBoundAndRoundsOnce) {
  std::mt19937 random(1);
  for (const size_t n : kSizes) {
    // 1e-41 and 1e-37: subnormal as they are, and as a scale.
    for (const double size : {1.0, 1e-41, 1e-37, 1e-30, 1e30, 3.3e38}) {
      std::vector<float> x(n);
      std::uniform_real_distribution<double> number(-1, 1);
      for (float& v : x) v = static_cast<float>(number(random) * size);
      const std::vector<float> y = there_and_back(x);
      // Below the smallest normal number of the format the bound is absolute (wire.h).
      const double least = GetParam().format == WireFormat::bf16 ? 0x1p-134 : 0x1p-127;
      for (size_t i = 0; i < n; ++i)
        ASSERT_LE(std::fabs(static_cast<double>(y[i]) - x[i]), std::max(allowed(x, i), least))
            << n << " " << size << " element " << i << ": " << x[i] << " became " << y[i];
      EXPECT_TRUE(same_bits(there_and_back(y), y)) << n << " " << size;
      round_to(GetParam().format, x.data(), n);
      EXPECT_TRUE(same_bits(x, y)) << n << " " << size;
    }
  }
}

// Codes that lie at their limits and in the middle of two.
TEST_P(Codec, RoundsOnceWhateverTheLargestOfABlockIs) {
  std::mt19937 random(2);
  std::vector<float> x(kBlock);
  for (int k = 0; k < 2000; ++k) {
    const auto bits = static_cast<uint32_t>(random() % 0x7f000000u);
    std::memcpy(x.data(), &bits, sizeof bits);
    for (size_t i = 1; i < kBlock; ++i)
      x[i] = x[0] * static_cast<float>((static_cast<double>(random() % 509) - 254) / 254);
    const std::vector<float> y = there_and_back(x);
    ASSERT_TRUE(same_bits(there_and_back(y), y)) << x[0];
  }
}

TEST_P(Codec, ZeroAndSpecials) {
  const bool blocks = GetParam().format == WireFormat::int8;
  std::vector<float> x(600, 0.0f);
  EXPECT_TRUE(same_bits(there_and_back(x), x));
  for (const size_t at : {size_t{3}, size_t{300}, size_t{599}}) {
    for (const float special : {kInfinity, -kInfinity, kNan}) {
      std::vector<float> with(600, 1.0f);
      with[at] = special;
      const std::vector<float> y = there_and_back(with);
      for (size_t i = 0; i < y.size(); ++i) {
        const bool hit = blocks ? i / kBlock == at / kBlock : i == at;
        const bool becomes_nan = blocks || std::isnan(special);
        if (hit && becomes_nan)
          EXPECT_TRUE(std::isnan(y[i])) << i << " beside " << special << " at " << at;
        else if (hit)
          EXPECT_EQ(y[i], special) << i << " at " << at;
        else
          EXPECT_NEAR(y[i], 1, 1e-4) << i << " beside " << special << " at " << at;
      }
      EXPECT_TRUE(same_bits(there_and_back(y), y));
    }
  }
}

TEST(Wire, Sizes) {
  for (const size_t n : kSizes) {
    EXPECT_EQ(wire_bytes(WireFormat::exact, n), 4 * n);
    EXPECT_EQ(wire_bytes(WireFormat::bf16, n), 2 * n);
    const size_t rest = n % kBlock;
    EXPECT_EQ(wire_bytes(WireFormat::int8, n),
              n / kBlock * 260 + (rest ? 4 + (rest + 3) / 4 * 4 : 0));
  }
}

TEST(Wire, OnlySumsOfFp32) {
  int may = 0;
  for (int c = 0; c < kCollectives; ++c)
    for (int t = 0; t < kDataTypes; ++t)
      for (int op = 0; op < kReduceOps; ++op)
        may += may_encode(static_cast<Collective>(c), static_cast<DataType>(t),
                          static_cast<ReduceOp>(op));
  EXPECT_EQ(may, 3 * 1 * 2);
  EXPECT_TRUE(may_encode(Collective::all_reduce, DataType::float32, ReduceOp::avg));
}

}  // namespace
}  // namespace ringwood::testing
