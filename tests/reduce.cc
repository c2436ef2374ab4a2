// Every data type, reduction and instruction set at awkward sizes and addresses, against the
// reference.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/reduce.h"
#include "tests/reduce_reference.h"

namespace ringwood {
namespace {

constexpr size_t kCounts[] = {0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 4097};
constexpr uint8_t kGuardByte = 0xa5;

template <class Accepts>
std::vector<DataType> types_that(Accepts accepts) {
  std::vector<DataType> types;
  for (int i = 0; i < kDataTypes; ++i) {
    if (accepts(static_cast<DataType>(i))) types.push_back(static_cast<DataType>(i));
  }
  return types;
}

std::vector<ReduceOp> all_ops() {
  std::vector<ReduceOp> ops;
  for (int i = 0; i < kReduceOps; ++i) ops.push_back(static_cast<ReduceOp>(i));
  return ops;
}

// `bytes` of memory at an address that is `offset` past one aligned to 64, with guard bytes around;
// or without those behind, so that the address sanitizer sees the first byte read or written past
// the end.
class Buffer {
 public:
  Buffer(size_t bytes, size_t offset, size_t guard_behind)
      : front_(64 + offset),
        bytes_(bytes),
        all_(front_ + bytes + guard_behind),
        memory_(static_cast<uint8_t*>(::operator new[](all_, std::align_val_t{64}))) {
    std::memset(memory_.get(), kGuardByte, all_);
  }

  uint8_t* data() { return memory_.get() + front_; }

  bool guards_intact() const {
    const auto intact = [](uint8_t byte) { return byte == kGuardByte; };
    const uint8_t* start = memory_.get();
    return std::all_of(start, start + front_, intact) &&
           std::all_of(start + front_ + bytes_, start + all_, intact);
  }

 private:
  struct Free {
    void operator()(uint8_t* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  size_t front_, bytes_, all_;
  std::unique_ptr<uint8_t[], Free> memory_;
};

template <class T>
void write_float(uint8_t* to, double value, uint64_t bits, bool raw) {
  if (raw) return reference::write(to, reference::read<T>(&bits));
  reference::write(to, static_cast<T>(value));
}

// Half of the floats are arbitrary bits (all exponents, NaN, infinities, subnormals), half are near
// 1.
void fill(uint8_t* at, size_t count, DataType type, uint64_t seed) {
  using Limits = std::numeric_limits<double>;
  constexpr double kSpecial[] = {
      0.0, -0.0, 1.0, -1.0, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), 1e-40};
  std::mt19937_64 random(seed);
  const bool complex = type == DataType::complex64 || type == DataType::complex128;
  const size_t size = complex ? size_of(type) / 2 : size_of(type);
  for (size_t i = 0; i < count * (complex ? 2 : 1); ++i, at += size) {
    const uint64_t bits = random();
    const bool raw = (bits >> 32 & 1) != 0;
    const double near = static_cast<double>(static_cast<int64_t>(random() % 4000) - 2000) / 512;
    const double value = random() % 16 == 0 ? kSpecial[random() % 8] : near;
    if (reference::is_small(type)) {
      const auto& format = reference::format_of(type);
      reference::write_code(at, type, raw ? static_cast<uint32_t>(bits) : format.encode(value));
    } else if (type == DataType::bool8) {
      *at = bits & 1;
    } else if (is_float(type) || complex) {
      size == 4 ? write_float<float>(at, value, bits, raw)
                : write_float<double>(at, value, bits, raw);
    } else {
      std::memcpy(at, &bits, size);
    }
  }
}

bool is_nan(const uint8_t* at, DataType type) {
  if (reference::is_small(type)) {
    return reference::format_of(type).is_nan(reference::read_code(at, type));
  }
  if (type == DataType::float32) return std::isnan(reference::read<float>(at));
  return type == DataType::float64 && std::isnan(reference::read<double>(at));
}

DataType part_of(DataType type) {
  if (type == DataType::complex64) return DataType::float32;
  return type == DataType::complex128 ? DataType::float64 : type;
}

// The same bits; of NaN, any.
::testing::AssertionResult same(const uint8_t* got, const uint8_t* want, size_t count,
                                DataType whole) {
  const DataType type = part_of(whole);
  const size_t size = size_of(type);
  for (size_t i = 0; i < count * (size_of(whole) / size); ++i) {
    const uint8_t *a = got + i * size, *b = want + i * size;
    if (std::memcmp(a, b, size) == 0 || (is_nan(a, type) && is_nan(b, type))) continue;
    std::string hex[2];
    for (size_t k = size; k-- > 0;) {
      char digits[3];
      for (int which = 0; which < 2; ++which) {
        std::snprintf(digits, sizeof(digits), "%02x", (which == 0 ? a : b)[k]);
        hex[which] += digits;
      }
    }
    return ::testing::AssertionFailure()
           << "element " << i << " is 0x" << hex[0] << ", not 0x" << hex[1];
  }
  return ::testing::AssertionSuccess();
}

class ForcedSimd {
 public:
  explicit ForcedSimd(const std::string& name) { force_simd_target(name); }
  ~ForcedSimd() { force_simd_target(""); }
};

using Case = std::tuple<DataType, std::string>;
std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return std::string(to_string(std::get<0>(info.param))) + "_" + std::get<1>(info.param);
}

class Kernels : public ::testing::TestWithParam<Case> {
 protected:
  DataType type() const { return std::get<0>(GetParam()); }
  size_t size() const { return size_of(type()); }

