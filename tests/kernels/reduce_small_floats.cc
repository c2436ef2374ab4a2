// Exhaustive: every number of every 8- and 16-bit float, every pair of 8-bit ones, and torch's own
// rounding.
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/kernels/reduce.h"
#include "tests/kernels/reduce_reference.h"

namespace ringwood {
namespace {

using reference::SmallFormat;
using Case = std::tuple<DataType, std::string>;

class SmallFloats : public ::testing::TestWithParam<Case> {
 protected:
  SmallFloats() { force_simd_target(std::get<1>(GetParam())); }
  ~SmallFloats() override { force_simd_target(""); }

  DataType type() const { return std::get<0>(GetParam()); }
  const SmallFormat& format() const { return reference::format_of(type()); }

  std::vector<uint8_t> pack(const std::vector<uint32_t>& codes) const {
    std::vector<uint8_t> bytes(codes.size() * format().bytes());
    for (size_t i = 0; i < codes.size(); ++i) {
      reference::write_code(&bytes[i * format().bytes()], type(), codes[i]);
    }
    return bytes;
  }

  uint32_t code_at(const std::vector<uint8_t>& bytes, size_t i) const {
    return reference::read_code(&bytes[i * format().bytes()], type());
  }

  // The same code, or any NaN for a NaN.
  void expect_codes(const std::vector<uint8_t>& got, const std::vector<uint32_t>& want,
                    const std::string& what) const {
    for (size_t i = 0; i < want.size(); ++i) {
      const uint32_t code = code_at(got, i);
      if (format().is_nan(code) && format().is_nan(want[i])) continue;
      ASSERT_EQ(code, want[i]) << what << ", element " << i;
    }
  }

  std::vector<uint32_t> all_codes() const {
    std::vector<uint32_t> codes(format().codes());
    for (uint32_t code = 0; code < format().codes(); ++code) codes[code] = code;
    return codes;
  }
};

class EightBitFloats : public SmallFloats {};
class SixteenBitFloats : public SmallFloats {};

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return std::string(to_string(std::get<0>(info.param))) + "_" + std::get<1>(info.param);
}
const auto kEightBits = ::testing::Values(DataType::float8_e4m3, DataType::float8_e5m2);
const auto kSixteenBits = ::testing::Values(DataType::float16, DataType::bfloat16);
const auto kTargets = ::testing::ValuesIn(simd_targets());
INSTANTIATE_TEST_SUITE_P(Of8, SmallFloats, ::testing::Combine(kEightBits, kTargets), name_of);
INSTANTIATE_TEST_SUITE_P(Of16, SmallFloats, ::testing::Combine(kSixteenBits, kTargets), name_of);
INSTANTIATE_TEST_SUITE_P(All, EightBitFloats, ::testing::Combine(kEightBits, kTargets), name_of);
INSTANTIATE_TEST_SUITE_P(All, SixteenBitFloats, ::testing::Combine(kSixteenBits, kTargets),
                         name_of);

TEST_P(SmallFloats, EveryNumberWidensExactlyAndComesBack) {
  const std::vector<uint8_t> packed = pack(all_codes());
  std::vector<float> wide(format().codes());
  widen(wide.data(), packed.data(), wide.size(), type());
  for (uint32_t code = 0; code < format().codes(); ++code) {
    const double want = format().decode(code);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(wide[code])) << code;
      continue;
    }
    ASSERT_EQ(wide[code], want) << code;
    ASSERT_EQ(std::signbit(wide[code]), std::signbit(want)) << code;
  }
  std::vector<uint8_t> back(packed.size());
  narrow(back.data(), wide.data(), wide.size(), type());
  expect_codes(back, all_codes(), "round trip");
}

// All exponents and upper mantissas, each with lower bits on, just above and just below every
// rounding boundary.
TEST_P(SmallFloats, NarrowRoundsToNearestEven) {
  constexpr uint32_t kLower[] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x1fff, 0x3000,
                                 0x7fff, 0x8000, 0x8001, 0xefff, 0xf000, 0xf001, 0xffff};
  for (const uint32_t lower : kLower) {
    std::vector<float> wide(size_t{1} << 16);
    std::vector<uint32_t> want(wide.size());
    for (uint32_t upper = 0; upper < wide.size(); ++upper) {
      const uint32_t bits = upper << 16 | lower;
      std::memcpy(&wide[upper], &bits, sizeof(bits));
      want[upper] = format().encode(wide[upper]);
    }
    std::vector<uint8_t> got(wide.size() * format().bytes());
    narrow(got.data(), wide.data(), wide.size(), type());
    expect_codes(got, want, "lower bits " + std::to_string(lower));
  }
}

TEST_P(EightBitFloats, EveryPair) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
    for (uint32_t left = 0; left < 256; ++left) {
      std::vector<uint8_t> dst(256, static_cast<uint8_t>(left));
      const std::vector<uint8_t> src = pack(all_codes());
      std::vector<uint32_t> want(256);
      for (uint32_t right = 0; right < 256; ++right) {
        want[right] = reference::small_result(format(), op, left, right);
      }
      reduce(dst.data(), src.data(), 256, type(), op);
      expect_codes(dst, want, std::string(to_string(op)) + " with " + std::to_string(left));
    }
  }
}

