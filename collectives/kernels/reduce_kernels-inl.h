// Loops over memory and the operations in them, for one instruction set; Highway includes this
// once per target.
//
// A *step* computes one vector of dst. All loops that run steps handle the rest at the end in the
// same way: the last full vector, which overlaps the one before it, is computed first and stored
// last, so it reads the old contents and no element is reduced twice. Fewer bytes than a vector go
// through a buffer.
#if defined(RINGWOOD_REDUCE_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGWOOD_REDUCE_KERNELS_INL_H_
#undef RINGWOOD_REDUCE_KERNELS_INL_H_
#else
#define RINGWOOD_REDUCE_KERNELS_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "collectives/kernels/reduce_codecs-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ringwood {
namespace HWY_NAMESPACE {

// ---- memory ------------------------------------------------------------------------------------

// Highway's scalar loads need alignment, and the callers' buffers may have other types.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const uint8_t* from) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_SCALAR
  T value;
  std::memcpy(&value, from, sizeof(T));
  return hn::Set(d, value);
#else
  return hn::LoadU(d, reinterpret_cast<const T*>(from));
#endif
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, uint8_t* to) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_SCALAR
  (void)d;
  const T value = hn::GetLane(v);
  std::memcpy(to, &value, sizeof(T));
#else
  hn::StoreU(v, d, reinterpret_cast<T*>(to));
#endif
}

template <class D>
HWY_INLINE size_t bytes_of(D d) {
  return hn::Lanes(d) * sizeof(hn::TFromD<D>);
}

constexpr size_t kVectorBytes = HWY_MAX_BYTES;

// ---- loops -------------------------------------------------------------------------------------

template <class Step>
void scale_by(void* dst_start, size_t bytes, double factor) {
  const typename Step::D d;
  const size_t vector = bytes_of(d);
  auto* dst = static_cast<uint8_t*>(dst_start);
  if (HWY_UNLIKELY(bytes < vector)) {
    uint8_t a[kVectorBytes] = {};
    std::memcpy(a, dst, bytes);
    scale_by<Step>(a, vector, factor);
    std::memcpy(dst, a, bytes);
    return;
  }
  const size_t last = bytes - vector;
  const auto tail = Step::apply(load(d, dst + last), factor);
  for (size_t i = 0; i < last; i += vector) {
    store(d, Step::apply(load(d, dst + i), factor), dst + i);
  }
  store(d, tail, dst + last);
}

template <class Op, class V>
HWY_INLINE V into(V wide, V operand) {
  if constexpr (Op::kKeepsNan) return Op::apply(wide, operand);
  return one_nan(Op::apply(wide, operand));
}

// `count` elements of Codec on one side, fp32 on the other.
template <class Codec, class Op>
void into_wide(float* wide_start, const void* src_start, size_t count) {
  const hn::ScalableTag<float> df;
  const hn::Rebind<typename Codec::Bits, decltype(df)> d;
  const size_t lanes = hn::Lanes(df);
  constexpr size_t kSize = sizeof(typename Codec::Bits);
  auto* wide = reinterpret_cast<uint8_t*>(wide_start);
  const auto* src = static_cast<const uint8_t*>(src_start);
  if (HWY_UNLIKELY(count < lanes)) {
    float a[kVectorBytes / sizeof(float)] = {};
    uint8_t b[kVectorBytes] = {};
    std::memcpy(a, wide, count * sizeof(float));
    std::memcpy(b, src, count * kSize);
    into_wide<Codec, Op>(a, b, lanes);
    std::memcpy(wide, a, count * sizeof(float));
    return;
  }
  const size_t last = count - lanes;
  const auto tail = into<Op>(load(df, wide + last * sizeof(float)),
                             Codec::decode(d, load(d, src + last * kSize)));
  for (size_t i = 0; i < last; i += lanes) {
    uint8_t* at = wide + i * sizeof(float);
    store(df, into<Op>(load(df, at), Codec::decode(d, load(d, src + i * kSize))), at);
  }
  store(df, tail, wide + last * sizeof(float));
}

