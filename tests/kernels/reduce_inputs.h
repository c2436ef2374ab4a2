// What the suites of the kernels share: operands of every kind of number, guarded memory at awkward
// addresses, comparison of bits, and the cross of data types and instruction sets.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
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

#include "collectives/kernels/reduce.h"
#include "tests/kernels/reduce_reference.h"

namespace ringwood::reference {

constexpr uint8_t kGuardByte = 0xa5;

template <class Accepts>
std::vector<DataType> types_that(Accepts accepts) {
  std::vector<DataType> types;
  for (int i = 0; i < kDataTypes; ++i) {
    if (accepts(static_cast<DataType>(i))) types.push_back(static_cast<DataType>(i));
  }
  return types;
}

inline std::vector<ReduceOp> all_ops() {
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
  if (raw) return write(to, read<T>(&bits));
  write(to, static_cast<T>(value));
}

// Half of the floats are arbitrary bits (all exponents, NaN, infinities, subnormals), half are near
// 1.
inline void fill(uint8_t* at, size_t count, DataType type, uint64_t seed) {
  using Limits = std::numeric_limits<double>;
  constexpr double kSpecial[] = {
      0.0, -0.0, 1.0, -1.0, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), 1e-40};
  std::mt19937_64 random(seed);
  const size_t size = part_size(type);
  for (size_t i = 0; i < count * (size_of(type) / size); ++i, at += size) {
    const uint64_t bits = random();
    const bool raw = (bits >> 32 & 1) != 0;
    const double near = static_cast<double>(static_cast<int64_t>(random() % 4000) - 2000) / 512;
    const double value = random() % 16 == 0 ? kSpecial[random() % 8] : near;
    if (is_small_float(type)) {
      const auto& format = format_of(type);
      write_code(at, type, raw ? static_cast<uint32_t>(bits) : format.encode(value));
    } else if (traits_of(type).kind == NumberKind::boolean) {
      *at = bits & 1;
    } else if (is_float(type) || is_complex(type)) {
      size == 4 ? write_float<float>(at, value, bits, raw)
                : write_float<double>(at, value, bits, raw);
    } else {
      std::memcpy(at, &bits, size);
    }
  }
}

inline bool is_nan(const uint8_t* at, DataType type) {
  if (is_small_float(type)) {
    return format_of(type).is_nan(read_code(at, type));
  }
  if (type == DataType::float32) return std::isnan(read<float>(at));
  return type == DataType::float64 && std::isnan(read<double>(at));
}

inline DataType part_of(DataType type) {
  if (type == DataType::complex64) return DataType::float32;
  return type == DataType::complex128 ? DataType::float64 : type;
}

// The same bits; of NaN, any.
inline ::testing::AssertionResult same(const uint8_t* got, const uint8_t* want, size_t count,
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
inline std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return std::string(to_string(std::get<0>(info.param))) + "_" + std::get<1>(info.param);
}

inline auto on_every_target(const std::vector<DataType>& types) {
  return ::testing::Combine(::testing::ValuesIn(types), ::testing::ValuesIn(simd_targets()));
}

}  // namespace ringwood::reference