// Every 16-bit number with partners of every exponent: sums that cancel, tie, overflow and
// underflow.
TEST_P(SixteenBitFloats, EveryNumberWithEveryExponent) {
  const std::vector<uint8_t> numbers = pack(all_codes());
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
    for (uint32_t partner = 0x0003; partner < format().codes(); partner += 0x0d01) {
      std::vector<uint8_t> dst = pack(std::vector<uint32_t>(format().codes(), partner));
      std::vector<uint32_t> want(format().codes());
      for (uint32_t code = 0; code < format().codes(); ++code) {
        want[code] = reference::small_result(format(), op, partner, code);
      }
      reduce(dst.data(), numbers.data(), want.size(), type(), op);
      expect_codes(dst, want, std::string(to_string(op)) + " with " + std::to_string(partner));
    }
  }
}

// Rounding to fp32 in between shows, in 11, 8, 4 and 3 bits first for divisors 8195, 65791, 1090519
// and 3050403.
TEST_P(SmallFloats, EveryQuotientIsRoundedOnce) {
  for (const int64_t divisor :
       {2, 3, 5, 7, 12, 100, 1000, 2047, 2048, 2049, 8195, 65791, 1090519, 3050403, -3, -4096}) {
    std::vector<uint8_t> got = pack(all_codes());
    std::vector<uint32_t> want(format().codes());
    for (uint32_t code = 0; code < format().codes(); ++code) {
      want[code] = format().encode(format().decode(code) / static_cast<double>(divisor));
    }
    divide(got.data(), want.size(), type(), divisor);
    expect_codes(got, want, "divided by " + std::to_string(divisor));
  }
}

// Rounding to fp32 in between shows for factors just past the middle between 1 and what follows it.
TEST_P(SmallFloats, EveryProductWithAFactorIsRoundedOnce) {
  for (const double factor : {0x1p-20, -0.5, 64.0, 1.0 / 3, 0.1, -7.25, 1.00390625, 1e-3, 0.0,
                              1 + 0x1p-24, 0x1p-70, 1 + 0x1p-11 + 0x1p-30, 1 + 0x1p-8 + 0x1p-30,
                              1 + 0x1p-4 + 0x1p-30, 1 + 0x1p-3 + 0x1p-30, 1e-38, 1e38, 1e300}) {
    std::vector<uint8_t> got = pack(all_codes());
    std::vector<uint32_t> want(format().codes());
    for (uint32_t code = 0; code < format().codes(); ++code) {
      want[code] = format().encode(format().decode(code) * factor);
    }
    scale(got.data(), want.size(), type(), factor);
    expect_codes(got, want, "times " + std::to_string(factor));
  }
}

// torch 2.13: torch.tensor(x).to(torch.float8_e4m3fn) and .to(torch.float8_e5m2), by bits.
struct TorchRow {
  uint32_t float_bits;
  uint8_t e4m3, e5m2;
};
constexpr TorchRow kTorch[] = {
    {0x00000000, 0x00, 0x00}, {0x80000000, 0x80, 0x80}, {0x3f800000, 0x38, 0x3c},
    {0xbfc00000, 0xbc, 0xbe}, {0x3dcccccd, 0x1d, 0x2e}, {0xbe99999a, 0xaa, 0xb5},
    {0x40490fd0, 0x45, 0x42}, {0x41880000, 0x58, 0x4c}, {0x41900000, 0x59, 0x4c},
    {0x41980000, 0x5a, 0x4d}, {0xc1d80000, 0xde, 0xcf}, {0x43e00000, 0x7e, 0x5f},
    {0x43e7f333, 0x7e, 0x5f}, {0x43e80000, 0x7e, 0x5f}, {0x43e80ccd, 0x7e, 0x5f},
    {0x43f00000, 0x7e, 0x60}, {0xc3fa0000, 0xfe, 0xe0}, {0x47600000, 0x7e, 0x7b},
    {0x476fff00, 0x7e, 0x7b}, {0x47700000, 0x7e, 0x7c}, {0x477fe000, 0x7e, 0x7c},
    {0xc7800000, 0xfe, 0xfc}, {0x7149f2ca, 0x7e, 0x7c}, {0x7f800000, 0x7e, 0x7c},
    {0xff800000, 0xfe, 0xfc}, {0x7fc00000, 0x7f, 0x7f}, {0x3c800000, 0x08, 0x24},
    {0x3c080000, 0x04, 0x20}, {0x3b000000, 0x01, 0x18}, {0x3a800000, 0x00, 0x14},
    {0xba800347, 0x81, 0x94}, {0x3a7ff972, 0x00, 0x14}, {0x3b400000, 0x02, 0x1a},
    {0x3ba00000, 0x02, 0x1d}, {0x38800000, 0x00, 0x04}, {0x37800000, 0x00, 0x01},
    {0x37000000, 0x00, 0x00}, {0x370020c5, 0x00, 0x01}, {0x37c00000, 0x00, 0x02},
    {0x00000001, 0x00, 0x00}, {0x800116c2, 0x80, 0x80},
};

TEST_P(EightBitFloats, RoundAsTorchDoes) {
  for (const TorchRow& row : kTorch) {
    float value;
    std::memcpy(&value, &row.float_bits, sizeof(value));
    uint8_t got = 0;
    narrow(&got, &value, 1, type());
    ASSERT_EQ(got, type() == DataType::float8_e4m3 ? row.e4m3 : row.e5m2) << value;
    ASSERT_EQ(format().encode(value), got) << "the reference rounds otherwise: " << value;
  }
}

}  // namespace
}  // namespace ringwood
