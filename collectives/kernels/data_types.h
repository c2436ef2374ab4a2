// The data types and the reductions by name; types.h has their properties. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace ringwood {

// clang-format off
enum class DataType : uint8_t {
  float64, float32, float16, bfloat16,
  float8_e4m3, float8_e5m2,  // torch.float8_e4m3fn, torch.float8_e5m2
  int8, int16, int32, int64, uint8, bool8, complex64, complex128, uint32
};
// clang-format on
enum class ReduceOp : uint8_t { sum, avg, min, max, product, band, bor, bxor, premul_sum };

const char* to_string(DataType type);
const char* to_string(ReduceOp op);
// Throw Error(invalid_argument) listing the names; the aliases of types.h are read as well.
DataType parse_data_type(std::string_view name);
ReduceOp parse_reduce_op(std::string_view name);
// False for MIN, MAX and PRODUCT of complex, bitwise operations on floats, AVG of bool, which can
// have no mean, and PREMUL_SUM of anything but floats and complex.
bool supports(DataType type, ReduceOp op);

}  // namespace ringwood
