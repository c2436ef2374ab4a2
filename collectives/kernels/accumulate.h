// Additions of AVG and PREMUL_SUM: operands are scaled as they are added, and sums are finished as
// they are completed, without a pass or a rounding of their own.
//
// AVG over n ranks is the sum divided by n; it overflows only where the mean does. There are two
// ways; the whole group uses one of them (Sums::whole):
//
//   whole   every sum is added in one accumulation, from the ranks' own numbers
//   parts   partial sums are sent, in the type itself (ring, trees: several accumulations)
//
//   type              whole                                parts
//   fp16, bf16, fp8   in fp32: each operand times c, then  the same; a partial sum is rounded to
//                     divided by n c; rounded once         the type at the end of each accumulation
//   fp32, fp64,       the sum, divided by n; where it      each operand times c, then divided by
//   complex           overflows, that of operands times c  n c
//   integers          in 64 bits (int64: in 128), exact;   the sum, which wraps as SUM does,
//                     divided toward zero                  divided toward zero
//
// c is the largest power of two of at most 1 / n. So a partial sum is at most as large as the
// largest operand, and scaling is exact unless the result is less than the type's smallest normal
// number. That can only happen in parts: in fp32 sums of 16- and 8-bit floats there is room below
// for up to 2^16 ranks, and whole fp32 and fp64 sums are not scaled unless they are huge. In parts,
// then, the error has one more term for each operand and each rounding of a partial sum, of n c
// times half of the smallest number of the type; a value far above the smallest normal number is
// rounded as often as in SUM, and once for the division.
//
// PREMUL_SUM of 16- and 8-bit floats: the operands are multiplied in fp32, each by its own rank's
// factor (rounded to fp32), and rounded with the sum, once for each accumulation. For all other
// types each product is rounded to the type first, in a separate pass (scale()).
//
// MIN, MAX and the others do not use this. Pure; any thread; no alignment is assumed.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/kernels/reduce.h"

namespace ringwood {

// Whether the operands of such a reduction are scaled as they are added.
bool scales_operands(DataType type, ReduceOp op);

// The factor of AVG's operands: 2^-k >= 1 / (2 n).
double average_scale(int n);

// dsts[d][i] = (scales[0] * srcs[0][i] + scales[1] * srcs[1][i] + ...) / divisor, left to right.
// Floats and complex only. Computed as reduce_many() does: in fp32 and rounded once for 16- and
// 8-bit floats, else in the type.
void reduce_scaled(std::span<void* const> dsts, std::span<const void* const> srcs,
                   std::span<const double> scales, size_t count, DataType type, double divisor = 1);

// Bytes for each element that an accumulation of several additions keeps beside its destination.
// `whole`: of an average, whether it is whole. 0: none.
size_t bytes_beside(DataType type, ReduceOp op, bool whole);

// One addition of such an accumulation: dst = dst + src, where `beside` has a more exact value of
// dst. Precondition: bytes_beside() > 0; `whole`, except for 16- and 8-bit floats.
struct AccumulationStep {
  bool first = false, last = false;
  double dst_scale = 1, src_scale = 1;  // dst_scale applies to the first only
  double divisor = 1;                   // applies to the last, of 16- and 8-bit floats
  int n = 1;                            // ranks, for averages of the other types
};
void accumulate(void* dst, const void* src, void* beside, size_t count, DataType type,
                const AccumulationStep& how);

}  // namespace ringwood
