// Reductions the long way, one element at a time, written from the definition of each number format
// and not from the kernels. Slow and without tricks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "collectives/kernels/reduce.h"

namespace ringwood::reference {

template <class T>
T read(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void write(void* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

// A float of at most 16 bits: every code is listed, and rounding looks for the neighbours in that
// list.
class SmallFormat {
 public:
  // finite_only: as torch.float8_e4m3fn. There is no infinity, all ones is NaN, too large becomes
  // the largest.
  SmallFormat(int exponent_bits, int mantissa_bits, bool finite_only)
      : exponent_bits_(exponent_bits), mantissa_bits_(mantissa_bits), finite_only_(finite_only) {
    for (uint32_t code = 0; code < sign_bit() && std::isfinite(decode(code)); ++code) {
      numbers_.push_back(decode(code));
    }
  }

  uint32_t codes() const { return 2 * sign_bit(); }
  size_t bytes() const { return codes() > 256 ? 2 : 1; }
  uint32_t nan() const { return sign_bit() - 1; }
  bool is_nan(uint32_t code) const { return std::isnan(decode(code)); }

  double decode(uint32_t code) const {
    const uint32_t ones = (1u << exponent_bits_) - 1;
    const uint32_t exponent = (code >> mantissa_bits_) & ones;
    const uint32_t mantissa = code & ((1u << mantissa_bits_) - 1);
    const double sign = (code & sign_bit()) != 0 ? -1 : 1;
    const int lowest = 2 - (1 << (exponent_bits_ - 1)) - mantissa_bits_;  // exponent of code 1
    if (finite_only_ ? (code & nan()) == nan() : exponent == ones && mantissa != 0) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    if (exponent == ones && !finite_only_) return sign * std::numeric_limits<double>::infinity();
    if (exponent == 0) return sign * std::ldexp(mantissa, lowest);
    return sign *
           std::ldexp((1u << mantissa_bits_) + mantissa, lowest + static_cast<int>(exponent) - 1);
  }

  uint32_t encode(double value) const {
    if (std::isnan(value)) return nan();
    return nearest(std::fabs(value)) | (std::signbit(value) ? sign_bit() : 0);
  }

 private:
  uint32_t sign_bit() const { return 1u << (exponent_bits_ + mantissa_bits_); }

  uint32_t nearest(double magnitude) const {
    const auto above = std::upper_bound(numbers_.begin(), numbers_.end(), magnitude);
    const auto below = static_cast<uint32_t>(above - numbers_.begin()) - 1;
    const auto last = static_cast<uint32_t>(numbers_.size()) - 1;
    if (below == last && finite_only_) return last;
    const double step =
        below == last ? numbers_[last] - numbers_[last - 1] : numbers_[below + 1] - numbers_[below];
    const double rest = magnitude - numbers_[below];
    const bool up = rest > step / 2 || (rest == step / 2 && below % 2 == 1);
    return below + (up ? 1 : 0);  // past the last number lies infinity
  }

  int exponent_bits_, mantissa_bits_;
  bool finite_only_;
  std::vector<double> numbers_;  // by code, ascending, from zero to the largest
};

// Precondition: is_small_float(type).
inline const SmallFormat& format_of(DataType type) {
  static const SmallFormat float16(5, 10, false), bfloat16(8, 7, false), e4m3(4, 3, true),
      e5m2(5, 2, false);
  switch (type) {
    case DataType::float16: return float16;
    case DataType::bfloat16: return bfloat16;
    case DataType::float8_e4m3: return e4m3;
    default: return e5m2;
  }
}

inline uint32_t read_code(const void* from, DataType type) {
  return size_of(type) == 1 ? read<uint8_t>(from) : read<uint16_t>(from);
}

inline void write_code(void* to, DataType type, uint32_t code) {
  if (size_of(type) == 1) return write(to, static_cast<uint8_t>(code));
  write(to, static_cast<uint16_t>(code));
}

// -0 is less than 0.
template <class T>
T lesser(T a, T b) {
  return a < b || (a == b && std::signbit(a)) ? a : b;
}

template <class T>
T float_result(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::min: return std::isnan(a) || std::isnan(b) ? std::nan("") : lesser(a, b);
    case ReduceOp::max: return std::isnan(a) || std::isnan(b) ? std::nan("") : -lesser(-a, -b);
    case ReduceOp::product: return a * b;
    default: return a + b;
  }
}

template <class T>
T integer_result(ReduceOp op, T a, T b) {
  const auto x = static_cast<uint64_t>(a),
             y = static_cast<uint64_t>(b);  // wraps; the low bits agree
  switch (op) {
    case ReduceOp::min: return std::min(a, b);
    case ReduceOp::max: return std::max(a, b);
    case ReduceOp::product: return static_cast<T>(x * y);
    case ReduceOp::band: return static_cast<T>(x & y);
    case ReduceOp::bor: return static_cast<T>(x | y);
    case ReduceOp::bxor: return static_cast<T>(x ^ y);
    default: return static_cast<T>(x + y);
  }
}

inline bool bool_result(ReduceOp op, bool a, bool b) {
  switch (op) {
    case ReduceOp::min:
    case ReduceOp::product:
    case ReduceOp::band: return a && b;
    case ReduceOp::bxor: return a != b;
    default: return a || b;
  }
}

template <class T>
void combine_floats(void* dst, const void* src, ReduceOp op) {
  write(dst, float_result(op, read<T>(dst), read<T>(src)));
}

template <class T>
void combine_integers(void* dst, const void* src, ReduceOp op) {
  write(dst, integer_result(op, read<T>(dst), read<T>(src)));
}

// Codes of `format` in and out; computed in fp32.
inline uint32_t small_result(const SmallFormat& format, ReduceOp op, uint32_t a, uint32_t b) {
  const auto left = static_cast<float>(format.decode(a));
  return format.encode(float_result(op, left, static_cast<float>(format.decode(b))));
}

// One element: *dst = *dst op *src.
inline void combine(void* dst, const void* src, DataType type, ReduceOp op) {
  auto* d = static_cast<uint8_t*>(dst);
  const auto* s = static_cast<const uint8_t*>(src);
  if (is_integer(type))
    return visit_integer(type, [&]<class T>(T) { combine_integers<T>(dst, src, op); });
  switch (type) {
    case DataType::float64: return combine_floats<double>(dst, src, op);
    case DataType::float32: return combine_floats<float>(dst, src, op);
    case DataType::bool8: return write(dst, bool_result(op, *d != 0, *s != 0));
    case DataType::complex64:
      combine_floats<float>(d, s, op);
      return combine_floats<float>(d + 4, s + 4, op);
    case DataType::complex128:
      combine_floats<double>(d, s, op);
      return combine_floats<double>(d + 8, s + 8, op);
    default: break;
  }
  const uint32_t a = read_code(dst, type), b = read_code(src, type);
  write_code(dst, type, small_result(format_of(type), op, a, b));
}

// One element: *dst *= factor.
inline void scale(void* dst, DataType type, double factor) {
  auto* d = static_cast<uint8_t*>(dst);
  const auto scale_float = [factor](uint8_t* at) {
    write(at, static_cast<float>(static_cast<double>(read<float>(at)) * factor));
  };
  switch (type) {
    case DataType::float64: return write(dst, read<double>(dst) * factor);
    case DataType::float32: return scale_float(d);
    case DataType::complex64: scale_float(d); return scale_float(d + 4);
    case DataType::complex128:
      write(d, read<double>(d) * factor);
      return write(d + 8, read<double>(d + 8) * factor);
    default: break;
  }
  const SmallFormat& format = format_of(type);
  write_code(dst, type, format.encode(format.decode(read_code(dst, type)) * factor));
}

// One element: *dst /= divisor, rounded once; integers truncate.
inline void divide(void* dst, DataType type, int64_t divisor) {
  const auto by = static_cast<double>(divisor);
  const auto divide_float = [by](void* at) {
    write(at, static_cast<float>(static_cast<double>(read<float>(at)) / by));
  };
  const auto divide_double = [by](void* at) { write(at, read<double>(at) / by); };
  auto* d = static_cast<uint8_t*>(dst);
  if (is_integer(type))
    return visit_integer(type, [=]<class T>(T) {
      write(dst, static_cast<T>(static_cast<__int128>(read<T>(dst)) / divisor));
    });
  switch (type) {
    case DataType::float64: return divide_double(d);
    case DataType::float32: return divide_float(d);
    case DataType::complex64: divide_float(d); return divide_float(d + 4);
    case DataType::complex128: divide_double(d); return divide_double(d + 8);
    default: break;
  }
  const SmallFormat& format = format_of(type);
  write_code(dst, type, format.encode(format.decode(read_code(dst, type)) / by));
}

// The sum divided; where it overflows, that of operands so many times smaller that it cannot.
template <class T>
T mean(const std::vector<T>& operands, int64_t divisor) {
  const auto by = static_cast<T>(divisor);
  const T down = std::ldexp(T{1}, -std::ilogb(by) - (std::ilogb(by) != std::log2(by) ? 1 : 0));
  T sum = operands[0], small = operands[0] * down;
  for (size_t k = 1; k < operands.size(); ++k) {
    sum += operands[k];
    small += operands[k] * down;
  }
  return std::isfinite(sum / by) ? sum / by : small / (by * down);
}
template <class T>
void write_mean(void* dst, const std::vector<const uint8_t*>& operands, size_t offset,
                int64_t divisor) {
  std::vector<T> values;
  for (const uint8_t* operand : operands) values.push_back(read<T>(operand + offset));
  write(static_cast<uint8_t*>(dst) + offset, mean(values, divisor));
}
template <class T>
void write_integer_mean(void* dst, const std::vector<const uint8_t*>& operands, int64_t divisor) {
  __int128 sum = 0;
  for (const uint8_t* operand : operands) sum += read<T>(operand);
  write(dst, static_cast<T>(sum / divisor));
}

inline void average(void* dst, const std::vector<const uint8_t*>& operands, DataType type,
                    int64_t divisor) {
  if (is_integer(type))
    return visit_integer(type, [&]<class T>(T) { write_integer_mean<T>(dst, operands, divisor); });
  switch (type) {
    case DataType::float64: return write_mean<double>(dst, operands, 0, divisor);
    case DataType::float32: return write_mean<float>(dst, operands, 0, divisor);
    case DataType::complex64:
      write_mean<float>(dst, operands, 0, divisor);
      return write_mean<float>(dst, operands, 4, divisor);
    case DataType::complex128:
      write_mean<double>(dst, operands, 0, divisor);
      return write_mean<double>(dst, operands, 8, divisor);
    default: break;
  }
  const SmallFormat& format = format_of(type);
  std::vector<float> values;
  for (const uint8_t* operand : operands)
    values.push_back(static_cast<float>(format.decode(read_code(operand, type))));
  write_code(dst, type, format.encode(mean(values, divisor)));
}

// One element of reduce_many: `operands` folded from left to right, then divided.
inline void fold(void* dst, const std::vector<const uint8_t*>& operands, DataType type, ReduceOp op,
                 int64_t divisor) {
  if (op == ReduceOp::avg && divisor != 1) return average(dst, operands, type, divisor);
  if (!accumulates_wide(type, op)) {
    std::memcpy(dst, operands[0], size_of(type));
    for (size_t k = 1; k < operands.size(); ++k) combine(dst, operands[k], type, op);
    return;
  }
  const SmallFormat& format = format_of(type);
  auto wide = static_cast<float>(format.decode(read_code(operands[0], type)));
  for (size_t k = 1; k < operands.size(); ++k) {
    const auto operand = static_cast<float>(format.decode(read_code(operands[k], type)));
    wide = float_result(op, wide, operand);
  }
  write_code(dst, type, format.encode(wide));
}

}  // namespace ringwood::reference
