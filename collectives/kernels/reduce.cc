// Dispatch to the kernels in use, and integer division.
#include "collectives/kernels/reduce.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "collectives/kernels/reduce_kernels.h"

namespace ringwood {
namespace {

// Null until the first call. A pointer to an immutable table, so a change is atomic.
std::atomic<const Kernels*> in_force{nullptr};

const Kernels* best() {
  for (const KernelSet& set : kernel_sets()) {
    if (set.runs_here) return set.kernels;
  }
  return kernel_sets().back().kernels;
}

const Kernels& kernels() {
  const Kernels* chosen = in_force.load(std::memory_order_acquire);
  if (chosen != nullptr) return *chosen;
  // Compare, so that a concurrent force_simd_target is not undone.
  const Kernels* found = best();
  if (in_force.compare_exchange_strong(chosen, found)) return *found;
  return *chosen;
}

// Below the size of a vector plain code is 2 to 4 times as fast.
constexpr size_t kFewBytes = 64;
bool is_few(size_t bytes, DataType type) { return bytes < kFewBytes && !converts(type); }

size_t index(DataType type) { return static_cast<size_t>(type); }
size_t index(ReduceOp op) { return static_cast<size_t>(op); }

void fold(const Operands& operands, DataType type, ReduceOp op) {
  if (operands.bytes == 0) return;
  const Finish& finish = operands.finish;
  const bool only_adds = (op == ReduceOp::avg && finish.multiplies && finish.by == 1) ||
                         (op == ReduceOp::premul_sum && !operands.scales);
  const Kernels& table = is_few(operands.bytes, type) ? plain_kernels() : kernels();
  table.reduce[index(type)][index(only_adds ? ReduceOp::sum : op)](operands);
}

template <class T, class Quotient>
void divide_each(void* dst, size_t count, Quotient quotient) {
  auto* at = static_cast<unsigned char*>(dst);
  for (size_t i = 0; i < count; ++i, at += sizeof(T)) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    value = quotient(value);
    std::memcpy(at, &value, sizeof(T));
  }
}

template <class T>
void divide_as(void* dst, size_t count, int64_t divisor) {
  if (divisor == -1) {  // the most negative value has no positive counterpart, and wraps
    using Unsigned = std::make_unsigned_t<T>;
    return divide_each<T>(dst, count, [](T value) {
      return static_cast<T>(Unsigned{0} - static_cast<Unsigned>(value));
    });
  }
  if constexpr (sizeof(T) == 8) {
    divide_each<T>(dst, count, [divisor](T value) { return static_cast<T>(value / divisor); });
  } else {
    // Vectors divide floats only. With more bits than T has, a quotient is never rounded up to the
    // next integer.
    using Float = std::conditional_t<sizeof(T) == 4, double, float>;
    using Quotient = std::conditional_t<std::is_same_v<T, uint32_t>, int64_t, int32_t>;
    const auto by = static_cast<Float>(divisor);
    divide_each<T>(dst, count, [by](T value) {
      return static_cast<T>(static_cast<Quotient>(static_cast<Float>(value) / by));
    });
  }
}

// Up to here dividing in fp32 and then rounding to the type is as good as one rounding: a
// quotient that is not in the middle between two numbers of the type is never close enough to be
// rounded to it.
int64_t largest_fp32_divisor(DataType type) { return is_small_float(type) ? 2048 : kMaxDivisor; }

Finish division(int64_t divisor) {
  const auto by = static_cast<double>(divisor);
  int exponent;
  const bool power_of_two = std::fabs(std::frexp(by, &exponent)) == 0.5;
  const double down = std::ldexp(1.0, power_of_two ? 1 - exponent : -exponent);
  if (power_of_two) return {true, 1 / by, down};  // exact, and faster
  return {false, by, down};
}

void finish_in_place(void* dst, size_t count, DataType type, const Finish& finish) {
  const void* src = dst;
  const Operands operands{{&dst, 1}, {&src, 1}, count * size_of(type), finish};
  fold(operands, type, ReduceOp::avg);
}

// Whether multiplying in fp32 (double: in double) and rounding to the type rounds only once.
bool is_exact_factor(DataType type, double factor) {
  if (is_double(type)) return true;
  int exponent;
  const double mantissa = std::frexp(factor, &exponent);
  if (size_of(type) <= 2) return std::fabs(mantissa) == 0.5 && std::abs(exponent) < 64;
  return std::fabs(factor) <= std::numeric_limits<float>::max() &&
         static_cast<double>(static_cast<float>(factor)) == factor;
}

// In place. There are 256 numbers of 8 bits, so for more elements the products are looked up.
void scale_in_place(void* dst, size_t count, DataType type, Kernels::Scale kernel, double factor) {
  constexpr size_t kNumbers = 256;
  if (size_of(type) != 1 || count < 2 * kNumbers) {
    return kernel(dst, count * size_of(type), factor);
  }
  uint8_t scaled[kNumbers];
  for (size_t code = 0; code < kNumbers; ++code) scaled[code] = static_cast<uint8_t>(code);
  kernel(scaled, kNumbers, factor);
  auto* codes = static_cast<uint8_t*>(dst);
  for (size_t i = 0; i < count; ++i) codes[i] = scaled[codes[i]];
}

// Adds in a tile that stays in the first cache, with enough bits that no sum wraps.
template <class T, class Wide>
void average_as(std::span<void* const> dsts, std::span<const void* const> srcs, size_t count,
                int64_t divisor) {
  constexpr size_t kTile = 512;
  Wide sums[kTile];
  T values[kTile];
  for (size_t start = 0; start < count; start += kTile) {
    const size_t size = std::min(kTile, count - start);
    std::fill_n(sums, size, 0);
    for (const void* src : srcs) {
      std::memcpy(values, static_cast<const T*>(src) + start, size * sizeof(T));
      for (size_t i = 0; i < size; ++i) sums[i] += values[i];
    }
    for (size_t i = 0; i < size; ++i) values[i] = static_cast<T>(sums[i] / divisor);
    for (void* dst : dsts) std::memcpy(static_cast<T*>(dst) + start, values, size * sizeof(T));
  }
}

void average_integers(std::span<void* const> dsts, std::span<const void* const> srcs, size_t count,
                      DataType type, int64_t divisor) {
  visit_integer(type, [&]<class T>(T) { average_as<T, WideOf<T>>(dsts, srcs, count, divisor); });
}

// Kept out of the path for few bytes.
[[gnu::noinline]] void reduce_in_vectors(void* dst, const void* src, size_t bytes, DataType type,
                                         ReduceOp op) {
  const void* const srcs[] = {dst, src};
  fold({{&dst, 1}, srcs, bytes}, type, op);
}

void copy_to_all(std::span<void* const> dsts, const void* src, size_t bytes) {
  for (void* dst : dsts) {
    if (dst != src) std::memcpy(dst, src, bytes);
  }
}

}  // namespace

