// Names, sizes and the table of what may be reduced with what.
#include <iterator>
#include <string>

#include <fmt/format.h>

#include "collectives/kernels/reduce.h"
#include "collectives/kernels/types.h"

namespace ringwood {
namespace {

enum class Kind : uint8_t { floating, integer, boolean, complex };

struct TypeRow {
  const char* name;
  size_t bytes;
  Kind kind;
};

constexpr TypeRow kTypes[] = {
    {"float64", 8, Kind::floating},     {"float32", 4, Kind::floating},
    {"float16", 2, Kind::floating},     {"bfloat16", 2, Kind::floating},
    {"float8_e4m3", 1, Kind::floating}, {"float8_e5m2", 1, Kind::floating},
    {"int8", 1, Kind::integer},         {"int16", 2, Kind::integer},
    {"int32", 4, Kind::integer},        {"int64", 8, Kind::integer},
    {"uint8", 1, Kind::integer},        {"bool8", 1, Kind::boolean},
    {"complex64", 8, Kind::complex},    {"complex128", 16, Kind::complex},
};
static_assert(std::size(kTypes) == kDataTypes);

constexpr const char* kOps[] = {"sum",  "avg", "min",  "max",       "product",
                                "band", "bor", "bxor", "premul_sum"};
static_assert(std::size(kOps) == kReduceOps);

struct Alias {
  const char* name;
  DataType type;
};
constexpr Alias kAliases[] = {
    {"float", DataType::float32}, {"half", DataType::float16}, {"bf16", DataType::bfloat16}};

const TypeRow& row_of(DataType type) { return kTypes[static_cast<size_t>(type)]; }

std::string list_of(int count, const char* (*name)(int)) {
  std::string list;
  for (int i = 0; i < count; ++i) list += fmt::format("{}{}", i == 0 ? "" : ", ", name(i));
  return list;
}

}  // namespace

size_t size_of(DataType type) { return row_of(type).bytes; }

const char* to_string(DataType type) { return row_of(type).name; }

DataType parse_data_type(std::string_view name) {
  for (int i = 0; i < kDataTypes; ++i) {
    if (name == kTypes[i].name) return static_cast<DataType>(i);
  }
  for (const Alias& alias : kAliases) {
    if (name == alias.name) return alias.type;
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("'{}' is not a data type; use one of {}", name,
                          list_of(kDataTypes, [](int i) { return kTypes[i].name; })));
}

bool is_float(DataType type) { return row_of(type).kind == Kind::floating; }

const char* to_string(ReduceOp op) { return kOps[static_cast<size_t>(op)]; }

ReduceOp parse_reduce_op(std::string_view name) {
  for (int i = 0; i < kReduceOps; ++i) {
    if (name == kOps[i]) return static_cast<ReduceOp>(i);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("'{}' is not a reduction; use one of {}", name,
                          list_of(kReduceOps, [](int i) { return kOps[i]; })));
}

bool supports(DataType type, ReduceOp op) {
  const Kind kind = row_of(type).kind;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg: return true;
    case ReduceOp::min:
    case ReduceOp::max:
    case ReduceOp::product: return kind != Kind::complex;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: return kind == Kind::integer || kind == Kind::boolean;
    case ReduceOp::premul_sum: return kind == Kind::floating || kind == Kind::complex;
  }
  return false;
}

bool accumulates_wide(DataType type, ReduceOp op) {
  const bool adds_or_multiplies = op == ReduceOp::sum || op == ReduceOp::avg ||
                                  op == ReduceOp::product || op == ReduceOp::premul_sum;
  return is_float(type) && size_of(type) <= 2 && adds_or_multiplies;
}

bool gains_by_rows(DataType type, ReduceOp op) {
  return accumulates_wide(type, op) || (op == ReduceOp::avg && row_of(type).kind == Kind::integer);
}

}  // namespace ringwood
