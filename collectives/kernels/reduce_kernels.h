// The kernels of one instruction set as a table, and the tables of this binary.
//
// Internal to reduce and wire. Tables are immutable and live as long as the program; any thread may
// call any kernel. No pointer needs alignment.
#pragma once

#include <span>
#include <vector>

#include "collectives/kernels/reduce.h"

namespace ringwood {

// What AVG does to a sum before it is rounded to its type: in fp32 for floats of at most 32 bits,
// otherwise in double.
struct Finish {
  bool multiplies = true;  // multiplies with `by`; otherwise divides
  double by = 1;
  // A power of two: operands that are smaller by this factor have a sum that cannot overflow.
  double down = 1;
};

// Types whose conversions are fast only in vectors, however few the elements.
constexpr bool converts(DataType type) {
  return is_small_float(type) && type != DataType::bfloat16;
}

inline constexpr size_t kInt8Block = 256;  // elements (wire.h)

// dsts[d] = srcs[0] op srcs[1] op ..., each of `bytes` bytes, a multiple of the element size. At
// least one of each.
struct Operands {
  std::span<void* const> dsts;
  std::span<const void* const> srcs;
  size_t bytes;
  Finish finish = {};
  const double* scales = nullptr;  // by operand
};

struct Kernels {
  // Null where supports() is false. AVG is the sum with the finish, for floats and complex only,
  // and overflows only where the result does; PREMUL_SUM is the sum of operands times their scales,
  // which must be given. The other ops ignore both.
  using Reduce = void (*)(const Operands& operands);
  // dst = dst op src: the same bits without a list of operands, for so few bytes that vectors do
  // not help. AVG and PREMUL_SUM add. Only in plain_kernels(); null where converts().
  using Pair = void (*)(void* dst, const void* src, size_t bytes);
  // dst *= or /= factor over `bytes` bytes, computed in double and rounded once. Null for 64-bit
  // floats, for which the finish of Reduce is used, and for integers and bool.
  using Scale = void (*)(void* dst, size_t bytes, double factor);
  // Null for all but 16- and 8-bit floats.
  using IntoWide = void (*)(float* wide, const void* src, size_t count);
  using Narrow = void (*)(void* dst, const float* wide, size_t count);
  using FromWire = void (*)(float* dst, const void* wire, size_t count);

  const char* simd = "";  // "scalar", "avx2", "avx512", "neon", "sve"
  Reduce reduce[kDataTypes][kReduceOps] = {};
  Pair pair[kDataTypes][kReduceOps] = {};
  Scale scale[kDataTypes] = {};
  Scale divide[kDataTypes] = {};
  IntoWide widen[kDataTypes] = {};
  IntoWide add_wide[kDataTypes] = {};
  IntoWide multiply_wide[kDataTypes] = {};
  Narrow narrow[kDataTypes] = {};
  Narrow encode_int8 = nullptr;
  FromWire decode_int8 = nullptr, add_int8 = nullptr;
};

struct KernelSet {
  const Kernels* kernels;
  bool runs_here;  // the machine has the instructions
};

// Every table in this binary, best first. The last one runs on every machine.
std::vector<KernelSet> kernel_sets();

// The last of them: as fast as any below the size of a vector, where the others go
// through a buffer.
const Kernels& plain_kernels();

// The table of the instruction set in use.
const Kernels& kernels_in_force();

}  // namespace ringwood
