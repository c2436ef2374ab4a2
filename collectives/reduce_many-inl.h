// Many operands to many results, for one instruction set; Highway includes this once per target.
//
// A vector of every operand is loaded, taken apart into vectors of the type that computes, folded
// from left to right in registers, rounded once and stored to every destination. What is left at
// the end is handled as in reduce_kernels-inl.h: the last full vector is computed first, stored
// last.
#if defined(RINGWOOD_REDUCE_MANY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGWOOD_REDUCE_MANY_INL_H_
#undef RINGWOOD_REDUCE_MANY_INL_H_
#else
#define RINGWOOD_REDUCE_MANY_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "collectives/reduce_kernels-inl.h"
#include "collectives/reduce_kernels.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ringwood {
namespace HWY_NAMESPACE {

// ---- how a vector is taken apart ---------------------------------------------------------------

// `Parts` has a tag D of the vectors in memory, part<k, Op, kTwo>() for k < kParts, the elements
// that are computed together, and join<Op, kTwo>(), their vector again, rounded. kTwo: they are, or
// become, the sum, product or choice of two elements, not of more; then keep_nan() follows.

template <class T>
struct Whole {
  using D = hn::ScalableTag<T>;
  static constexpr int kParts = 1;
  template <int kPart, class Op, bool kTwo, class V>
  static HWY_INLINE V part(V v) {
    return v;
  }
  template <class Op, bool kTwo, class V>
  static HWY_INLINE V join(V v) {
    return v;
  }
};

template <class Codec>
struct Decoded {
  using D = hn::Rebind<typename Codec::Bits, hn::ScalableTag<float>>;
  static constexpr int kParts = 1;
  template <int kPart, class Op, bool kTwo, class V>
  static HWY_INLINE hn::Vec<FloatOf<D>> part(V v) {
    return Codec::decode(D(), v);
  }
  template <class Op, bool kTwo, class V>
  static HWY_INLINE hn::Vec<D> join(V v) {
    return Codec::encode(D(), v);
  }
};

// Two bfloat16 in each 32-bit lane, as even and odd floats: no lane is moved, which unpacking and
// packing would do (1.7 times as fast as they are). Sums, products and quotients of bfloat16 have
// no NaN whose payload is in the lower half alone.
struct BfloatPairs {
  using D = hn::ScalableTag<uint32_t>;
  static constexpr int kParts = 2;
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
// Two 8-bit floats in each 16-bit lane, seen as even and odd fp16 (see E4m3AsHalf), each half of
// which fills a vector of fp32. Sums and choices are computed as many times too small as the fp16
// are.
template <class Codec>
struct ByteParts {
  using D = hn::ScalableTag<uint16_t>;
  using AsHalf = typename Codec::AsHalf;
  static constexpr int kParts = 4;
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
    return hn::Or(hn::ShiftRight<8>(byte<kTwo>(even)), byte<kTwo>(odd));
  }

  // The NaN of two operands, of which part() has made numbers: found in all bytes at a time.
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
  // In e4m3's fp16 a NaN looks like the number below 2. One more in its last place carries into the
  // bit that makes it fp16's NaN.
  template <class V>
  static HWY_INLINE V with_nan(V half) {
    if constexpr (!AsHalf::kNanIsFinite) return half;
    const D d;
    const auto carry = hn::Add(half, hn::Set(d, uint16_t{1 << AsHalf::kDropped}));
    return hn::Or(half, hn::And(carry, hn::Set(d, uint16_t{0x4000})));
  }

  // fp16 to the upper half of its lane. Rounding to fp16 before rounding to 8 bits changes nothing
  // for two: what fp16 cannot hold of them is never near the middle between two 8-bit floats (the
  // tests go through all pairs). More are rounded before, and exact here.
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
      return Float16::encode(hn::Half<D>(), value);
    else
      return Float16::encode(hn::Half<D>(), round_to_byte(value));
  }

