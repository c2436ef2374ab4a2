#include "tools/perf/perf_pattern.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace ringwood::tools {
namespace {

constexpr size_t kPeriod = 7919;  // prime, so no power of two displaces data by a whole period
constexpr int64_t kLargest = 1023;

// The largest m, up to 2^24, so that all integers 0 ... m are exact in the type.
int64_t exact_up_to(DataType type) {
  const TypeTraits& row = traits_of(type);
  constexpr int kMaxBits = 24;
  if (row.kind == NumberKind::boolean) return 1;
  if (row.kind != NumberKind::integer)
    return int64_t{1} << std::min(kMaxBits, row.mantissa_bits + 1);
  const int bits = static_cast<int>(8 * row.bytes) - (row.is_signed ? 1 : 0);
  return bits < kMaxBits ? (int64_t{1} << bits) - 1 : int64_t{1} << kMaxBits;
}

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Round to nearest even; never negative, never beyond the type's range here.
uint64_t small_float(double value, const TypeTraits& format) {
  if (value == 0) return 0;
  const int lowest = 2 - (1 << (format.exponent_bits - 1));
  const int exponent = std::max(std::ilogb(value), lowest);
  const auto scaled =
      static_cast<uint64_t>(std::nearbyint(std::ldexp(value, format.mantissa_bits - exponent)));
  return scaled + (static_cast<uint64_t>(exponent - lowest) << format.mantissa_bits);
}

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

void encode_float(std::byte* at, double value, DataType type) {
  switch (part_size(type)) {
    case 8: return put(at, value);
    case 4: return put(at, static_cast<float>(value));
    case 2: return put(at, static_cast<uint16_t>(small_float(value, traits_of(type))));
    default: return put(at, static_cast<uint8_t>(small_float(value, traits_of(type))));
  }
}

void encode_one(std::byte* at, double value, DataType type) {
  switch (traits_of(type).kind) {
    case NumberKind::floating: return encode_float(at, value, type);
    case NumberKind::integer:
      return visit_integer(type, [&]<class T>(T) { put(at, static_cast<T>(value)); });
    case NumberKind::boolean: return put(at, static_cast<uint8_t>(value));
    case NumberKind::complex:  // different parts, so that exchanged ones are seen
      encode_float(at, value, type);
      return encode_float(at + part_size(type), 2 * value, type);
  }
}

// Bit patterns of non-negative floats are ordered as the floats are.
int64_t bits(const std::byte* at, size_t bytes) {
  int64_t value = 0;
  std::memcpy(&value, at, std::min(bytes, sizeof(value)));
  return value;
}

bool close(const std::byte* a, const std::byte* b, DataType type, int64_t units) {
  const size_t part = part_size(type);
  for (size_t at = 0; at < size_of(type); at += part) {
    const int64_t x = bits(a + at, part), y = bits(b + at, part);
    if ((x < 0) != (y < 0) || std::abs(x - y) > units) return false;
  }
  return true;
}

}  // namespace

Pattern::Pattern(DataType type, int ranks)
    : type_(type), op_(ReduceOp::sum), reduces_(false), ranks_(ranks) {}
Pattern::Pattern(DataType type, ReduceOp op, int ranks, double tolerance)
    : type_(type), op_(op), reduces_(true), ranks_(ranks) {
  if (type == DataType::float32 && (op == ReduceOp::sum || op == ReduceOp::avg))
    tolerance_ = tolerance;
}

int64_t Pattern::value(int rank, size_t place) const {
  const uint64_t random = mix(place * 4096 + static_cast<uint64_t>(rank));
  const int64_t most = exact_up_to(type_), n = ranks_;
  const auto turn =
      static_cast<int64_t>((place + static_cast<size_t>(rank)) % static_cast<size_t>(n));
  const auto below = [random](int64_t bound) {
    return static_cast<int64_t>(random % static_cast<uint64_t>(bound));
  };
  if (!reduces_ || op_ == ReduceOp::min || op_ == ReduceOp::max)
    return below(std::min(most, kLargest) + 1);
  if (traits_of(type_).kind ==
      NumberKind::boolean) {  // AND of mostly ones, OR of mostly zeros, so that both results occur
    if (op_ == ReduceOp::bxor) return below(2);
    const bool is_and = op_ == ReduceOp::product || op_ == ReduceOp::band;
    return (below(2 * n) == 0) != is_and;
  }
  if (traits_of(op_).adds) {
    const int64_t weights = op_ == ReduceOp::premul_sum ? 2 * n : n;
    if (most >= weights) return below(std::min(most / weights, kLargest) + 1);
    return turn <
           most * n / weights;  // more ranks than the type can count: some contribute nothing
  }
  if (op_ == ReduceOp::product) return turn < 1 + static_cast<int64_t>(place % 5) ? 2 : 1;
  const int64_t bit = int64_t{1} << below(7);
  return op_ == ReduceOp::band ? 127 ^ bit : op_ == ReduceOp::bor ? bit : below(128);
}

