// Inputs whose result is known exactly, for every operation.
#pragma once

#include <algorithm>
#include <cmath>

#include "collectives/kernels/reduce.h"

namespace ringwood::testing {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSlow = true;
#else
inline constexpr bool kSlow = false;
#endif

// Numbers of both signs whose sums and products are exact in any order, even in 8-bit floats; of
// types without signs their magnitudes. Numbers that overflow or round, zeros of both signs and NaN
// are averages.cc's and same_bits.cc's.
inline double input(DataType type, ReduceOp op, size_t i, int rank) {
  const bool hit = (i + rank) % 4 == 0, negative = traits_of(type).is_signed && (i + rank) % 8 < 5;
  const double sign = negative ? -1 : 1;
  switch (op) {
    case ReduceOp::product: return sign * (hit ? 2 : 1);
    case ReduceOp::band: return hit ? 6 : 3;
    case ReduceOp::bor:
    case ReduceOp::bxor: return static_cast<double>((i + rank) % 8);
    case ReduceOp::premul_sum: return sign * (hit ? 2 : 0);
    case ReduceOp::min:
    case ReduceOp::max: return sign * static_cast<double>((i + 3 * rank) % 7);
    case ReduceOp::avg:  // integers are truncated, also below zero
      return sign * static_cast<double>((i + 2 * rank) % 3 == 0 ? i % 5 % 4 : 0);
    default: return sign * static_cast<double>((i + 2 * rank) % 3 == 0);
  }
}

inline double expected(DataType type, ReduceOp op, size_t i, int n) {
  const auto value = [&](int r) {
    return type == DataType::bool8 ? double(input(type, op, i, r) != 0) : input(type, op, i, r);
  };
  double x = value(0) * (op == ReduceOp::premul_sum ? 0.5 : 1);
  for (int r = 1; r < n; ++r) {
    const double v = value(r);
    const auto a = static_cast<int64_t>(x), b = static_cast<int64_t>(v);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg: x += v; break;
      case ReduceOp::premul_sum: x += 0.5 * v; break;
      case ReduceOp::min: x = std::min(x, v); break;
      case ReduceOp::max: x = std::max(x, v); break;
      case ReduceOp::product: x *= v; break;
      case ReduceOp::band: x = static_cast<double>(a & b); break;
      case ReduceOp::bor: x = static_cast<double>(a | b); break;
      case ReduceOp::bxor: x = static_cast<double>(a ^ b); break;
    }
  }
  if (type == DataType::bool8) return op == ReduceOp::bxor ? std::fmod(x, 2) : x != 0;
  if (op != ReduceOp::avg) return x;
  return is_integer(type) ? std::trunc(x / n) : x / n;
}

}  // namespace ringwood::testing
