// Element-wise kernels: dst op= src for each data type, at memory speed.
//
// SIMD through Highway with run-time dispatch: one binary uses AVX2, AVX-512 or NEON where the
// machine has them, and also runs without. RINGWOOD_SIMD caps it. 16- and 8-bit floats are computed
// in fp32 and rounded to nearest even. NaN: SUM/PRODUCT propagate; MIN/MAX return NaN if either
// operand is NaN (as torch). Integers wrap. bool is 0/1: SUM, MAX, BOR = or; PRODUCT, MIN, BAND =
// and; BXOR = xor. No alignment is assumed. dst and src may be equal but must not overlap
// otherwise. Pure; any thread.
//
// Bits. Every operation is commutative on bits, MIN and MAX are also associative, and all
// instruction sets give the same result. So ranks that evaluate one expression get the same bits,
// whichever operand is theirs. MIN and MAX treat -0 as less than 0. An operation returns only one
// NaN, without sign and payload: 0x7ff8000000000000, 0x7fc00000, fp16 0x7e00, bf16 0x7fc0, e4m3 and
// e5m2 0x7f. What is only copied keeps its bits, NaN included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/kernels/types.h"
#include "transports/base/error.h"

namespace ringwood {

// dst[i] = dst[i] op src[i]. AVG and PREMUL_SUM add (see accumulate.h). Precondition:
// supports(type, op).
void reduce(void* dst, const void* src, size_t count, DataType type, ReduceOp op);
// The same over `bytes`, a multiple of the type's size.
void reduce_bytes(void* dst, const void* src, size_t bytes, DataType type, ReduceOp op);

// dst[i] *= factor (complex: both parts). Floats and complex only. The product is computed in
// double and rounded once to the type; torch's mul rounds the factor of narrower types to fp32
// first, and 16-bit products twice, so in rare cases its last bit differs.
void scale(void* dst, size_t count, DataType type, double factor);
// dst[i] /= divisor: floats and complex as torch's div, integers as its div(rounding_mode="trunc").
// Not of bool. divisor != 0. Floats are rounded once from the exact quotient; torch's div gives the
// same for divisors up to 2048, beyond which it may round 16-bit floats twice.
void divide(void* dst, size_t count, DataType type, int64_t divisor);

// Accumulation of 16- and 8-bit floats in fp32 over a chain of operands with a single rounding at
// the end, where accumulates_wide().
//   widen:           wide[i]  = float(src[i])
//   reduce_wide:     wide[i]  = wide[i] op float(src[i])
//   narrow:          dst[i]   = round(wide[i])
void widen(float* wide, const void* src, size_t count, DataType type);
void reduce_wide(float* wide, const void* src, size_t count, DataType type, ReduceOp op);
void narrow(void* dst, const float* wide, size_t count, DataType type);

// One pass over memory from many operands to many results: for every d,
//   dsts[d][i] = srcs[0][i] op srcs[1][i] op ... op srcs[p-1][i],   in that order, left to right,
// and with `divisor` n > 1 (a whole AVG) that result divided by n. One source is a copy.
//
// The bits are those of the chain of reduce() and, at its end, divide(), except for sums that do
// not fit the type: those of integers keep all their bits, and a float's mean overflows only if it
// is itself too large. Where accumulates_wide() they are those of widen(), reduce_wide() ... and
// narrow(), with the division in fp32 before narrow(): rounded to the type once.
//
// No alignment is assumed. A destination may be equal to any source; other than that destinations
// overlap neither sources nor one another. Sources may overlap. Precondition: supports(type, op);
// at least one of each; 1 <= divisor <= kMaxDivisor, and 1 unless op is AVG.
inline constexpr int64_t kMaxDivisor = int64_t{1}
                                       << 24;  // an fp32 represents all integers up to here
void reduce_many(std::span<void* const> dsts, std::span<const void* const> srcs, size_t count,
                 DataType type, ReduceOp op, int64_t divisor = 1);

// Instruction sets that this binary can use on this machine, best first; and the one in use. Tests
// force each one.
std::vector<std::string> simd_targets();
std::string simd_target();
void force_simd_target(const std::string& name);  // "" = best; throws Error for an unknown one

}  // namespace ringwood
