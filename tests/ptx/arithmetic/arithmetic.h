// What instructions do to registers: pure functions, found once for an opcode and its types.
//
// A slot holds a register's bits with zeros above. Results are those of the PTX ISA: two's
// complement that wraps; IEEE round to nearest even, subnormals kept, NaN results of f32, f16 and
// bf16 canonical (f64: the host's). Of what PTX leaves open, a division by zero gives all ones.
// Sums, products and fused products of f16 and bf16 are rounded once.
//
// A function that is null: the combination is not known.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "tests/ptx/module.h"

namespace ringwood::ptx {

enum class Operation : uint8_t {
  add,
  sub,
  mul,  // of floats
  mul_lo,
  mul_hi,
  mul_wide,
  mad_lo,
  mad_hi,
  mad_wide,
  fma,
  div,
  rem,
  min,
  max,
  neg,
  abs,
  sad,
  add_carry,  // writes the condition code, reads it, or both
  sub_carry,
  bit_and,
  bit_or,
  bit_xor,
  bit_not,
  cnot,
  shl,
  shr,
  shf_l,
  shf_r,
  bfe,
  bfi,
  bfind,
  brev,
  popc,
  clz,
  prmt,
  lop3,
  sqrt,
  rcp,
  copysign,
  testp_finite,
  testp_infinite,
  testp_number,
  testp_notanumber,
  testp_normal,
  testp_subnormal,
  setp,
  set,
  selp,
  slct
};

Compute find_integer(Operation operation, Type type);  // integers.cc
Compute find_bits(Operation operation, Type type);     // bits.cc
Compute find_float(Operation operation, Type type);    // floats.cc
// `type` is that of what is compared or selected; `other` that of a result or of the selector.
Compute find_comparison(Operation operation, Type type, Type other);  // comparisons.cc
// x.from -> x.type, with its rounding and saturation.
Compute find_conversion(const Instruction& x);  // conversions.cc

inline uint64_t low_bits(uint64_t value, int bits) {
  return bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1);
}
inline int64_t sign_extended(uint64_t value, int bits) {
  return bits >= 64 ? static_cast<int64_t>(value)
                    : static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

// A slot as a value, and back.
template <class T>
T value_of(uint64_t slot) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(static_cast<uint32_t>(slot));
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<double>(slot);
  else
    return static_cast<T>(slot);
}
template <class T>
uint64_t slot_of(T value) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<uint32_t>(value);
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<uint64_t>(value);
  else if constexpr (std::is_same_v<T, bool>)
    return value ? 1 : 0;
  else
    return static_cast<std::make_unsigned_t<T>>(value);
}

// 16-bit floats. Every value of theirs is a double; the way back is rounded as told.
double wide_f16(uint16_t bits);
double wide_bf16(uint16_t bits);
uint16_t narrow_f16(double value, Rounding rounding = Rounding::rn);
uint16_t narrow_bf16(double value, Rounding rounding = Rounding::rn);

inline constexpr uint32_t kNan32 = 0x7fffffff;
inline constexpr uint16_t kNan16 = 0x7fff;

}  // namespace ringwood::ptx