const Kernels& kernels_in_force() { return kernels(); }

void reduce(void* dst, const void* src, size_t count, DataType type, ReduceOp op) {
  reduce_bytes(dst, src, count * size_of(type), type, op);
}

void reduce_bytes(void* dst, const void* src, size_t bytes, DataType type, ReduceOp op) {
  if (bytes < kFewBytes) {
    const Kernels::Pair pair = plain_kernels().pair[index(type)][index(op)];
    if (pair) return pair(dst, src, bytes);
  }
  reduce_in_vectors(dst, src, bytes, type, op);
}

void scale(void* dst, size_t count, DataType type, double factor) {
  if (is_exact_factor(type, factor)) return finish_in_place(dst, count, type, {true, factor});
  scale_in_place(dst, count, type, kernels().scale[index(type)], factor);
}

void divide(void* dst, size_t count, DataType type, int64_t divisor) {
  if (is_integer(type))
    return visit_integer(type, [&]<class T>(T) { divide_as<T>(dst, count, divisor); });
  const int64_t largest = largest_fp32_divisor(type);
  if (is_double(type) || (-largest <= divisor && divisor <= largest)) {
    return finish_in_place(dst, count, type, division(divisor));
  }
  scale_in_place(dst, count, type, kernels().divide[index(type)], static_cast<double>(divisor));
}

void reduce_many(std::span<void* const> dsts, std::span<const void* const> srcs, size_t count,
                 DataType type, ReduceOp op, int64_t divisor) {
  const size_t bytes = count * size_of(type);
  if (bytes == 0) return;
  const bool divides = divisor != 1;
  if (srcs.size() == 1 && !divides) return copy_to_all(dsts, srcs[0], bytes);
  if (divides && is_integer(type)) {
    return average_integers(dsts, srcs, count, type, divisor);
  }
  fold({dsts, srcs, bytes, divides ? division(divisor) : Finish{}}, type, op);
}

void widen(float* wide, const void* src, size_t count, DataType type) {
  kernels().widen[index(type)](wide, src, count);
}

void reduce_wide(float* wide, const void* src, size_t count, DataType type, ReduceOp op) {
  const Kernels& table = kernels();
  const auto& kernel = op == ReduceOp::product ? table.multiply_wide : table.add_wide;
  kernel[index(type)](wide, src, count);
}

void narrow(void* dst, const float* wide, size_t count, DataType type) {
  kernels().narrow[index(type)](dst, wide, count);
}

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const KernelSet& set : kernel_sets()) {
    if (set.runs_here) names.emplace_back(set.kernels->simd);
  }
  return names;
}

std::string simd_target() { return kernels().simd; }

void force_simd_target(const std::string& name) {
  if (name.empty()) return in_force.store(best(), std::memory_order_release);
  std::string known;
  bool found = false;
  for (const KernelSet& set : kernel_sets()) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", set.kernels->simd);
    found = found || name == set.kernels->simd;
    // A cap, not a requirement: the same setting also works on hosts that lack the best
    // set it allows.
    if (found && set.runs_here) return in_force.store(set.kernels, std::memory_order_release);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("'{}' is not an instruction set of this build; use one of {}, or leave "
                          "RINGWOOD_SIMD empty for the best",
                          name, known));
}

}  // namespace ringwood
