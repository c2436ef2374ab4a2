// Floating-point arithmetic. 16-bit floats are computed as doubles: sums, products and quotients of
// theirs that are rounded to 53 bits first are rounded to 11 or 8 bits as if at once.
#include <cmath>
#include <limits>

#include "tests/ptx/arithmetic/arithmetic.h"

namespace ringwood::ptx {
namespace {

// a * b + c where the product is exact: odd in its last bit if it is not exact, so that rounding it
// again is right.
double fused_to_odd(double a, double b, double c) {
  const double product = a * b, sum = product + c;
  if (!std::isfinite(sum)) return sum;
  const double back = sum - product;
  const double error = (product - (sum - back)) + (c - back);
  const uint64_t bits = std::bit_cast<uint64_t>(sum);
  if (error == 0 || (bits & 1) != 0) return sum;
  const bool away = (error > 0) == (sum > 0);
  return std::bit_cast<double>(away ? bits + 1 : bits - 1);
}

struct F32 {
  using Value = float;
  static constexpr int kBits = 32;
  static float read(uint64_t slot) { return value_of<float>(slot); }
  static uint64_t write(float value) { return std::isnan(value) ? kNan32 : slot_of(value); }
  static float fma(float a, float b, float c) { return std::fma(a, b, c); }
};
struct F64 {
  using Value = double;
  static constexpr int kBits = 64;
  static double read(uint64_t slot) { return value_of<double>(slot); }
  static uint64_t write(double value) { return slot_of(value); }
  static double fma(double a, double b, double c) { return std::fma(a, b, c); }
};
struct F16 {
  using Value = double;
  static constexpr int kBits = 16;
  static double read(uint64_t slot) { return wide_f16(static_cast<uint16_t>(slot)); }
  static uint64_t write(double value) { return narrow_f16(value); }
  static double fma(double a, double b, double c) { return fused_to_odd(a, b, c); }
};
struct Bf16 {
  using Value = double;
  static constexpr int kBits = 16;
  static double read(uint64_t slot) { return wide_bf16(static_cast<uint16_t>(slot)); }
  static uint64_t write(double value) { return narrow_bf16(value); }
  static double fma(double a, double b, double c) { return fused_to_odd(a, b, c); }
};

template <class V>
V lesser(V a, V b) {
  return a < b || (a == b && std::signbit(a)) ? a : b;
}

template <class F>
typename F::Value computed(Operation operation, typename F::Value a, typename F::Value b,
                           typename F::Value c, bool nan) {
  using V = typename F::Value;
  switch (operation) {
    case Operation::add: return a + b;
    case Operation::sub: return a - b;
    case Operation::mul: return a * b;
    case Operation::div: return a / b;
    case Operation::rcp: return V{1} / a;
    case Operation::sqrt: return std::sqrt(a);
    case Operation::fma: return F::fma(a, b, c);
    default: break;
  }
  // min and max: a number, if one of both is one.
  if (std::isnan(a) || std::isnan(b)) {
    if (nan || (std::isnan(a) && std::isnan(b))) return std::numeric_limits<V>::quiet_NaN();
    return std::isnan(a) ? b : a;
  }
  return operation == Operation::min ? lesser(a, b) : -lesser(-a, -b);
}

template <class F, Operation kOperation>
uint64_t one(const uint64_t* slots, const Instruction& x, int shift) {
  const auto source = [&](int i) {
    return F::read(x.src[i] == kNoSlot ? 0 : slots[x.src[i]] >> shift);
  };
  auto value = computed<F>(kOperation, source(0), source(1), source(2), x.nan);
  if (x.saturate) value = std::isnan(value) || value < 0 ? 0 : value > 1 ? 1 : value;
  return F::write(value);
}
template <class F, Operation kOperation, bool kPacked>
void run(uint64_t* slots, const Instruction& x) {
  uint64_t result = one<F, kOperation>(slots, x, 0);
  if constexpr (kPacked) result |= one<F, kOperation>(slots, x, 16) << 16;
  slots[x.dst[0]] = result;
}

template <Operation kOperation>
Compute over_floats(Type type) {
  switch (type) {
    case Type::f32: return &run<F32, kOperation, false>;
    case Type::f64: return &run<F64, kOperation, false>;
    case Type::f16: return &run<F16, kOperation, false>;
    case Type::bf16: return &run<Bf16, kOperation, false>;
    case Type::f16x2: return &run<F16, kOperation, true>;
    case Type::bf16x2: return &run<Bf16, kOperation, true>;
    default: return nullptr;
  }
}

uint64_t sign_mask(Type type) {
  if (type == Type::f16x2 || type == Type::bf16x2) return 0x80008000u;
  return uint64_t{1} << (bits_of(type) - 1);
}
void run_neg(uint64_t* slots, const Instruction& x) {
  slots[x.dst[0]] = low_bits(slots[x.src[0]] ^ sign_mask(x.type), bits_of(x.type));
}
void run_abs(uint64_t* slots, const Instruction& x) {
  slots[x.dst[0]] = low_bits(slots[x.src[0]] & ~sign_mask(x.type), bits_of(x.type));
}
// The sign of the first, all else of the second.
void run_copysign(uint64_t* slots, const Instruction& x) {
  const uint64_t mask = sign_mask(x.type);
  slots[x.dst[0]] = (slots[x.src[0]] & mask) | (slots[x.src[1]] & ~mask);
}

template <class F, Operation kOperation>
void run_test(uint64_t* slots, const Instruction& x) {
  const auto a = F::read(slots[x.src[0]]);
  const int kind = std::fpclassify(a);
  const bool is = kOperation == Operation::testp_finite       ? std::isfinite(a)
                  : kOperation == Operation::testp_infinite   ? kind == FP_INFINITE
                  : kOperation == Operation::testp_number     ? kind != FP_NAN
                  : kOperation == Operation::testp_notanumber ? kind == FP_NAN
                  : kOperation == Operation::testp_normal     ? kind == FP_NORMAL
                                                              : kind == FP_SUBNORMAL;
  slots[x.dst[0]] = is ? 1 : 0;
}
template <Operation kOperation>
Compute tested(Type type) {
  if (type == Type::f32) return &run_test<F32, kOperation>;
  return type == Type::f64 ? &run_test<F64, kOperation> : nullptr;
}

}  // namespace

Compute find_float(Operation operation, Type type) {
  if (!is_float(type)) return nullptr;
  const bool whole = bits_of(type) >= 32 && type != Type::f16x2 && type != Type::bf16x2;
  switch (operation) {
    case Operation::add: return over_floats<Operation::add>(type);
    case Operation::sub: return over_floats<Operation::sub>(type);
    case Operation::mul: return over_floats<Operation::mul>(type);
    case Operation::fma: return over_floats<Operation::fma>(type);
    case Operation::min: return over_floats<Operation::min>(type);
    case Operation::max: return over_floats<Operation::max>(type);
    case Operation::div: return whole ? over_floats<Operation::div>(type) : nullptr;
    case Operation::rcp: return whole ? over_floats<Operation::rcp>(type) : nullptr;
    case Operation::sqrt: return whole ? over_floats<Operation::sqrt>(type) : nullptr;
    case Operation::neg: return &run_neg;
    case Operation::abs: return &run_abs;
    case Operation::copysign: return whole ? &run_copysign : nullptr;
    case Operation::testp_finite: return tested<Operation::testp_finite>(type);
    case Operation::testp_infinite: return tested<Operation::testp_infinite>(type);
    case Operation::testp_number: return tested<Operation::testp_number>(type);
    case Operation::testp_notanumber: return tested<Operation::testp_notanumber>(type);
    case Operation::testp_normal: return tested<Operation::testp_normal>(type);
    case Operation::testp_subnormal: return tested<Operation::testp_subnormal>(type);
    default: return nullptr;
  }
}

}  // namespace ringwood::ptx