 private:
  ForcedSimd forced_{std::get<1>(GetParam())};
};
class ScaleKernels : public Kernels {};
class WideKernels : public Kernels {};

auto on_every_target(const std::vector<DataType>& types) {
  return ::testing::Combine(::testing::ValuesIn(types), ::testing::ValuesIn(simd_targets()));
}
INSTANTIATE_TEST_SUITE_P(All, Kernels, on_every_target(types_that([](DataType) { return true; })),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Floats, ScaleKernels, on_every_target(types_that([](DataType type) {
                           return supports(type, ReduceOp::premul_sum);
                         })),
                         name_of);
INSTANTIATE_TEST_SUITE_P(SmallFloats, WideKernels, on_every_target(types_that([](DataType type) {
                           return accumulates_wide(type, ReduceOp::sum);
                         })),
                         name_of);

struct Placement {
  size_t dst_offset, src_offset, guard;
};
constexpr Placement kPlacements[] = {{0, 0, 64}, {1, 2, 64}, {3, 0, 0}, {0, 7, 0}, {61, 63, 64}};

TEST_P(Kernels, ReduceAgreesWithReference) {
  for (const ReduceOp op : all_ops()) {
    if (!supports(type(), op)) continue;
    for (const size_t count : kCounts) {
      for (const Placement& place : kPlacements) {
        const size_t bytes = count * size();
        Buffer dst(bytes, place.dst_offset, place.guard), src(bytes, place.src_offset, place.guard);
        fill(dst.data(), count, type(), 2 * count + 1);
        fill(src.data(), count, type(), 2 * count + 2);
        std::vector<uint8_t> want(dst.data(), dst.data() + bytes);
        const std::vector<uint8_t> operand(src.data(), src.data() + bytes);
        for (size_t i = 0; i < bytes; i += size()) {
          reference::combine(&want[i], &operand[i], type(), op);
        }
        reduce(dst.data(), src.data(), count, type(), op);
        ASSERT_TRUE(same(dst.data(), want.data(), count, type()))
            << to_string(op) << " of " << count << ", dst + " << place.dst_offset;
        ASSERT_TRUE(std::equal(operand.begin(), operand.end(), src.data())) << "src was written";
        ASSERT_TRUE(dst.guards_intact() && src.guards_intact()) << to_string(op) << " " << count;
      }
    }
  }
}

TEST_P(Kernels, ReduceInPlaceWithItself) {
  for (const ReduceOp op : all_ops()) {
    if (!supports(type(), op)) continue;
    for (const size_t count : kCounts) {
      Buffer dst(count * size(), 1, 0);
      fill(dst.data(), count, type(), count);
      std::vector<uint8_t> want(dst.data(), dst.data() + count * size());
      for (size_t i = 0; i < want.size(); i += size()) {
        const std::vector<uint8_t> operand(&want[i], &want[i] + size());
        reference::combine(&want[i], operand.data(), type(), op);
      }
      reduce(dst.data(), dst.data(), count, type(), op);
      ASSERT_TRUE(same(dst.data(), want.data(), count, type())) << to_string(op) << " " << count;
    }
  }
}

TEST_P(ScaleKernels, AgreesWithReference) {
  for (const double factor : {0.5, 1.0 / 3, -7.25, 1e-3, 0.0}) {
    for (const size_t count : kCounts) {
      Buffer dst(count * size(), 5, count % 2 * 64);
      fill(dst.data(), count, type(), count);
      std::vector<uint8_t> want(dst.data(), dst.data() + count * size());
      for (size_t i = 0; i < want.size(); i += size()) reference::scale(&want[i], type(), factor);
      scale(dst.data(), count, type(), factor);
      ASSERT_TRUE(same(dst.data(), want.data(), count, type())) << factor << " " << count;
      ASSERT_TRUE(dst.guards_intact());
    }
  }
}

// A chain of operands, rounded once at its end.
TEST_P(WideKernels, ChainRoundsOnce) {
  const reference::SmallFormat& format = reference::format_of(type());
  for (const ReduceOp op :
       {ReduceOp::sum, ReduceOp::avg, ReduceOp::premul_sum, ReduceOp::product}) {
    for (const size_t count : kCounts) {
      Buffer wide(count * sizeof(float), 0, 0), dst(count * size(), 3, 64);
      std::vector<float> want(count);
      for (uint64_t operand = 0; operand < 6; ++operand) {
        Buffer src(count * size(), operand, 0);
        fill(src.data(), count, type(), 10 * count + operand);
        auto* sums = reinterpret_cast<float*>(wide.data());
        for (size_t i = 0; i < count; ++i) {
          const uint32_t code = reference::read_code(src.data() + i * size(), type());
          const auto value = static_cast<float>(format.decode(code));
          want[i] = operand == 0 ? value : reference::float_result(op, want[i], value);
        }
        operand == 0 ? widen(sums, src.data(), count, type())
                     : reduce_wide(sums, src.data(), count, type(), op);
        ASSERT_TRUE(
            same(wide.data(), reinterpret_cast<uint8_t*>(want.data()), count, DataType::float32));
      }
      narrow(dst.data(), reinterpret_cast<float*>(wide.data()), count, type());
      for (size_t i = 0; i < count; ++i) {
        const uint32_t code = format.encode(want[i]);
        uint8_t bits[2];
        reference::write_code(bits, type(), code);
        ASSERT_TRUE(same(dst.data() + i * size(), bits, 1, type())) << i << " of " << count;
      }
      ASSERT_TRUE(dst.guards_intact());
    }
  }
}
}  // namespace
}  // namespace ringwood
