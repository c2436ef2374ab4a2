// How vectors of numbers in memory become vectors for computing, for one instruction set; Highway
// includes this once per target.
#if defined(RINGWOOD_REDUCE_PARTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGWOOD_REDUCE_PARTS_INL_H_
#undef RINGWOOD_REDUCE_PARTS_INL_H_
#else
#define RINGWOOD_REDUCE_PARTS_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "collectives/kernels/reduce_kernels-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ringwood {
namespace HWY_NAMESPACE {

// `Parts` has a tag D of the vectors in memory; part<k, Op, kTwo>() for k < kParts, the elements
// that are computed together; and join<Op, kTwo>(), which makes their vector again, rounded, with
// the one NaN of results (reduce.h) or, where kKeepsNan, with the NaN of the parts. kTwo: they are,
// or become, the sum, product or choice of only two elements; then keep_nan() follows.

template <class T>
struct Whole {
  using D = hn::ScalableTag<T>;
  static constexpr int kParts = 1;
  static constexpr bool kKeepsNan = false;
  template <int kPart, class Op, bool kTwo, class V>
  static HWY_INLINE V part(V v) {
    return v;
  }
  template <class Op, bool kTwo, class V>
  static HWY_INLINE V join(V v) {
    if constexpr (std::is_floating_point_v<T>) {
      if constexpr (!Op::kChooses) return one_nan(v);
    }
    return v;
  }
};

template <class Codec>
struct Decoded {
  using D = hn::Rebind<typename Codec::Bits, hn::ScalableTag<float>>;
  static constexpr int kParts = 1;
  static constexpr bool kKeepsNan = true;
  template <int kPart, class Op, bool kTwo, class V>
  static HWY_INLINE hn::Vec<FloatOf<D>> part(V v) {
    return Codec::decode(D(), v);
  }
  template <class Op, bool kTwo, class V>
  static HWY_INLINE hn::Vec<D> join(V v) {
    return Codec::encode_any_nan(D(), v);
  }
};

// Two bfloat16 in each 32-bit lane, as even and odd floats: no lane moves, as it would in unpacking
// and packing (1.7 times as fast). Sums, products and quotients of bfloat16 have no NaN whose
// payload is in the lower half alone.
struct BfloatPairs {
  using D = hn::ScalableTag<uint32_t>;
  static constexpr int kParts = 2;
  static constexpr bool kKeepsNan = true;
  template <int kPart, class Op, bool kTwo, class V>
  static HWY_INLINE hn::Vec<FloatOf<D>> part(V v) {
    const FloatOf<D> df;
    if constexpr (kPart == 0) return hn::BitCast(df, hn::ShiftLeft<16>(v));
    return hn::BitCast(df, hn::And(v, hn::Set(D(), 0xffff0000u)));
  }
  template <class Op, bool kTwo, class V>
  static HWY_INLINE hn::Vec<D> join(V even, V odd) {
    const D d;
    if constexpr (Op::kChooses) {
      return hn::Or(hn::ShiftRight<16>(hn::BitCast(d, even)), hn::BitCast(d, odd));
    } else {
      return round_pairs(hn::BitCast(d, even), hn::BitCast(d, odd));
    }
  }
};

#if HWY_TARGET == HWY_SCALAR
template <class Codec>
using ByteParts = Decoded<Codec>;
#else
// Two 8-bit floats in each 16-bit lane, viewed as even and odd fp16 (see E4m3AsHalf); each of the
// two fills a vector of fp32. Sums and choices are computed with values that are as much too small
// as the fp16 are.
template <class Codec>
struct ByteParts {
  using D = hn::ScalableTag<uint16_t>;
  using AsHalf = typename Codec::AsHalf;
  static constexpr int kParts = 4;
  static constexpr bool kKeepsNan = false;
  template <class Op>
  static constexpr bool kScales = AsHalf::kTimes != 1 && std::is_same_v<Op, Multiply>;

  template <int kPart, class Op, bool kTwo, class V>
  static HWY_INLINE hn::Vec<hn::ScalableTag<float>> part(V v) {
    const hn::Half<D> half;
    auto bits = kPart % 2 == 0 ? AsHalf::from_lower(v) : AsHalf::from_upper(v);
    if constexpr (!kTwo) bits = with_nan(bits);
    const auto x = Float16::decode(
        half, kPart / 2 == 0 ? hn::LowerHalf(half, bits) : hn::UpperHalf(half, bits));
    if constexpr (kScales<Op>) return hn::Mul(x, hn::Set(hn::ScalableTag<float>(), AsHalf::kTimes));
    return x;
  }

