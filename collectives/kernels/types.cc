#include "collectives/kernels/types.h"

#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "transports/base/error.h"
#include "transports/base/knobs/nearest.h"

namespace ringwood {
namespace {

constexpr bool rows_are_in_order() {
  for (int i = 0; i < kDataTypes; ++i)
    if (static_cast<int>(kTypeTraits[i].type) != i) return false;
  for (int i = 0; i < kReduceOps; ++i)
    if (static_cast<int>(kOpTraits[i].op) != i) return false;
  return true;
}
static_assert(rows_are_in_order());

// The row with that name; `what`: "data type".
template <class Row>
const Row& named(std::span<const Row> rows, std::string_view name, const char* what) {
  std::string names;
  for (const Row& row : rows) {
    if (name == row.name || (!name.empty() && name == row.alias)) return row;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  std::vector<std::string_view> known;
  for (const Row& row : rows) known.emplace_back(row.name);
  const std::string near = did_you_mean(name, known);
  refuse(fmt::format("'{}' is not a {}{} one of {}", name, what,
                     near.empty() ? "; use" : near + " Use", names));
}

}  // namespace

const char* to_string(DataType type) { return traits_of(type).name; }

DataType parse_data_type(std::string_view name) {
  return named<TypeTraits>(kTypeTraits, name, "data type").type;
}

const char* to_string(ReduceOp op) { return traits_of(op).name; }

ReduceOp parse_reduce_op(std::string_view name) {
  return named<OpTraits>(kOpTraits, name, "reduction").op;
}

bool supports(DataType type, ReduceOp op) {
  const OpTraits& row = traits_of(op);
  switch (traits_of(type).kind) {
    case NumberKind::floating: return row.floating;
    case NumberKind::integer: return row.integer;
    case NumberKind::boolean: return row.boolean;
    case NumberKind::complex: return row.complex;
  }
  return false;
}

bool supports(Collective collective, DataType type, ReduceOp op) {
  return !reduces(collective) || supports(type, op);
}

bool accumulates_wide(DataType type, ReduceOp op) {
  return is_small_float(type) && (traits_of(op).adds || op == ReduceOp::product);
}

bool gains_by_accumulation(DataType type, ReduceOp op) {
  return accumulates_wide(type, op) || (op == ReduceOp::avg && is_integer(type));
}

}  // namespace ringwood
