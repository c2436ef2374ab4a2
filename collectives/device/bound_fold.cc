// What the device does for a type and an operation, and the kernel that does it (bind_words.h).
#include <string_view>

#include <fmt/format.h>

#include "collectives/device/bind_words.h"
#include "collectives/kernels/row_sums.h"

namespace ringwood::device {
namespace {

const char* name_of(Fold fold) {
  switch (fold) {
    case Fold::sum: return "sum";
    case Fold::min: return "min";
    case Fold::max: return "max";
    case Fold::product: return "product";
    case Fold::band: return "band";
    case Fold::bor: return "bor";
    case Fold::bxor: return "bxor";
    case Fold::scaled: return "scaled";
    case Fold::mean: return "mean";
  }
  return "";
}

std::string_view numbers_of(DataType type, Fold fold) {
  if (fold == Fold::band || fold == Fold::bor || fold == Fold::bxor) return "bits";
  switch (type) {
    case DataType::complex64: return "float32";
    case DataType::complex128: return "float64";
    case DataType::bool8: return "uint8";
    case DataType::uint8: return fold == Fold::product ? "int8" : "uint8";
    case DataType::uint32: return fold == Fold::product ? "int32" : "uint32";
    default: return to_string(type);
  }
}

}  // namespace

std::string kernel_of(DataType type, Fold fold) {
  return fmt::format("ringwood_{}_{}", numbers_of(type, fold), name_of(fold));
}

BoundFold fold_of(DataType type, ReduceOp op, int n, bool whole) {
  BoundFold bound;
  const bool is_bool = traits_of(type).kind == NumberKind::boolean;
  switch (op) {
    case ReduceOp::sum: bound.fold = is_bool ? Fold::bor : Fold::sum; return bound;
    case ReduceOp::min: bound.fold = is_bool ? Fold::band : Fold::min; return bound;
    case ReduceOp::max: bound.fold = is_bool ? Fold::bor : Fold::max; return bound;
    case ReduceOp::product: bound.fold = is_bool ? Fold::band : Fold::product; return bound;
    case ReduceOp::band: bound.fold = Fold::band; return bound;
    case ReduceOp::bor: bound.fold = Fold::bor; return bound;
    case ReduceOp::bxor: bound.fold = Fold::bxor; return bound;
    case ReduceOp::premul_sum:
      bound.fold = Fold::scaled;
      bound.tells_factor = true;
      return bound;
    case ReduceOp::avg: break;
  }
  if (is_bool) {
    bound.fold = Fold::bor;
    return bound;
  }
  bound.finishes = true;
  bound.divisor = n;
  if (is_integer(type)) {
    bound.fold = whole ? Fold::mean : Fold::sum;
    return bound;
  }
  bound.scale = average_scale(n);
  bound.fold = whole && !is_small_float(type) ? Fold::mean : Fold::scaled;
  if (bound.fold == Fold::scaled) bound.divisor = n * bound.scale;
  return bound;
}

}  // namespace ringwood::device
