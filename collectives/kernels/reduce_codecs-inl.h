// Narrow floats as vectors: bits <-> fp32, for one instruction set. No include guard of the usual
// kind: Highway includes this once per target.
#if defined(RINGWOOD_REDUCE_CODECS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGWOOD_REDUCE_CODECS_INL_H_
#undef RINGWOOD_REDUCE_CODECS_INL_H_
#else
#define RINGWOOD_REDUCE_CODECS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ringwood {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A codec turns a vector of D's lanes (`Bits` wide) into fp32 with as many lanes, and back with one
// rounding to nearest even. decode() turns any NaN into a NaN; encode() turns it into the one NaN
// that its type has for results (reduce.h). Normal numbers have kMantissaBits after the point and
// are at least 2^kSmallestExponent.

template <class D>
using FloatOf = hn::Rebind<float, D>;
template <class D>
using UintOf = hn::Rebind<uint32_t, D>;

// For fp32 or fp64: any NaN becomes the one that results have (reduce.h).
template <class V>
HWY_INLINE V quiet_nan(V) {
  const hn::DFromV<V> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  using Bits = hn::TFromD<decltype(du)>;
  constexpr Bits kNan =
      sizeof(Bits) == 4 ? Bits{0x7fc00000u} : static_cast<Bits>(uint64_t{0x7ff8} << 48);
  return hn::BitCast(d, hn::Set(du, kNan));
}
template <class V>
HWY_INLINE V one_nan(V v) {
  return hn::IfThenElse(hn::IsNaN(v), quiet_nan(v), v);
}

// Whether any lane is NaN: one comparison for two vectors, where the machine has it.
template <class V>
HWY_INLINE bool any_nan(V a, V b, V c, V e) {
#if HWY_TARGET == HWY_AVX3
  const auto ab = _mm512_cmp_ps_mask(a.raw, b.raw, _CMP_UNORD_Q);
  return _kortestz_mask16_u8(ab, _mm512_cmp_ps_mask(c.raw, e.raw, _CMP_UNORD_Q)) == 0;
#else
  const hn::DFromV<V> d;
  const auto ab = hn::Or(hn::IsNaN(a), hn::IsNaN(b));
  return !hn::AllFalse(d, hn::Or(ab, hn::Or(hn::IsNaN(c), hn::IsNaN(e))));
#endif
}

// Comparison of lanes whose upper bit is known to be zero: signed compares are one instruction
// everywhere.
template <class V>
HWY_INLINE auto less(V a, V b) {
  const hn::DFromV<V> du;
  const hn::RebindToSigned<decltype(du)> di;
  return hn::RebindMask(du, hn::Lt(hn::BitCast(di, a), hn::BitCast(di, b)));
}

