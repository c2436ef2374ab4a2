// Many operands to many results, for one instruction set; Highway includes this once per target.
//
// A vector of every operand is loaded, split into vectors of the type that computes, folded from
// left to right in registers, rounded once and stored to every destination. The rest at the end is
// handled as in reduce_kernels-inl.h: the last full vector is computed first and stored last.
#if defined(RINGWOOD_REDUCE_MANY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGWOOD_REDUCE_MANY_INL_H_
#undef RINGWOOD_REDUCE_MANY_INL_H_
#else
#define RINGWOOD_REDUCE_MANY_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "collectives/kernels/reduce_kernels-inl.h"
#include "collectives/kernels/reduce_kernels.h"
#include "collectives/kernels/reduce_parts-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ringwood {
namespace HWY_NAMESPACE {

// ---- the fold ----------------------------------------------------------------------------------

// A sum whose result is finished: of the operands unchanged, or each times its own factor.
struct AddThenFinish : Add {};
struct AddScaled : Add {};
template <class Op>
constexpr bool kScales = std::is_same_v<Op, AddScaled>;
template <class Op>
constexpr bool kFinishes = std::is_same_v<Op, AddThenFinish> || kScales<Op>;

template <class V>
HWY_INLINE V times(V v, double factor) {
  const hn::DFromV<V> d;
  return hn::Mul(v, hn::Set(d, static_cast<hn::TFromD<decltype(d)>>(factor)));
}

template <class V>
HWY_INLINE V finished(V v, const Finish& finish) {
  const hn::DFromV<V> d;
  const auto by = hn::Set(d, static_cast<hn::TFromD<decltype(d)>>(finish.by));
  return finish.multiplies ? hn::Mul(v, by) : hn::Div(v, by);
}

// Provides the operands' vectors. However many operands there are, they are read side by side:
// reading one after the other into a tile in the first cache is 1.3 to 3 times slower up to 32
// operands, and equal at 64.
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
// one vector, or of neighbouring vectors.
template <class Parts>
constexpr int kBlockVectors = 4 / Parts::kParts;

template <class Op, class Sources>
constexpr bool kIsPair = std::is_same_v<Sources, TwoSources> && !kFinishes<Op>;

template <class Parts, int kChain, class Op, class Sources>
HWY_INLINE auto operand(const Sources& sources, size_t which, size_t from, const Operands& how) {
  const typename Parts::D d;
  const size_t at = from + kChain / Parts::kParts * bytes_of(d);
  const auto value = Parts::template part<kChain % Parts::kParts, Op, kIsPair<Op, Sources>>(
      sources.get(d, which, at));
  if constexpr (kScales<Op>) return times(value, how.scales[which]);
  return value;
}

// For a sum beyond the largest number whose quotient is not: adds again, with operands smaller by
// the factor `down`.
template <class Parts, int kChain, class Sources, class V>
HWY_NOINLINE V added_up_smaller(V result, const Sources& sources, size_t from,
                                const Operands& how) {
  const double down = how.finish.down;
  auto sum = times(operand<Parts, kChain, AddThenFinish>(sources, 0, from, how), down);
  for (size_t k = 1; k < sources.count(); ++k) {
    const auto next = operand<Parts, kChain, AddThenFinish>(sources, k, from, how);
    sum = Add::apply(sum, times(next, down));
  }
  const Finish finish{how.finish.multiplies,
                      how.finish.multiplies ? how.finish.by / down : how.finish.by * down};
  return hn::IfThenElse(hn::IsFinite(result), result, finished(sum, finish));
}

template <class Parts, int kChain, class Op, class Sources, class V>
HWY_INLINE V ended(V sum, const Sources& sources, size_t from, const Operands& how) {
  if constexpr (!kFinishes<Op>) {
    return sum;
  } else {
    const V result = finished(sum, how.finish);
    if constexpr (!kScales<Op>) {
      const hn::DFromV<V> d;
      if (HWY_UNLIKELY(!hn::AllTrue(d, hn::IsFinite(result))))
        return added_up_smaller<Parts, kChain>(result, sources, from, how);
    }
    return result;
  }
}

// MIN and MAX return only one NaN themselves.
template <class Parts, class Op>
constexpr bool kMakesOneNan = Parts::kKeepsNan &&
                              (std::is_base_of_v<Add, Op> || std::is_same_v<Op, Multiply>);

template <class Parts, class Op, int kChain, class Sources>
HWY_INLINE auto fold_chain(const Sources& sources, size_t from, const Operands& how) {
  auto result = operand<Parts, kChain, Op>(sources, 0, from, how);
  for (size_t k = 1; k < sources.count(); ++k) {
    result = Op::apply(result, operand<Parts, kChain, Op>(sources, k, from, how));
  }
  result = ended<Parts, kChain, Op>(result, sources, from, how);
  if constexpr (kMakesOneNan<Parts, Op>) result = one_nan(result);
  return result;
}

// One vector.
template <class Parts, class Op, class Sources>
HWY_INLINE auto fold(const Sources& sources, size_t from, const Operands& how) {
  const auto first = fold_chain<Parts, Op, 0>(sources, from, how);
  if constexpr (Parts::kParts == 1) {
    return Parts::template join<Op, false>(first);
  } else if constexpr (Parts::kParts == 2) {
    return Parts::template join<Op, false>(first, fold_chain<Parts, Op, 1>(sources, from, how));
  } else {
    return Parts::template join<Op, false>(first, fold_chain<Parts, Op, 1>(sources, from, how),
                                           fold_chain<Parts, Op, 2>(sources, from, how),
                                           fold_chain<Parts, Op, 3>(sources, from, how));
  }
}

template <class D, class... Vs>
HWY_INLINE void store_to_all(D d, std::span<void* const> dsts, size_t from, Vs... vectors) {
  for (void* dst : dsts) {
    uint8_t* to = static_cast<uint8_t*>(dst) + from;
    ((store(d, vectors, to), to += bytes_of(d)), ...);
  }
}

// A block is stored to one destination after the other: stores that alternate between
// destinations, vector by vector, are not combined to cache lines where they are not aligned (up
// to 2.5 times slower).
template <class Parts, class Op, class Sources>
HWY_INLINE void fold_block(const Sources& sources, size_t from, const Operands& operands) {
  const typename Parts::D d;
  const Operands& how = operands;
  auto a = operand<Parts, 0, Op>(sources, 0, from, how);
  auto b = operand<Parts, 1, Op>(sources, 0, from, how);
  auto c = operand<Parts, 2, Op>(sources, 0, from, how);
  auto e = operand<Parts, 3, Op>(sources, 0, from, how);
  for (size_t k = 1; k < sources.count(); ++k) {
    a = Op::apply(a, operand<Parts, 0, Op>(sources, k, from, how));
    b = Op::apply(b, operand<Parts, 1, Op>(sources, k, from, how));
    c = Op::apply(c, operand<Parts, 2, Op>(sources, k, from, how));
    e = Op::apply(e, operand<Parts, 3, Op>(sources, k, from, how));
  }
  constexpr bool kTwo = kIsPair<Op, Sources>;
  a = ended<Parts, 0, Op>(a, sources, from, how), b = ended<Parts, 1, Op>(b, sources, from, how);
  c = ended<Parts, 2, Op>(c, sources, from, how), e = ended<Parts, 3, Op>(e, sources, from, how);
  if constexpr (kMakesOneNan<Parts, Op>) {
    if (HWY_UNLIKELY(any_nan(a, b, c, e))) {
      a = one_nan(a), b = one_nan(b), c = one_nan(c), e = one_nan(e);
    }
  }
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

// The first `end` bytes, a multiple of the vector's size.
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
    store_to_all(d, operands.dsts, i, fold<Parts, Op>(any, i, operands));
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
    store(d, fold<Parts, Op>(sources, 0, operands), result);
    for (void* dst : dsts) std::memcpy(dst, result, bytes);
    return;
  }
  const size_t rest = bytes % vector;
  if (rest == 0) return fold_vectors<Parts, Op>(operands, bytes);
  const size_t last = bytes - vector;
  const AnySources sources{operands.srcs.data(), operands.srcs.size()};
  const auto tail = fold<Parts, Op>(sources, last, operands);
  fold_vectors<Parts, Op>(operands, bytes - rest);
  store_to_all(d, dsts, last, tail);
}

#if HWY_TARGET == HWY_STATIC_TARGET
// Distinct from TwoSources, whose blocks are made differently.
struct FewSources : TwoSources {};

template <class Parts, class Op>
HWY_NOINLINE void fold_odd_pair(void* dst, const void* src, size_t bytes) {
  const void* const srcs[] = {dst, src};
  fold_into<Parts, Op>({{&dst, 1}, srcs, bytes});
}

template <class Parts, class Op>
void fold_pair(void* dst_start, const void* src, size_t bytes) {
  static_assert(!kFinishes<Op>);
  const typename Parts::D d;
  const size_t vector = bytes_of(d);
  if (HWY_UNLIKELY(bytes % vector != 0)) return fold_odd_pair<Parts, Op>(dst_start, src, bytes);
  auto* const dst = static_cast<uint8_t*>(dst_start);
  const FewSources sources{{dst, static_cast<const uint8_t*>(src)}};
  const Operands no_lists{{}, {}, bytes};
  for (size_t i = 0; i < bytes; i += vector)
    store(d, fold<Parts, Op>(sources, i, no_lists), dst + i);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace ringwood
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