  // The nearest fp32 that is an 8-bit float, ties to even. Adding and subtracting 1.5 times a power
  // of two, whose last bit is that of the result, makes the adder do the rounding.
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

// ---- the fold ----------------------------------------------------------------------------------

// A sum whose result is divided.
struct AddThenFinish : Add {};

template <class Op, class V>
HWY_INLINE V finished(V v, const Finish& finish) {
  if constexpr (std::is_same_v<Op, AddThenFinish>) {
    const hn::DFromV<V> d;
    using T = hn::TFromD<decltype(d)>;
    const auto by = hn::Set(d, static_cast<T>(finish.by));
    return finish.multiplies ? hn::Mul(v, by) : hn::Div(v, by);
  } else {
    return v;
  }
}

// Where the operands' vectors come from. However many there are, they are read side by side: one
// after the other into a tile in the first cache is 1.3 to 3 times slower up to 32 operands, and
// even at 64.
struct AnySources {
  const void* const* at;  // plain: a checked index would be in the innermost loop
  size_t number;
  size_t count() const { return number; }
  template <class D>
  HWY_INLINE hn::Vec<D> get(D d, size_t which, size_t from) const {
    return load(d, static_cast<const uint8_t*>(at[which]) + from);
  }
};
// A number known to the compiler, which is up to 1.7 times as fast (bfloat16 on AVX2).
struct TwoSources {
  const uint8_t *first, *second;
  static constexpr size_t count() { return 2; }
  template <class D>
  HWY_INLINE hn::Vec<D> get(D d, size_t which, size_t from) const {
    return load(d, (which == 0 ? first : second) + from);
  }
};
// Fewer bytes than a vector has.
struct ShortSources {
  std::span<const void* const> at;
  size_t bytes;
  size_t count() const { return at.size(); }
  template <class D>
  HWY_INLINE hn::Vec<D> get(D d, size_t which, size_t) const {
    uint8_t padded[kVectorBytes] = {};
    std::memcpy(padded, at[which], bytes);
    return load(d, padded);
  }
};

// Four chains are folded side by side, which hides the latency of their operations: the parts of
// one vector, or of neighbours.
template <class Parts>
constexpr int kBlockVectors = 4 / Parts::kParts;

template <class Op, class Sources>
constexpr bool kIsPair = std::is_same_v<Sources, TwoSources> && !std::is_same_v<Op, AddThenFinish>;

template <class Parts, int kChain, class Op, class Sources>
HWY_INLINE auto operand(const Sources& sources, size_t which, size_t from) {
  const typename Parts::D d;
  const size_t at = from + kChain / Parts::kParts * bytes_of(d);
  return Parts::template part<kChain % Parts::kParts, Op, kIsPair<Op, Sources>>(
      sources.get(d, which, at));
}

template <class Parts, class Op, int kChain, class Sources>
HWY_INLINE auto fold_chain(const Sources& sources, size_t from, const Finish& finish) {
  auto result = operand<Parts, kChain, Op>(sources, 0, from);
  for (size_t k = 1; k < sources.count(); ++k) {
    result = Op::apply(result, operand<Parts, kChain, Op>(sources, k, from));
  }
  return finished<Op>(result, finish);
}

// One vector.
template <class Parts, class Op, class Sources>
HWY_INLINE auto fold(const Sources& sources, size_t from, const Finish& finish) {
  const auto first = fold_chain<Parts, Op, 0>(sources, from, finish);
  if constexpr (Parts::kParts == 1) {
    return Parts::template join<Op, false>(first);
  } else if constexpr (Parts::kParts == 2) {
    return Parts::template join<Op, false>(first, fold_chain<Parts, Op, 1>(sources, from, finish));
  } else {
    return Parts::template join<Op, false>(first, fold_chain<Parts, Op, 1>(sources, from, finish),
                                           fold_chain<Parts, Op, 2>(sources, from, finish),
                                           fold_chain<Parts, Op, 3>(sources, from, finish));
  }
}

template <class D, class... Vs>
HWY_INLINE void store_to_all(D d, std::span<void* const> dsts, size_t from, Vs... vectors) {
  for (void* dst : dsts) {
    uint8_t* to = static_cast<uint8_t*>(dst) + from;
    ((store(d, vectors, to), to += bytes_of(d)), ...);
  }
}

// A block goes to one destination after the other: stores that alternate between them, a vector
// each, are not combined to cache lines where they are not aligned (up to 2.5 times slower).
template <class Parts, class Op, class Sources>
HWY_INLINE void fold_block(const Sources& sources, size_t from, const Operands& operands) {
  const typename Parts::D d;
  auto a = operand<Parts, 0, Op>(sources, 0, from), b = operand<Parts, 1, Op>(sources, 0, from);
  auto c = operand<Parts, 2, Op>(sources, 0, from), e = operand<Parts, 3, Op>(sources, 0, from);
  for (size_t k = 1; k < sources.count(); ++k) {
    a = Op::apply(a, operand<Parts, 0, Op>(sources, k, from));
    b = Op::apply(b, operand<Parts, 1, Op>(sources, k, from));
    c = Op::apply(c, operand<Parts, 2, Op>(sources, k, from));
    e = Op::apply(e, operand<Parts, 3, Op>(sources, k, from));
  }
  constexpr bool kTwo = kIsPair<Op, Sources>;
  const Finish& finish = operands.finish;
  a = finished<Op>(a, finish), b = finished<Op>(b, finish);
  c = finished<Op>(c, finish), e = finished<Op>(e, finish);
  if constexpr (Parts::kParts == 1) {
    store_to_all(d, operands.dsts, from, Parts::template join<Op, kTwo>(a),
                 Parts::template join<Op, kTwo>(b), Parts::template join<Op, kTwo>(c),
                 Parts::template join<Op, kTwo>(e));
  } else if constexpr (Parts::kParts == 2) {
    store_to_all(d, operands.dsts, from, Parts::template join<Op, kTwo>(a, b),
                 Parts::template join<Op, kTwo>(c, e));
  } else {
    auto joined = Parts::template join<Op, kTwo>(a, b, c, e);
    if constexpr (kTwo) {
      joined = Parts::keep_nan(joined, sources.get(d, 0, from), sources.get(d, 1, from));
    }
    store_to_all(d, operands.dsts, from, joined);
  }
}

// Returns where it stopped, less than a block before the end.
template <class Parts, class Op, class Sources>
HWY_INLINE size_t fold_blocks(const Sources& sources, size_t end, const Operands& operands) {
  const size_t block = kBlockVectors<Parts> * bytes_of(typename Parts::D());
  size_t i = 0;
  for (; i + block <= end; i += block) fold_block<Parts, Op>(sources, i, operands);
  return i;
}

// The first `end` bytes, a multiple of the vector's.
template <class Parts, class Op>
void fold_vectors(const Operands& operands, size_t end) {
  const typename Parts::D d;
  const AnySources any{operands.srcs.data(), operands.srcs.size()};
  size_t i = 0;
  if (operands.srcs.size() == 2) {
    const TwoSources two{static_cast<const uint8_t*>(operands.srcs[0]),
                         static_cast<const uint8_t*>(operands.srcs[1])};
    i = fold_blocks<Parts, Op>(two, end, operands);
  } else {
    i = fold_blocks<Parts, Op>(any, end, operands);
  }
  for (; i < end; i += bytes_of(d)) {
    store_to_all(d, operands.dsts, i, fold<Parts, Op>(any, i, operands.finish));
  }
}

template <class Parts, class Op>
void fold_into(const Operands& operands) {
  const typename Parts::D d;
  const size_t vector = bytes_of(d), bytes = operands.bytes;
  const std::span<void* const> dsts = operands.dsts;
  if (HWY_UNLIKELY(bytes < vector)) {
    const ShortSources sources{operands.srcs, bytes};
    uint8_t result[kVectorBytes];
    store(d, fold<Parts, Op>(sources, 0, operands.finish), result);
    for (void* dst : dsts) std::memcpy(dst, result, bytes);
    return;
  }
  const size_t rest = bytes % vector;
  if (rest == 0) return fold_vectors<Parts, Op>(operands, bytes);
  const size_t last = bytes - vector;
  const AnySources sources{operands.srcs.data(), operands.srcs.size()};
  const auto tail = fold<Parts, Op>(sources, last, operands.finish);
  fold_vectors<Parts, Op>(operands, bytes - rest);
  store_to_all(d, dsts, last, tail);
}

}  // namespace HWY_NAMESPACE
}  // namespace ringwood
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
