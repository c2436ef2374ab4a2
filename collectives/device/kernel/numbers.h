// The numbers of each data type on a device: what memory holds, and what sums are computed in.
//
// Bits are those of the CPU's kernels (kernels/reduce.h): 16- and 8-bit floats are computed in fp32
// and rounded once to nearest even; results have only one NaN; MIN and MAX treat -0 as less than 0;
// integers wrap. The text is the same on host and device, but for the conversion of fp16, for which
// the machine (kernel/interpret.h) has an instruction. Compiled without contraction of
// multiplications and additions. Pure.
#pragma once

#include <cstdint>

#include "collectives/device/kernel/words.h"

namespace ringwood::device {

template <class To, class From>
RINGWOOD_DEVICE To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(static_cast<void*>(&to), &from, sizeof to);
  return to;
}

RINGWOOD_DEVICE float one_nan(float x) { return x == x ? x : bits_as<float>(0x7fc00000u); }
RINGWOOD_DEVICE double one_nan(double x) {
  return x == x ? x : bits_as<double>(uint64_t(0x7ff8) << 48);
}

// A float with a sign, kExponent and kMantissa bits. kFinite: no infinities, all ones is NaN, and
// what is too large becomes the largest number, as in torch.float8_e4m3fn.
template <class Stored, int kExponent, int kMantissa, bool kFinite>
struct SmallFloat {
  static constexpr int kWidth = 1 + kExponent + kMantissa;
  static constexpr uint32_t kBias = (1u << (kExponent - 1)) - 1;
  static constexpr uint32_t kMagnitude = (1u << (kExponent + kMantissa)) - 1;
  static constexpr uint32_t kFirstSpecial =
      kFinite ? kMagnitude : kMagnitude >> kMantissa << kMantissa;
  static constexpr int kDropped = 23 - kMantissa;
  // fp32 bits of the smallest normal number, and of the first magnitude that is saturated instead
  // of rounded.
  static constexpr uint32_t kSmallestNormal = (128 - kBias) << 23;
  static constexpr uint32_t kLimit =
      ((127 - kBias) << 23) + ((kFinite ? kMagnitude - 1 : kFirstSpecial) << kDropped);
  static constexpr uint32_t kNan = kFinite || kMantissa == 2 ? kMagnitude : kFirstSpecial | 0x200;

  static RINGWOOD_DEVICE float decode(Stored bits) {
    const uint32_t magnitude = bits & kMagnitude, shifted = magnitude << kDropped;
    // (1 + m) 2^e - 2^e is m 2^e without a subnormal operand.
    const uint32_t smallest = kSmallestNormal;
    const uint32_t subnormal =
        bits_as<uint32_t>(bits_as<float>(shifted + smallest) - bits_as<float>(smallest));
    uint32_t x = magnitude < 1u << kMantissa ? subnormal : shifted + ((127 - kBias) << 23);
    if (magnitude >= kFirstSpecial) x |= 0x7f800000u;
    return bits_as<float>(x | (uint32_t(bits) << (32 - kWidth) & 0x80000000u));
  }
  static RINGWOOD_DEVICE Stored encode(float value) {
    const uint32_t bits = bits_as<uint32_t>(value), magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return Stored(kNan);
    const uint32_t limited = magnitude < kLimit ? magnitude : kLimit;
    const uint32_t odd = limited >> kDropped & 1;
    const uint32_t normal =
        (limited - ((127 - kBias) << 23) + (1u << (kDropped - 1)) - 1 + odd) >> kDropped;
    // Adding a power of two whose last bit is the smallest subnormal makes the adder round.
    const uint32_t magic = (128 - kBias + kDropped) << 23;
    const uint32_t subnormal =
        bits_as<uint32_t>(bits_as<float>(limited) + bits_as<float>(magic)) - magic;
    return Stored((limited < kSmallestNormal ? subnormal : normal) |
                  (bits & 0x80000000u) >> (32 - kWidth));
  }
};
using HalfCodec = SmallFloat<uint16_t, 5, 10, false>;