template <class Codec>
void narrow_to(void* dst_start, const float* wide_start, size_t count) {
  const hn::ScalableTag<float> df;
  const hn::Rebind<typename Codec::Bits, decltype(df)> d;
  const size_t lanes = hn::Lanes(df);
  constexpr size_t kSize = sizeof(typename Codec::Bits);
  auto* dst = static_cast<uint8_t*>(dst_start);
  const auto* wide = reinterpret_cast<const uint8_t*>(wide_start);
  if (HWY_UNLIKELY(count < lanes)) {
    float a[kVectorBytes / sizeof(float)] = {};
    uint8_t b[kVectorBytes];
    std::memcpy(a, wide, count * sizeof(float));
    narrow_to<Codec>(b, a, lanes);
    std::memcpy(dst, b, count * kSize);
    return;
  }
  const size_t last = count - lanes;
  const auto tail = Codec::encode(d, load(df, wide + last * sizeof(float)));
  for (size_t i = 0; i < last; i += lanes) {
    store(d, Codec::encode(d, load(df, wide + i * sizeof(float))), dst + i * kSize);
  }
  store(d, tail, dst + last * kSize);
}

// ---- operations on vectors ---------------------------------------------------------------------

struct Add {
  static constexpr bool kChooses = false, kKeepsNan = false;
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Add(a, b);
  }
};
struct Multiply {
  static constexpr bool kChooses = false, kKeepsNan = false;
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Mul(a, b);
  }
};
struct Divide {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Div(a, b);
  }
};
struct Second {
  static constexpr bool kKeepsNan = true;  // of either operand
  template <class V>
  static HWY_INLINE V apply(V, V b) {
    return b;
  }
};
struct BitAnd {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::And(a, b);
  }
};
struct BitOr {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Or(a, b);
  }
};
struct BitXor {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Xor(a, b);
  }
};
// Commutative and associative on bits, unlike the comparisons of any machine: -0 is less than 0,
// and there is one NaN. The results of (a, b) and of (b, a) have the same bits, except for two
// zeros, which differ in the sign only, and for NaN, which machines return or drop differently.
struct FloatMin {
  static constexpr bool kChooses = true;  // one of the operands unchanged, or NaN
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    const V one = hn::Min(a, b), other = hn::Min(b, a);
    return hn::IfThenElse(is_number(a, b, one, other), hn::Or(one, other), quiet_nan(a));
  }

  // Whether neither is NaN.
  template <class V>
  static HWY_INLINE auto is_number(V a, V b, V one, V other) {
#if HWY_TARGET == HWY_SCALAR  // drops NaN
    (void)one, (void)other;
    return hn::And(hn::Eq(a, a), hn::Eq(b, b));
#else  // returns NaN or the second operand
    (void)a, (void)b;
    return hn::Eq(one, other);
#endif
  }
};
struct FloatMax {
  static constexpr bool kChooses = true;
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    const V one = hn::Max(a, b), other = hn::Max(b, a);
    return hn::IfThenElse(FloatMin::is_number(a, b, one, other), hn::And(one, other), quiet_nan(a));
  }
};
struct IntMin {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Min(a, b);
  }
};
struct IntMax {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Max(a, b);
  }
};
// Two bytes in each 16-bit lane: there is no multiplication of bytes.
struct MultiplyBytes {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    const hn::DFromV<V> d;
    const auto low = hn::Set(d, uint16_t{0x00ff});
    const auto even = hn::And(hn::Mul(a, b), low);
    const auto odd = hn::Mul(hn::ShiftRight<8>(a), hn::AndNot(low, b));
    return hn::Or(even, odd);
  }
};

// ---- steps -------------------------------------------------------------------------------------

// Converts into float, or out of range to infinity.
template <class D>
HWY_INLINE hn::Vec<D> to_float(D df, hn::Vec<hn::Rebind<double, D>> value) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(df, static_cast<float>(hn::GetLane(value)));  // Highway's conversion saturates
#else
  return hn::DemoteTo(df, value);
#endif
}