  template <class Op, bool kTwo, class V>
  static HWY_INLINE hn::Vec<D> join(V lower_even, V lower_odd, V upper_even, V upper_odd) {
    const D d;
    const auto even = hn::Combine(d, half<Op, kTwo>(upper_even), half<Op, kTwo>(lower_even));
    const auto odd = hn::Combine(d, half<Op, kTwo>(upper_odd), half<Op, kTwo>(lower_odd));
    const auto bytes = hn::Or(hn::ShiftRight<8>(byte<kTwo>(even)), byte<kTwo>(odd));
    if constexpr (kTwo && AsHalf::kNanIsFinite) return bytes;
    return one_nan_each(bytes);
  }

  // The NaN of two operands, which part() has turned into numbers: found in all bytes at a time.
  template <class V>
  static HWY_INLINE V keep_nan(V result, V a, V b) {
    if constexpr (!AsHalf::kNanIsFinite) return result;
    const hn::Repartition<uint8_t, D> d8;
    const auto all = hn::Set(d8, uint8_t{0xff});
    const auto sign = hn::Set(d8, uint8_t{0x80});
    const auto nan = hn::Or(hn::Eq(hn::Or(hn::BitCast(d8, a), sign), all),
                            hn::Eq(hn::Or(hn::BitCast(d8, b), sign), all));
    const auto kept = hn::IfThenElse(nan, hn::Set(d8, uint8_t{0x7f}), hn::BitCast(d8, result));
    return hn::BitCast(D(), kept);
  }

 private:
  template <class V>
  static HWY_INLINE V one_nan_each(V pairs) {
    const hn::Repartition<uint8_t, D> d8;
    const auto bytes = hn::BitCast(d8, pairs);
    const auto magnitude = hn::And(bytes, hn::Set(d8, uint8_t{0x7f}));
    const auto nan = less(hn::Set(d8, AsHalf::kLastNumber), magnitude);
    return hn::BitCast(D(), hn::IfThenElse(nan, hn::Set(d8, uint8_t{0x7f}), bytes));
  }

  // In e4m3's fp16 a NaN looks like the number below 2. Adding one in its last place carries into
  // the bit that makes it fp16's NaN.
  template <class V>
  static HWY_INLINE V with_nan(V half) {
    if constexpr (!AsHalf::kNanIsFinite) return half;
    const D d;
    const auto carry = hn::Add(half, hn::Set(d, uint16_t{1 << AsHalf::kDropped}));
    return hn::Or(half, hn::And(carry, hn::Set(d, uint16_t{0x4000})));
  }

  // fp16 to the upper half of its lane. With two operands, rounding to fp16 before rounding to 8
  // bits changes nothing: what fp16 cannot represent of the result is never near the middle between
  // two 8-bit floats (the tests check all pairs). With more operands the value was rounded before,
  // and is exact here.
  template <bool kTwo, class V>
  static HWY_INLINE V byte(V half) {
    const D d;
    const auto sign = hn::And(half, hn::Set(d, uint16_t{0x8000}));
    const auto magnitude = hn::Xor(half, sign);
    if constexpr (!kTwo) {
      const auto limited = hn::Min(magnitude, hn::Set(d, AsHalf::kNan));
      return hn::Or(hn::ShiftLeft<8 - AsHalf::kDropped>(limited), sign);
    } else {
      return hn::Or(to_upper<AsHalf>(magnitude), sign);
    }
  }

  template <class Op, bool kTwo, class V>
  static HWY_INLINE auto half(V value) {
    const hn::DFromV<V> df;
    if constexpr (kScales<Op>) value = hn::Mul(value, hn::Set(df, 1 / AsHalf::kTimes));
    if constexpr (kTwo)
      return Float16::encode_any_nan(hn::Half<D>(), value);
    else
      return Float16::encode_any_nan(hn::Half<D>(), round_to_byte(value));
  }

  // The nearest fp32 that is an 8-bit float, ties to even. Adding and subtracting 1.5 times a power
  // of two, whose last bit is that of the result, makes the adder round.
  template <class V>
  static HWY_INLINE V round_to_byte(V value) {
    const hn::DFromV<V> df;
    const hn::RebindToUnsigned<decltype(df)> du;
    // In this order Min keeps NaN.
    const auto magnitude = hn::Min(hn::Set(df, AsHalf::kLargest), hn::Abs(value));
    const auto exponent = hn::And(magnitude, hn::BitCast(df, hn::Set(du, 0x7f800000u)));
    constexpr float kSmallestNormal = 1.0f / (1 << 14);
    constexpr float kLastBit = 1.5f * (1 << (13 + AsHalf::kDropped));
    const auto adder =
        hn::Mul(hn::Max(exponent, hn::Set(df, kSmallestNormal)), hn::Set(df, kLastBit));
    return hn::CopySignToAbs(hn::Sub(hn::Add(magnitude, adder), adder), value);
  }
};
#endif

}  // namespace HWY_NAMESPACE
}  // namespace ringwood
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