// Sign, kExponent bits, kMantissa bits. `kFinite`: no infinities, all ones is NaN, and too large
// numbers become the largest one, as in torch.float8_e4m3fn; otherwise as IEEE.
template <class Lane, int kExponent, int kMantissa, bool kFinite>
struct SmallFloat {
  using Bits = Lane;
  static constexpr int kMantissaBits = kMantissa;
  static constexpr int kSmallestExponent = 2 - (1 << (kExponent - 1));
  static constexpr int kWidth = 1 + kExponent + kMantissa;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr uint32_t kMagnitude = (1u << (kExponent + kMantissa)) - 1;
  static constexpr uint32_t kFirstSpecial =
      kFinite ? kMagnitude : kMagnitude >> kMantissa << kMantissa;
  // fp32 bits of the smallest normal number, and of the first magnitude that is saturated
  // instead of rounded.
  static constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - kBias) << 23;
  static constexpr uint32_t kLimit =
      (static_cast<uint32_t>(127 - kBias) << 23) +
      ((kFinite ? kMagnitude - 1 : kFirstSpecial) << (23 - kMantissa));
  static constexpr uint32_t kNan = kFinite || kMantissa == 2 ? kMagnitude : kFirstSpecial | 0x200;

  template <class D, class V>
  static HWY_INLINE hn::Vec<FloatOf<D>> decode(D, V bits) {
    const UintOf<D> du;
    const FloatOf<D> df;
    const auto wide = hn::PromoteTo(du, bits);
    const auto magnitude = hn::And(wide, hn::Set(du, kMagnitude));
    const auto shifted = hn::ShiftLeft<23 - kMantissa>(magnitude);
    const auto normal = hn::Add(shifted, hn::Set(du, static_cast<uint32_t>(127 - kBias) << 23));
    // (1 + m) * 2^e - 2^e = m * 2^e without a subnormal operand, which would be slow or flushed to
    // zero.
    const auto one = hn::Set(du, kSmallestNormal);
    const auto subnormal =
        hn::BitCast(du, hn::Sub(hn::BitCast(df, hn::Add(shifted, one)), hn::BitCast(df, one)));
    const auto finite =
        hn::IfThenElse(less(magnitude, hn::Set(du, 1u << kMantissa)), subnormal, normal);
    const auto special = hn::IfThenElseZero(less(hn::Set(du, kFirstSpecial - 1), magnitude),
                                            hn::Set(du, 0x7f800000u));
    const auto sign = hn::And(hn::ShiftLeft<32 - kWidth>(wide), hn::Set(du, 0x80000000u));
    return hn::BitCast(df, hn::Or(hn::Or(finite, special), sign));
  }

  template <class D>
  static HWY_INLINE hn::Vec<D> encode_any_nan(D d, hn::Vec<FloatOf<D>> value) {
    return encode(d, value);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> encode(D d, hn::Vec<FloatOf<D>> value) {
    const UintOf<D> du;
    const FloatOf<D> df;
    constexpr int kDropped = 23 - kMantissa;
    const auto bits = hn::BitCast(du, value);
    const auto sign = hn::And(bits, hn::Set(du, 0x80000000u));
    const auto magnitude = hn::Xor(bits, sign);
    const auto limited = hn::Min(magnitude, hn::Set(du, kLimit));
    const auto odd = hn::And(hn::ShiftRight<kDropped>(limited), hn::Set(du, 1u));
    constexpr uint32_t kRebias = static_cast<uint32_t>(kBias - 127) << 23;
    const auto rounded = hn::ShiftRight<kDropped>(
        hn::Add(hn::Add(limited, hn::Set(du, kRebias + (1u << (kDropped - 1)) - 1)), odd));
    // Adding a power of two whose last bit is the smallest subnormal makes the adder do the
    // rounding.
    const auto magic = hn::Set(du, static_cast<uint32_t>(128 - kBias + kDropped) << 23);
    const auto small =
        hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(df, limited), hn::BitCast(df, magic))), magic);
    const auto finite = hn::IfThenElse(less(limited, hn::Set(du, kSmallestNormal)), small, rounded);
    const auto number = hn::Or(finite, hn::ShiftRight<32 - kWidth>(sign));
    const auto nan = less(hn::Set(du, 0x7f800000u), magnitude);
    return hn::TruncateTo(d, hn::IfThenElse(nan, hn::Set(du, kNan), number));
  }
};

// An 8-bit float viewed as an fp16: the same exponent field, the mantissa in its top bits, so
// subnormals need no special care; the value of e4m3 is 2^8 times as large. `bytes` has the number
// in the upper or lower half of each lane.
struct E4m3AsHalf {
  static constexpr float kTimes = 256;
  static constexpr int kDropped = 7;               // mantissa bits of fp16 that the byte lacks
  static constexpr uint16_t kLimit = 0x3f00;       // 448: larger magnitudes become that
  static constexpr uint16_t kNan = 0x3f80;         // the source of a NaN's byte
  static constexpr bool kNanIsFinite = true;       // NaN looks like 480 here
  static constexpr uint8_t kLastNumber = 0x7e;     // magnitudes above are NaN
  static constexpr float kLargest = 448 / kTimes;  // kLimit as a number

  template <class V>
  static HWY_INLINE V from_upper(V bytes) {
    const hn::DFromV<V> d;
    const hn::RebindToSigned<decltype(d)> di;
    const auto halved = hn::BitCast(d, hn::ShiftRight<1>(hn::BitCast(di, bytes)));
    return hn::And(halved, hn::Set(d, uint16_t{0xbf80}));
  }
  template <class V>
  static HWY_INLINE V from_lower(V bytes) {
    return from_upper(hn::ShiftLeft<8>(bytes));
  }
};

struct E5m2AsHalf {
  static constexpr float kTimes = 1;
  static constexpr int kDropped = 8;
  static constexpr uint16_t kLimit = 0x7e00;  // NaN, made quiet by the conversion to fp16
  static constexpr uint16_t kNan = 0x7e00;
  static constexpr bool kNanIsFinite = false;
  static constexpr uint8_t kLastNumber = 0x7c;
  static constexpr float kLargest = 65536;  // fp16's infinity

  template <class V>
  static HWY_INLINE V from_upper(V bytes) {
    return hn::And(bytes, hn::Set(hn::DFromV<V>(), uint16_t{0xff00}));
  }
  template <class V>
  static HWY_INLINE V from_lower(V bytes) {
    return hn::ShiftLeft<8>(bytes);
  }
};

