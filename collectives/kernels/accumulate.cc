#include "collectives/kernels/accumulate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "collectives/kernels/reduce_kernels.h"

namespace ringwood {
namespace {

// Elements of a tile that stays in the first cache.
constexpr size_t kTile = 1024;

std::byte* moved(void* p, size_t bytes) { return static_cast<std::byte*>(p) + bytes; }
const std::byte* moved(const void* p, size_t bytes) {
  return static_cast<const std::byte*>(p) + bytes;
}

void scale_and_add(void* dst, const void* src, size_t count, DataType type, double dst_scale,
                   double src_scale, double divisor) {
  const void* const srcs[] = {dst, src};
  const double scales[] = {dst_scale, src_scale};
  reduce_scaled({&dst, 1}, srcs, scales, count, type, divisor);
}

void scale_in_place(float* wide, size_t count, double factor) {
  void* const dst = wide;
  const void* const src = wide;
  reduce_scaled({&dst, 1}, {&src, 1}, {&factor, 1}, count, DataType::float32);
}

// ---- 16- and 8-bit floats: their sum in fp32 ---------------------------------------------------

void add_small(void* dst, const void* src, float* wide, size_t count, DataType type,
               const AccumulationStep& how) {
  float term[kTile];
  for (size_t at = 0; at < count; at += kTile) {
    const size_t size = std::min(kTile, count - at);
    std::byte* const to = moved(dst, at * size_of(type));
    if (how.first) {
      widen(wide + at, to, size, type);
      scale_in_place(wide + at, size, how.dst_scale);
    }
    widen(term, moved(src, at * size_of(type)), size, type);
    scale_and_add(wide + at, term, size, DataType::float32, 1, how.src_scale,
                  how.last ? how.divisor : 1);
    if (how.last) narrow(to, wide + at, size, type);
  }
}

// ---- integers: their sum in more bits ----------------------------------------------------------

template <class T, class Wide>
void add_integers(void* dst, const void* src, void* beside, size_t count,
                  const AccumulationStep& how) {
  for (size_t i = 0; i < count; ++i) {
    T value, operand;
    Wide sum;
    std::memcpy(&operand, moved(src, i * sizeof(T)), sizeof(T));
    if (how.first) {
      std::memcpy(&value, moved(dst, i * sizeof(T)), sizeof(T));
      sum = Wide{value};
    } else {
      std::memcpy(&sum, moved(beside, i * sizeof(Wide)), sizeof(Wide));
    }
    sum += Wide{operand};
    std::memcpy(moved(beside, i * sizeof(Wide)), &sum, sizeof(Wide));
    if (!how.last) continue;
    value = static_cast<T>(sum / how.n);
    std::memcpy(moved(dst, i * sizeof(T)), &value, sizeof(T));
  }
}

void add_integer(void* dst, const void* src, void* beside, size_t count, DataType type,
                 const AccumulationStep& how) {
  visit_integer(type,
                [&]<class T>(T) { add_integers<T, WideOf<T>>(dst, src, beside, count, how); });
}

// ---- fp32 and fp64: beside the sum, that of scaled-down operands --------------------------------

// Where the sum is not finite, that of scaled-down operands may be.
template <class T>
void end_average(void* dst, const void* beside, size_t parts, double divisor) {
  for (size_t i = 0; i < parts; ++i) {
    T mean, small;
    std::memcpy(&mean, moved(dst, i * sizeof(T)), sizeof(T));
    if (std::isfinite(mean)) continue;
    std::memcpy(&small, moved(beside, i * sizeof(T)), sizeof(T));
    small /= static_cast<T>(divisor);
    if (!std::isnan(small)) std::memcpy(moved(dst, i * sizeof(T)), &small, sizeof(T));
  }
}

void add_large(void* dst, const void* src, void* beside, size_t count, DataType type,
               const AccumulationStep& how) {
  const double down = average_scale(how.n);
  const size_t bytes = count * size_of(type);
  if (how.first) {
    const void* const operand = dst;
    reduce_scaled({&beside, 1}, {&operand, 1}, {&down, 1}, count, type);
  }
  scale_and_add(beside, src, count, type, 1, down, 1);
  reduce(dst, src, count, type, ReduceOp::sum);
  if (!how.last) return;
  divide(dst, count, type, how.n);
  if (is_double(type))
    end_average<double>(dst, beside, bytes / sizeof(double), how.n * down);
  else
    end_average<float>(dst, beside, bytes / sizeof(float), how.n * down);
}

}  // namespace

bool scales_operands(DataType type, ReduceOp op) {
  return op == ReduceOp::avg || (op == ReduceOp::premul_sum && is_small_float(type));
}

double average_scale(int n) {
  double scale = 1;
  while (scale * n > 1) scale /= 2;
  return scale;
}

size_t bytes_beside(DataType type, ReduceOp op, bool whole) {
  if (is_small_float(type)) return accumulates_wide(type, op) ? sizeof(float) : 0;
  if (op != ReduceOp::avg || !whole) return 0;
  if (!is_integer(type)) return size_of(type);
  return visit_integer(type, []<class T>(T) { return sizeof(WideOf<T>); });
}

void reduce_scaled(std::span<void* const> dsts, std::span<const void* const> srcs,
                   std::span<const double> scales, size_t count, DataType type, double divisor) {
  const size_t bytes = count * size_of(type);
  if (bytes == 0) return;
  const Finish finish = divisor == 1 ? Finish{} : Finish{false, divisor};
  kernels_in_force().reduce[static_cast<size_t>(type)][static_cast<size_t>(ReduceOp::premul_sum)](
      {dsts, srcs, bytes, finish, scales.data()});
}

void accumulate(void* dst, const void* src, void* beside, size_t count, DataType type,
                const AccumulationStep& how) {
  if (is_small_float(type))
    return add_small(dst, src, static_cast<float*>(beside), count, type, how);
  if (is_integer(type)) return add_integer(dst, src, beside, count, type, how);
  add_large(dst, src, beside, count, type, how);
}

}  // namespace ringwood