double Pattern::reduced(RankRange ranks, size_t place) const {
  const int end = ranks.first + ranks.count;
  int64_t result = value(ranks.first, place) * static_cast<int64_t>(factor(op_, ranks.first));
  for (int rank = ranks.first + 1; rank < end; ++rank) {
    const int64_t next = value(rank, place) * static_cast<int64_t>(factor(op_, rank));
    switch (op_) {
      case ReduceOp::product: result *= next; break;
      case ReduceOp::min: result = std::min(result, next); break;
      case ReduceOp::max: result = std::max(result, next); break;
      case ReduceOp::band: result &= next; break;
      case ReduceOp::bor: result |= next; break;
      case ReduceOp::bxor: result ^= next; break;
      default: result += next;
    }
  }
  if (traits_of(type_).kind == NumberKind::boolean) return result != 0;
  if (op_ != ReduceOp::avg) return static_cast<double>(result);
  if (is_float(type_) || is_complex(type_)) return static_cast<double>(result) / ranks.count;
  const int64_t truncated = result / ranks.count;
  return static_cast<double>(truncated);
}

Pattern::Table Pattern::encode(const std::vector<double>& values) const {
  Table table(values.size() * size_of(type_));
  for (size_t i = 0; i < values.size(); ++i)
    encode_one(table.data() + i * size_of(type_), values[i], type_);
  return table;
}

const Pattern::Table& Pattern::contribution(int rank) const {
  Table& table = contributions_[rank];
  if (table.empty()) {
    std::vector<double> values(kPeriod);
    for (size_t i = 0; i < kPeriod; ++i) values[i] = static_cast<double>(value(rank, i));
    table = encode(values);
  }
  return table;
}

const Pattern::Table& Pattern::reduction(RankRange ranks) const {
  Table& table = reductions_[{ranks.first, ranks.count}];
  if (table.empty()) {
    std::vector<double> values(kPeriod);
    for (size_t i = 0; i < kPeriod; ++i) values[i] = reduced(ranks, i);
    table = encode(values);
  }
  return table;
}

void Pattern::fill(void* data, size_t count, int rank, size_t first) const {
  const Table& table = contribution(rank);
  const size_t size = size_of(type_);
  auto* at = static_cast<std::byte*>(data);
  for (size_t done = 0; done < count;) {
    const size_t place = (first + done) % kPeriod;
    const size_t run = std::min(count - done, kPeriod - place);
    std::memcpy(at + done * size, table.data() + place * size, run * size);
    done += run;
  }
}

size_t Pattern::count_wrong(const std::byte* data, size_t count, const Table& expected,
                            size_t first, int64_t units) const {
  const size_t size = size_of(type_);
  size_t wrong = 0;
  for (size_t done = 0; done < count;) {
    const size_t place = (first + done) % kPeriod;
    const size_t run = std::min(count - done, kPeriod - place);
    const std::byte* have = data + done * size;
    const std::byte* want = expected.data() + place * size;
    if (std::memcmp(have, want, run * size) != 0) {
      for (size_t i = 0; i < run; ++i) {
        wrong += std::memcmp(have + i * size, want + i * size, size) != 0 &&
                 (units == 0 || !close(have + i * size, want + i * size, type_, units));
      }
    }
    done += run;
  }
  return wrong;
}

size_t Pattern::count_far(const float* data, size_t count, RankRange ranks, size_t first) const {
  const double largest = static_cast<double>(kLargest) * (op_ == ReduceOp::avg ? 1 : ranks.count);
  const auto* const expected = reinterpret_cast<const float*>(reduction(ranks).data());
  size_t far = 0;
  // Written so that a NaN is wrong.
  for (size_t i = 0; i < count; ++i)
    far += !(std::fabs(data[i] - expected[(first + i) % kPeriod]) <= tolerance_ * largest);
  return far;
}

size_t Pattern::wrong_contribution(const void* data, size_t count, int rank, size_t first) const {
  return count_wrong(static_cast<const std::byte*>(data), count, contribution(rank), first, 0);
}

size_t Pattern::wrong_reduction(const void* data, size_t count, RankRange ranks,
                                size_t first) const {
  if (tolerance_ > 0) return count_far(static_cast<const float*>(data), count, ranks, first);
  const bool rounds = op_ == ReduceOp::avg && (is_float(type_) || is_complex(type_));
  return count_wrong(static_cast<const std::byte*>(data), count, reduction(ranks), first,
                     rounds ? 1 : 0);
}

}  // namespace ringwood::tools