// The nearest double that is a number of Codec's type, ties to even; numbers too large for fp32
// remain so. Adding and subtracting 1.5 times a power of two, whose last bit is that of the result,
// makes the adder round.
template <class Codec, class V>
HWY_INLINE V round_as(V value) {
  const hn::DFromV<V> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  constexpr double kLarge = 0x1p200;
  constexpr double kLastBit = 1.5 * static_cast<double>(uint64_t{1} << (52 - Codec::kMantissaBits));
  const auto smallest_normal =
      hn::BitCast(d, hn::Set(du, static_cast<uint64_t>(1023 + Codec::kSmallestExponent) << 52));
  const auto whole = hn::Abs(value);
  const auto magnitude =
      hn::IfThenElse(hn::Gt(whole, hn::Set(d, kLarge)), hn::Set(d, kLarge), whole);
  const auto exponent = hn::And(magnitude, hn::BitCast(d, hn::Set(du, uint64_t{0x7ff} << 52)));
  const auto adder = hn::Mul(hn::Max(exponent, smallest_normal), hn::Set(d, kLastBit));
  return hn::CopySignToAbs(hn::Sub(hn::Add(magnitude, adder), adder), value);
}

// Op is Multiply or Divide. Computed in double, which has the bits for any factor.
template <class Op>
struct ScaleFloat {
  using D = hn::Rebind<float, hn::ScalableTag<double>>;
  template <class V>
  static HWY_INLINE V apply(V v, double factor) {
    const hn::Rebind<double, D> dd;
    return one_nan(to_float(D(), Op::apply(hn::PromoteTo(dd, v), hn::Set(dd, factor))));
  }
};

// The same for narrow floats: the result is fp32 that Codec encodes exactly.
template <class Codec, class Op, class V>
HWY_INLINE V scale_in_double(V value, double factor) {
  const hn::DFromV<V> df;
  const hn::Rebind<double, decltype(df)> dd;
  const auto scaled = Op::apply(hn::PromoteTo(dd, value), hn::Set(dd, factor));
  return to_float(df, round_as<Codec>(scaled));
}

#if HWY_TARGET == HWY_SCALAR
template <class Codec, class Op>
struct ScaleNarrow {
  using D = hn::Rebind<typename Codec::Bits, hn::ScalableTag<float>>;
  template <class V>
  static HWY_INLINE V apply(V v, double factor) {
    const D d;
    return Codec::encode(d, scale_in_double<Codec, Op>(Codec::decode(d, v), factor));
  }
};
#else
// Computed in fp32 where that rounds to the same, which is nearly always (3 times as fast).
template <class Codec, class Op>
struct ScaleNarrow {
  using D = hn::Rebind<typename Codec::Bits, hn::ScalableTag<float>>;
  template <class V>
  static HWY_INLINE V apply(V v, double factor) {
    const D d;
    const FloatOf<D> df;
    const auto value = Codec::decode(d, v);
    const double magnitude = factor < 0 ? -factor : factor;
    const bool is_normal = magnitude >= 0x1p-126 && magnitude <= 0x1p127;
    const float narrow_factor = is_normal ? static_cast<float>(factor) : 1.0f;
    const auto scaled = Op::apply(value, hn::Set(df, narrow_factor));
    if (HWY_LIKELY(is_normal && hn::AllFalse(UintOf<D>(), is_unsure(scaled)))) {
      return Codec::encode(d, scaled);
    }
    const hn::Half<FloatOf<D>> half;
    const auto lower = scale_in_double<Codec, Op>(hn::LowerHalf(half, value), factor);
    const auto upper = scale_in_double<Codec, Op>(hn::UpperHalf(half, value), factor);
    return Codec::encode(d, hn::Combine(df, upper, lower));
  }

 private:
  // The roundings of the factor and of the result move it by less than 2 units in its last
  // place. So it may be rounded differently only if it is closer than that to the middle between
  // two numbers of the type. Subnormal numbers have their middles elsewhere; below those of
  // fp32, all are zero.
  template <class V>
  static HWY_INLINE auto is_unsure(V scaled) {
    const UintOf<D> du;
    constexpr uint32_t kUnit = 1u << (23 - Codec::kMantissaBits);
    constexpr auto kNormal = static_cast<uint32_t>(127 + Codec::kSmallestExponent) << 23;
    const auto bits = hn::BitCast(du, scaled);
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
    const auto past_middle =
        hn::And(hn::Add(bits, hn::Set(du, kUnit / 2 + 2)), hn::Set(du, kUnit - 1));
    const auto near_middle = less(past_middle, hn::Set(du, 5u));
    const auto subnormal =
        hn::And(less(magnitude, hn::Set(du, kNormal)), less(hn::Zero(du), magnitude));
    return hn::Or(near_middle, subnormal);
  }
};
#endif

}  // namespace HWY_NAMESPACE
}  // namespace ringwood
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