// Each has Stored, in memory; InVector, the same within 16 bytes; Wide, in which it is computed;
// wide(machine, bits) and stored(machine, number), which rounds and leaves one NaN.
template <class T>
struct LargeFloat {
  using Stored = T;
  using InVector = T;
  using Wide = T;
  static constexpr bool kFloating = true, kSmall = false;
  template <class M>
  static RINGWOOD_DEVICE T wide(M&, T x) {
    return x;
  }
  template <class M>
  static RINGWOOD_DEVICE T stored(M&, T x) {
    return one_nan(x);
  }
};
using Float64 = LargeFloat<double>;
using Float32 = LargeFloat<float>;

struct Float16 {
  using Stored = uint16_t;
  using InVector = uint16_t;
  using Wide = float;
  static constexpr bool kFloating = true, kSmall = true;
  template <class M>
  static RINGWOOD_DEVICE float wide(M& m, uint16_t x) {
    return m.float_of_half(x);
  }
  template <class M>
  static RINGWOOD_DEVICE uint16_t stored(M& m, float x) {
    return x == x ? m.half_of_float(x) : uint16_t(HalfCodec::kNan);
  }
};
struct Bfloat16 {
  using Stored = uint16_t;
  using InVector = uint16_t;
  using Wide = float;
  static constexpr bool kFloating = true, kSmall = true;
  template <class M>
  static RINGWOOD_DEVICE float wide(M&, uint16_t x) {
    return bits_as<float>(uint32_t(x) << 16);
  }
  template <class M>
  static RINGWOOD_DEVICE uint16_t stored(M&, float x) {
    const uint32_t bits = bits_as<uint32_t>(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
    return uint16_t((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
  }
};
template <class Codec>
struct Float8 {
  using Stored = uint8_t;
  using InVector = uint8_t;
  using Wide = float;
  static constexpr bool kFloating = true, kSmall = true;
  template <class M>
  static RINGWOOD_DEVICE float wide(M&, uint8_t x) {
    return Codec::decode(x);
  }
  template <class M>
  static RINGWOOD_DEVICE uint8_t stored(M&, float x) {
    return Codec::encode(x);
  }
};
using Float8E4m3 = Float8<SmallFloat<uint8_t, 4, 3, true>>;
using Float8E5m2 = Float8<SmallFloat<uint8_t, 5, 2, false>>;

template <class T>
struct Integer {
  using Stored = T;
  using InVector = T;
  using Wide = T;
  static constexpr bool kFloating = false, kSmall = false;
  template <class M>
  static RINGWOOD_DEVICE T wide(M&, T x) {
    return x;
  }
  template <class M>
  static RINGWOOD_DEVICE T stored(M&, T x) {
    return x;
  }
};

// What is combined bit by bit, whatever its type.
struct Bits {
  using Stored = uint8_t;
  using InVector = uint32_t;
  using Wide = uint32_t;
  static constexpr bool kFloating = false, kSmall = false;
  template <class M, class T>
  static RINGWOOD_DEVICE uint32_t wide(M&, T x) {
    return x;
  }
  struct Narrowed {
    uint32_t x;
    RINGWOOD_DEVICE operator uint32_t() const { return x; }
    RINGWOOD_DEVICE operator uint8_t() const { return uint8_t(x); }
  };
  template <class M>
  static RINGWOOD_DEVICE Narrowed stored(M&, uint32_t x) {
    return {x};
  }
};

// A sum of up to 2^32 signed 64-bit integers, and its quotient by a small number, toward zero.
// There is no 128-bit division on a device.
struct WideSum {
  uint64_t low = 0;
  int64_t high = 0;
  RINGWOOD_DEVICE void add(int64_t x) {
    const uint64_t before = low;
    low += uint64_t(x);
    high += (x < 0 ? -1 : 0) + (low < before ? 1 : 0);
  }
  RINGWOOD_DEVICE int64_t divided(uint32_t by) const {
    const bool negative = high < 0;
    const uint64_t l = negative ? ~low + 1 : low;
    const uint64_t h = negative ? ~uint64_t(high) + (low == 0 ? 1 : 0) : uint64_t(high);
    uint64_t quotient = 0, rest = h;  // h < by, as the mean has 64 bits
    for (int shift = 32; shift >= 0; shift -= 32) {
      const uint64_t dividend = rest << 32 | (l >> shift & 0xffffffffu);
      quotient = quotient << 32 | dividend / by;
      rest = dividend % by;
    }
    return int64_t(negative ? ~quotient + 1 : quotient);
  }
};

}  // namespace ringwood::device
