// The data types and the reductions, each as one row of facts.
//
// Kernels, plans, tools, the torch bridge and tests read the rows, so a new type is its name in
// data_types.h, a row here and its kernel in reduce_kernels.cc. Pure; the hot path reads constants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "collectives/kernels/data_types.h"
#include "collectives/schedule/collective.h"

namespace ringwood {

enum class NumberKind : uint8_t { floating, integer, boolean, complex };

struct TypeTraits {
  DataType type;
  const char* name;
  const char* alias;  // another accepted name, that of nccl-tests if it has one; "": none
  size_t bytes;
  NumberKind kind;
  bool is_signed;
  // Floats and the parts of complex numbers; else 0.
  int exponent_bits, mantissa_bits;
};

// By DataType. Its number is sent in messages: new types come last.
inline constexpr TypeTraits kTypeTraits[] = {
    {DataType::float64, "float64", "double", 8, NumberKind::floating, true, 11, 52},
    {DataType::float32, "float32", "float", 4, NumberKind::floating, true, 8, 23},
    {DataType::float16, "float16", "half", 2, NumberKind::floating, true, 5, 10},
    {DataType::bfloat16, "bfloat16", "bf16", 2, NumberKind::floating, true, 8, 7},
    {DataType::float8_e4m3, "float8_e4m3", "f8e4m3", 1, NumberKind::floating, true, 4, 3},
    {DataType::float8_e5m2, "float8_e5m2", "f8e5m2", 1, NumberKind::floating, true, 5, 2},
    {DataType::int8, "int8", "", 1, NumberKind::integer, true, 0, 0},
    {DataType::int16, "int16", "", 2, NumberKind::integer, true, 0, 0},
    {DataType::int32, "int32", "", 4, NumberKind::integer, true, 0, 0},
    {DataType::int64, "int64", "", 8, NumberKind::integer, true, 0, 0},
    {DataType::uint8, "uint8", "", 1, NumberKind::integer, false, 0, 0},
    {DataType::bool8, "bool8", "", 1, NumberKind::boolean, false, 0, 0},
    {DataType::complex64, "complex64", "", 8, NumberKind::complex, true, 8, 23},
    {DataType::complex128, "complex128", "", 16, NumberKind::complex, true, 11, 52},
    {DataType::uint32, "uint32", "", 4, NumberKind::integer, false, 0, 0},
};
inline constexpr int kDataTypes = std::size(kTypeTraits);

constexpr const TypeTraits& traits_of(DataType type) {
  return kTypeTraits[static_cast<size_t>(type)];
}
constexpr size_t size_of(DataType type) { return traits_of(type).bytes; }
constexpr bool is_float(DataType type) { return traits_of(type).kind == NumberKind::floating; }
constexpr bool is_complex(DataType type) { return traits_of(type).kind == NumberKind::complex; }
constexpr bool is_integer(DataType type) { return traits_of(type).kind == NumberKind::integer; }
// The size of a float or of one of a complex number's two parts; otherwise of the whole.
constexpr size_t part_size(DataType type) { return size_of(type) / (is_complex(type) ? 2 : 1); }
constexpr bool is_double(DataType type) {
  return (is_float(type) || is_complex(type)) && part_size(type) == sizeof(double);
}
// Added and multiplied in fp32.
constexpr bool is_small_float(DataType type) { return is_float(type) && size_of(type) <= 2; }

// visit(a value of the integer's C++ type). Precondition: is_integer(type).
template <class Visit>
decltype(auto) visit_integer(DataType type, Visit visit) {
  switch (size_of(type)) {
    case 1: return traits_of(type).is_signed ? visit(int8_t{}) : visit(uint8_t{});
    case 2: return visit(int16_t{});
    case 4: return traits_of(type).is_signed ? visit(int32_t{}) : visit(uint32_t{});
    default: return visit(int64_t{});
  }
}

// Has room for the sum of as many integers T as there are ranks.
template <class T>
using WideOf = std::conditional_t<sizeof(T) == 8, __int128, int64_t>;

struct OpTraits {
  ReduceOp op;
  const char* name;
  const char* alias;  // as in TypeTraits
  bool adds;          // includes AVG and PREMUL_SUM
  // Which types support it, by NumberKind.
  bool floating, integer, boolean, complex;
};

// By ReduceOp.
inline constexpr OpTraits kOpTraits[] = {
    {ReduceOp::sum, "sum", "", true, true, true, true, true},
    {ReduceOp::avg, "avg", "", true, true, true, false, true},
    {ReduceOp::min, "min", "", false, true, true, true, false},
    {ReduceOp::max, "max", "", false, true, true, true, false},
    {ReduceOp::product, "product", "prod", false, true, true, true, false},
    {ReduceOp::band, "band", "", false, false, true, true, false},
    {ReduceOp::bor, "bor", "", false, false, true, true, false},
    {ReduceOp::bxor, "bxor", "", false, false, true, true, false},
    {ReduceOp::premul_sum, "premul_sum", "mulsum", true, true, false, false, true},
};
inline constexpr int kReduceOps = std::size(kOpTraits);

constexpr const OpTraits& traits_of(ReduceOp op) { return kOpTraits[static_cast<size_t>(op)]; }
// Whether the collective may be called with them; one that only moves data ignores the op.
bool supports(Collective collective, DataType type, ReduceOp op);
// 16- and 8-bit floats, which are added and multiplied in fp32 and rounded once (reduce.h).
bool accumulates_wide(DataType type, ReduceOp op);
// Averages of integers, too, are best added in one accumulation, which keeps the bits that do
// not fit (accumulate.h).
bool gains_by_accumulation(DataType type, ReduceOp op);

}  // namespace ringwood