// Turns an fp16 without its sign into the byte in the upper half of the lane, rounded to nearest
// even; the lower half is zero.
template <class Format, class V>
HWY_INLINE V to_upper(V magnitude) {
  const hn::DFromV<V> d;
  constexpr int kDropped = Format::kDropped;
  const auto limited = hn::Min(magnitude, hn::Set(d, Format::kLimit));
  const auto odd = hn::And(hn::ShiftRight<kDropped>(limited), hn::Set(d, uint16_t{1}));
  constexpr uint16_t kBelowHalf = (1 << (kDropped - 1)) - 1;
  const auto rounded = hn::Add(hn::Add(limited, odd), hn::Set(d, kBelowHalf));
  return hn::And(hn::ShiftLeft<8 - kDropped>(rounded), hn::Set(d, uint16_t{0x7f00}));
}
struct E4m3 : SmallFloat<uint8_t, 4, 3, true> {
  using AsHalf = E4m3AsHalf;
};
struct E5m2 : SmallFloat<uint8_t, 5, 2, false> {
  using AsHalf = E5m2AsHalf;
};

#if HWY_TARGET == HWY_SCALAR
// Highway's scalar conversions truncate and know no infinities.
using Float16 = SmallFloat<uint16_t, 5, 10, false>;
#else
struct Float16 {
  using Bits = uint16_t;
  static constexpr int kMantissaBits = 10;
  static constexpr int kSmallestExponent = -14;

  template <class D, class V>
  static HWY_INLINE hn::Vec<FloatOf<D>> decode(D, V bits) {
    return hn::PromoteTo(FloatOf<D>(), hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> encode(D d, hn::Vec<FloatOf<D>> value) {
    return encode_any_nan(d, one_nan(value));
  }
  // The same, but any NaN becomes some NaN.
  template <class D>
  static HWY_INLINE hn::Vec<D> encode_any_nan(D d, hn::Vec<FloatOf<D>> value) {
    return hn::BitCast(d, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), value));
  }
};
#endif

// Rounds fp32 bits to a multiple of 2^16 in the upper half; the lower half is undefined. NaN: its
// payload must not be in the lower half alone.
template <class V>
HWY_INLINE V round_to_upper_half(V bits) {
  const hn::DFromV<V> du;
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  return hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd);
}

// Two such roundings: the upper halves of the lanes of `even` and `odd`, interleaved.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_SVE  // has no average (Highway's there overflows)
template <class V>
HWY_INLINE V round_pairs(V even, V odd) {
  const auto upper = hn::Set(hn::DFromV<V>(), 0xffff0000u);
  return hn::Or(hn::ShiftRight<16>(round_to_upper_half(even)),
                hn::And(round_to_upper_half(odd), upper));
}
#else
// The kept and the dropped bits are in 16-bit lanes, so one addition rounds both: an average has
// room for its carry (1.1 times as fast).
template <class V>
HWY_INLINE V round_pairs(V even, V odd) {
  const hn::DFromV<V> d;
  const hn::Repartition<uint16_t, decltype(d)> half;
  const auto kept =
      hn::OddEven(hn::BitCast(half, odd), hn::BitCast(half, hn::ShiftRight<16>(even)));
  const auto dropped =
      hn::OddEven(hn::BitCast(half, hn::ShiftLeft<16>(odd)), hn::BitCast(half, even));
  const auto below_half =
      hn::OrAnd(hn::Set(half, uint16_t{0x7ffe}), kept, hn::Set(half, uint16_t{1}));
  // (dropped + below_half + 1) / 2: its top bit is the carry out of 16.
  const auto sum = hn::AverageRound(dropped, below_half);
  return hn::BitCast(d, hn::Add(kept, hn::ShiftRight<15>(sum)));
}
#endif

struct Bfloat16 {
  using Bits = uint16_t;
  static constexpr int kMantissaBits = 7;
  static constexpr int kSmallestExponent = -126;

  template <class D, class V>
  static HWY_INLINE hn::Vec<FloatOf<D>> decode(D, V bits) {
    const UintOf<D> du;
    return hn::BitCast(FloatOf<D>(), hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> encode(D d, hn::Vec<FloatOf<D>> value) {
    const UintOf<D> du;
    const auto bits = hn::BitCast(du, value);
    const auto nan = hn::RebindMask(du, hn::IsNaN(value));
    const auto upper = hn::IfThenElse(nan, hn::Set(du, 0x7fc00000u), round_to_upper_half(bits));
    return hn::TruncateTo(d, hn::ShiftRight<16>(upper));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace ringwood
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
