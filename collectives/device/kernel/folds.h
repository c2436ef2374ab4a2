// One element of a reduction on a device: begins with the first operand, adds the others from left
// to right, and ends with what is stored. One state for each element, in registers. Pure.
//
// The results have the bits of kernels/reduce.h and kernels/row_sums.h.
#pragma once

#include <cstdint>
#include <type_traits>

#include "collectives/device/kernel/numbers.h"

namespace ringwood::device {

// How a pass ends its sums.
struct Finish {
  bool on = false;
  double divisor = 1, scale = 1;
};

template <class T>
RINGWOOD_DEVICE T lesser(T a, T b) {
  return b < a ? b : a;
}
template <class T>
RINGWOOD_DEVICE T greater(T a, T b) {
  return a < b ? b : a;
}
// Commutative on bits: of two zeros the negative one is less.
template <class T, class Bits, bool kLeast>
RINGWOOD_DEVICE T chosen(T a, T b) {
  if (a != a || b != b) return one_nan(a != a ? a : b);
  if (a == b) {
    const Bits x = bits_as<Bits>(a), y = bits_as<Bits>(b);
    return bits_as<T>(Bits(kLeast ? x | y : x & y));
  }
  return (a < b) == kLeast ? a : b;
}
RINGWOOD_DEVICE float lesser(float a, float b) { return chosen<float, uint32_t, true>(a, b); }
RINGWOOD_DEVICE float greater(float a, float b) { return chosen<float, uint32_t, false>(a, b); }
RINGWOOD_DEVICE double lesser(double a, double b) { return chosen<double, uint64_t, true>(a, b); }
RINGWOOD_DEVICE double greater(double a, double b) { return chosen<double, uint64_t, false>(a, b); }

// Integers wrap; narrow ones are computed in 32 bits.
template <class T>
struct Wrapping {
  using type = uint32_t;
};
template <>
struct Wrapping<int64_t> {
  using type = uint64_t;
};

template <Fold kFold, class T>
RINGWOOD_DEVICE T combined(T a, T b) {
  if constexpr (kFold == Fold::min) {
    return lesser(a, b);
  } else if constexpr (kFold == Fold::max) {
    return greater(a, b);
  } else if constexpr (T(0.5) != T(0)) {  // a float
    return kFold == Fold::product ? a * b : a + b;
  } else {
    using U = typename Wrapping<T>::type;
    if constexpr (kFold == Fold::product) return T(U(a) * U(b));
    if constexpr (kFold == Fold::band) return T(a & b);
    if constexpr (kFold == Fold::bor) return T(a | b);
    if constexpr (kFold == Fold::bxor) return T(a ^ b);
    return T(U(a) + U(b));
  }
}

// The product with a factor, rounded once.
RINGWOOD_DEVICE double times(double x, double factor) { return x * factor; }
RINGWOOD_DEVICE float times(float x, double factor) { return float(double(x) * factor); }

RINGWOOD_DEVICE bool is_finite(float x) {
  return (bits_as<uint32_t>(x) & 0x7f800000u) != 0x7f800000u;
}
RINGWOOD_DEVICE bool is_finite(double x) { return (bits_as<uint64_t>(x) >> 52 & 0x7ff) != 0x7ff; }

// The state of an element. All have first(x, factor), next(x, factor), last(finish).
template <class N, Fold kFold>
struct Sum {
  typename N::Wide sum;
  RINGWOOD_DEVICE void first(typename N::Wide x, double) { sum = x; }
  RINGWOOD_DEVICE void next(typename N::Wide x, double) { sum = combined<kFold>(sum, x); }
  RINGWOOD_DEVICE typename N::Wide last(const Finish& finish) const {
    if constexpr (!N::kFloating && kFold == Fold::sum) {
      // A divisor of 1 is left out: the smallest number has no opposite.
      if (finish.on) return typename N::Wide(int64_t(sum) / int64_t(finish.divisor));
    }
    return sum;
  }
};

// Own operands of small floats are multiplied in fp32, those of others rounded to the type first.
template <class N>
struct ScaledSum {
  typename N::Wide sum;
  static RINGWOOD_DEVICE typename N::Wide scaled(typename N::Wide x, double factor) {
    if constexpr (N::kSmall) return x * float(factor);
    return times(x, factor);
  }
  RINGWOOD_DEVICE void first(typename N::Wide x, double factor) { sum = scaled(x, factor); }
  RINGWOOD_DEVICE void next(typename N::Wide x, double factor) { sum = sum + scaled(x, factor); }
  RINGWOOD_DEVICE typename N::Wide last(const Finish& finish) const {
    return finish.on ? sum / typename N::Wide(finish.divisor) : sum;
  }
};

// Of all operands: where their sum is too large, that of operands times a power of two.
template <class N, bool kFloating = N::kFloating>
struct Mean {
  typename N::Wide sum, small, scale;
  RINGWOOD_DEVICE void first(typename N::Wide x, double by) {
    scale = typename N::Wide(by);
    sum = x, small = x * scale;
  }
  RINGWOOD_DEVICE void next(typename N::Wide x, double) {
    sum = sum + x, small = small + x * scale;
  }
  RINGWOOD_DEVICE typename N::Wide last(const Finish& finish) const {
    const typename N::Wide mean = sum / typename N::Wide(finish.divisor);
    return is_finite(mean) ? mean : small / typename N::Wide(finish.divisor * finish.scale);
  }
};
// Where the sum of kMaxRanks integers fits.
template <class T>
struct IntegerSum {
  T sum;
  RINGWOOD_DEVICE void add(int64_t x) { sum += T(x); }
  RINGWOOD_DEVICE int64_t divided(uint32_t by) const { return sum / T(by); }
};
template <int kBytes>
struct MeanSum {
  using type = IntegerSum<int32_t>;
};
template <>
struct MeanSum<4> {
  using type = IntegerSum<int64_t>;
};
template <>
struct MeanSum<8> {
  using type = WideSum;
};
template <class N>
struct Mean<N, false> {
  using Sum = typename MeanSum<sizeof(typename N::Wide)>::type;
  Sum sum;
  RINGWOOD_DEVICE void first(typename N::Wide x, double) { sum = {}, sum.add(int64_t(x)); }
  RINGWOOD_DEVICE void next(typename N::Wide x, double) { sum.add(int64_t(x)); }
  RINGWOOD_DEVICE typename N::Wide last(const Finish& finish) const {
    return typename N::Wide(sum.divided(uint32_t(finish.divisor)));
  }
};

template <class N, Fold kFold>
using FoldState =
    std::conditional_t<kFold == Fold::scaled, ScaledSum<N>,
                       std::conditional_t<kFold == Fold::mean, Mean<N>, Sum<N, kFold>>>;

}  // namespace ringwood::device
