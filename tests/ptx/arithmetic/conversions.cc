// Conversions between integers and floats of all widths, and the 16-bit floats.
#include <cmath>
#include <limits>

#include "tests/ptx/arithmetic/arithmetic.h"

namespace ringwood::ptx {
namespace {

// The smallest exponent of normal numbers, and the bits of the fraction.
struct Format {
  int exponent_bits, fraction_bits;
  int smallest() const { return 2 - (1 << (exponent_bits - 1)); }
};
constexpr Format kF16{5, 10}, kBf16{8, 7};

double wide(Format format, uint16_t bits) {
  const int exponent = bits >> format.fraction_bits & ((1 << format.exponent_bits) - 1);
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  double value = 0;
  if (exponent == (1 << format.exponent_bits) - 1)
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    value = std::ldexp(fraction, format.smallest() - format.fraction_bits);
  else
    value = std::ldexp(fraction + (1 << format.fraction_bits),
                       format.smallest() + exponent - 1 - format.fraction_bits);
  return (bits & 0x8000) != 0 ? -value : value;
}

uint16_t narrow(Format format, double value, Rounding rounding) {
  if (std::isnan(value)) return kNan16;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const uint16_t infinity =
      static_cast<uint16_t>(((1 << format.exponent_bits) - 1) << format.fraction_bits);
  if (std::isinf(value)) return sign | infinity;
  const bool to_zero = rounding == Rounding::rz || (rounding == Rounding::rm && sign == 0) ||
                       (rounding == Rounding::rp && sign != 0);
  const bool away = !to_zero && rounding != Rounding::rn;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // [0.5, 1)
  const uint64_t digits = static_cast<uint64_t>(std::ldexp(fraction, 53));
  --exponent;
  const int below = std::max(0, format.smallest() - exponent);
  const int dropped = std::min(52 - format.fraction_bits + below, 62);
  uint64_t result = digits >> dropped;
  const uint64_t rest = digits & ((uint64_t{1} << dropped) - 1),
                 half = uint64_t{1} << (dropped - 1);
  if (below == 0 && digits != 0)
    result += static_cast<uint64_t>(exponent - format.smallest()) << format.fraction_bits;
  if (rounding == Rounding::rn ? rest > half || (rest == half && (result & 1) != 0)
                               : away && rest != 0)
    ++result;
  if (result >= infinity) result = to_zero ? infinity - 1 : infinity;
  return static_cast<uint16_t>(sign | result);
}

// Rounded to nearest by the host, then moved to the neighbour that the rounding wants.
template <class F>
F rounded(long double value, Rounding rounding) {
  F result = static_cast<F>(value);
  if (rounding == Rounding::rn || rounding == Rounding::none || std::isnan(result)) return result;
  const bool up = rounding == Rounding::rp || (rounding == Rounding::rz && value < 0);
  const F infinity = std::numeric_limits<F>::infinity();
  if (up && static_cast<long double>(result) < value) result = std::nextafter(result, infinity);
  if (!up && static_cast<long double>(result) > value) result = std::nextafter(result, -infinity);
  return result;
}

template <class V>
V integral(V value, Rounding rounding) {
  switch (rounding) {
    case Rounding::rni: return std::nearbyint(value);
    case Rounding::rzi: return std::trunc(value);
    case Rounding::rmi: return std::floor(value);
    case Rounding::rpi: return std::ceil(value);
    default: return value;
  }
}

double read_float(Type type, uint64_t slot) {
  switch (type) {
    case Type::f32: return value_of<float>(slot);
    case Type::f64: return value_of<double>(slot);
    case Type::f16: return wide_f16(static_cast<uint16_t>(slot));
    default: return wide_bf16(static_cast<uint16_t>(slot));
  }
}

uint64_t write_float(Type type, long double value, Rounding rounding) {
  if (type == Type::f64) return slot_of(rounded<double>(value, rounding));
  if (type == Type::f32)
    return std::isnan(value) ? kNan32 : slot_of(rounded<float>(value, rounding));
  const double narrower = static_cast<double>(value);
  return type == Type::f16 ? narrow_f16(narrower, rounding) : narrow_bf16(narrower, rounding);
}

// An integer as the destination's register holds it.
uint64_t in_register(const Instruction& x, uint64_t value) {
  const int bits = bits_of(x.type);
  const uint64_t wide =
      is_signed(x.type) ? static_cast<uint64_t>(sign_extended(value, bits)) : low_bits(value, bits);
  return low_bits(wide, x.dst_bits);
}

struct Range {
  long double least, greatest;
};
Range range_of(Type type) {
  const int bits = bits_of(type);
  if (is_signed(type)) return {-std::ldexp(1.0L, bits - 1), std::ldexp(1.0L, bits - 1) - 1};
  return {0, std::ldexp(1.0L, bits) - 1};
}

void integer_to_integer(uint64_t* slots, const Instruction& x) {
  const int from = bits_of(x.from);
  const uint64_t a = slots[x.src[0]];
  uint64_t value =
      is_signed(x.from) ? static_cast<uint64_t>(sign_extended(a, from)) : low_bits(a, from);
  if (x.saturate) {
    const long double exact = is_signed(x.from)
                                  ? static_cast<long double>(static_cast<int64_t>(value))
                                  : static_cast<long double>(value);
    const Range range = range_of(x.type);
    if (exact < range.least) value = static_cast<uint64_t>(static_cast<int64_t>(range.least));
    if (exact > range.greatest) value = static_cast<uint64_t>(range.greatest);
  }
  slots[x.dst[0]] = in_register(x, value);
}

void integer_to_float(uint64_t* slots, const Instruction& x) {
  const int from = bits_of(x.from);
  const uint64_t a = low_bits(slots[x.src[0]], from);
  const long double value = is_signed(x.from) ? static_cast<long double>(sign_extended(a, from))
                                              : static_cast<long double>(a);
  slots[x.dst[0]] = write_float(x.type, value, x.rounding);
}

void float_to_integer(uint64_t* slots, const Instruction& x) {
  const double a = read_float(x.from, slots[x.src[0]]);
  if (std::isnan(a)) {
    const bool wide = x.from == Type::f64 || bits_of(x.type) == 64;
    slots[x.dst[0]] = in_register(x, wide ? uint64_t{1} << (bits_of(x.type) - 1) : 0);
    return;
  }
  const long double value = integral(a, x.rounding);
  const Range range = range_of(x.type);
  const long double held = std::min(std::max(value, range.least), range.greatest);
  const uint64_t bits =
      held < 0 ? static_cast<uint64_t>(static_cast<int64_t>(held)) : static_cast<uint64_t>(held);
  slots[x.dst[0]] = in_register(x, bits);
}

void float_to_float(uint64_t* slots, const Instruction& x) {
  double value = integral(read_float(x.from, slots[x.src[0]]), x.rounding);
  if (x.saturate) value = std::isnan(value) || value < 0 ? 0 : value > 1 ? 1 : value;
  const bool to_integer = x.rounding >= Rounding::rni;
  slots[x.dst[0]] = write_float(x.type, value, to_integer ? Rounding::rn : x.rounding);
}

// Two f32, of which the first becomes the upper half.
void pair_of_floats(uint64_t* slots, const Instruction& x) {
  const Type half = x.type == Type::f16x2 ? Type::f16 : Type::bf16;
  const auto converted = [&](int i) {
    return write_float(half, value_of<float>(slots[x.src[i]]), x.rounding);
  };
  slots[x.dst[0]] = converted(0) << 16 | converted(1);
}

}  // namespace

double wide_f16(uint16_t bits) { return wide(kF16, bits); }
double wide_bf16(uint16_t bits) { return wide(kBf16, bits); }
uint16_t narrow_f16(double value, Rounding rounding) { return narrow(kF16, value, rounding); }
uint16_t narrow_bf16(double value, Rounding rounding) { return narrow(kBf16, value, rounding); }

Compute find_conversion(const Instruction& x) {
  const bool to_integer = x.rounding >= Rounding::rni;
  if (x.from == Type::none || x.type == Type::none) return nullptr;
  if (x.type == Type::f16x2 || x.type == Type::bf16x2)
    return x.from == Type::f32 && x.rounding != Rounding::none && !to_integer ? &pair_of_floats
                                                                              : nullptr;
  if (x.from == Type::f16x2 || x.from == Type::bf16x2) return nullptr;
  const bool from_float = is_float(x.from), to_float = is_float(x.type);
  if (!from_float && !to_float) return x.rounding == Rounding::none ? &integer_to_integer : nullptr;
  if (!from_float) {
    // A 64-bit integer would be rounded twice.
    if (bits_of(x.type) == 16 && bits_of(x.from) == 64) return nullptr;
    return x.rounding != Rounding::none && !to_integer ? &integer_to_float : nullptr;
  }
  if (!to_float) return to_integer ? &float_to_integer : nullptr;
  return &float_to_float;
}

}  // namespace ringwood::ptx
