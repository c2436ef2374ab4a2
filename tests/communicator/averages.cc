// AVG and PREMUL_SUM, and SUM of small floats, against sums in more bits: no overflow where the
// result is none, and no error beyond the roundings that accumulate.h names and the schedules have
// (sum_roundings()), for every row, type and size of group.
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/kernels/accumulate.h"
#include "collectives/plan/sums.h"
#include "collectives/tuner/choice/row_proofs.h"
#include "tests/support/inputs.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tests/support/special_numbers.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

using Real = long double;

struct Case {
  std::string transports;
  int n;
};
std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return fmt::format("{}_{}", info.param.transports, info.param.n);
}
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& t : every_transport())
    for (int n = 2; n <= (in_shared_memory(t) && !kSlow ? 9 : 4); ++n) all.push_back({t, n});
  for (const std::string& t : every_sharing("zero_copy"))
    for (int n : {2, 3, 4}) all.push_back({t, n});
  return all;
}

class Averages : public OnTransportOf<Case> {};
INSTANTIATE_TEST_SUITE_P(Groups, Averages, ::testing::ValuesIn(cases()), name_of);

struct Format {
  Real largest, smallest;  // positive numbers
  Real rounding;           // relative error of one
};
Format format_of(DataType type) {
  const int exponent = traits_of(type).exponent_bits, mantissa = traits_of(type).mantissa_bits;
  const int top = (1 << (exponent - 1)) - 1;
  Format f;
  f.rounding = std::ldexp(Real{1}, -mantissa - 1);
  f.smallest = std::ldexp(Real{1}, 1 - top - mantissa);
  f.largest = std::ldexp(2 - 2 * f.rounding, top);
  if (type == DataType::float8_e4m3) f.largest = 448;
  return f;
}

Real read(const std::byte* at, DataType type) {
  switch (type) {
    case DataType::float64: return get<double>(at);
    case DataType::int64: {
      int64_t value;
      std::memcpy(&value, at, sizeof value);
      return static_cast<Real>(value);
    }
    default: return get_value(at, 0, type);
  }
}

// What a rank brings: near the largest number, ordinary ones, the smallest ones; by element.
void fill_scales(std::byte* at, size_t count, DataType type, int rank, uint64_t seed) {
  const TypeTraits& fields = traits_of(type);
  const uint64_t ones = (uint64_t{1} << fields.exponent_bits) - 1;
  const size_t size = size_of(type);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t random = mixed(seed * 8191 + i * 64 + rank);
    uint64_t bits = random >> 8 & ((uint64_t{1} << fields.mantissa_bits) - 1);
    const uint64_t sign = i % 5 == 0 ? random & 1 : i % 2;  // mostly alike on all ranks
    const uint64_t large = type == DataType::float8_e4m3 ? ones : ones - 1;
    if (bits == (uint64_t{1} << fields.mantissa_bits) - 1) bits = 0;  // not e4m3's NaN
    switch (i % 4) {
      case 0: bits |= large << fields.mantissa_bits; break;
      case 1: bits |= (ones / 2 + random % 3) << fields.mantissa_bits; break;
      case 2: bits = i % 8 == 2 ? 1 : bits; break;  // the smallest number; a subnormal one
      default: bits |= (i % 7 == 0 ? large : ones / 2) << fields.mantissa_bits;
    }
    bits |= sign << (fields.exponent_bits + fields.mantissa_bits);
    std::memcpy(at + i * size, &bits, size);
  }
}

// The weighted sum of the ranks' numbers, and of their magnitudes.
struct Sum {
  Real value = 0, magnitude = 0;
};

constexpr size_t kCounts[] = {1, 67, 2100, 65000};
constexpr size_t kFewElements = 3000;

struct Call {
  const AlgorithmRow* row;
  DataType type;
  ReduceOp op;
  size_t count;  // of the block, in reduce_scatter
  int n, root;
  bool whole;
  int roundings;  // sum_roundings()
  double factor(int rank) const {
    return op == ReduceOp::sum ? 1 : op == ReduceOp::avg ? 1.0 / n : 0.3 + 0.17 * rank;
  }
  std::string words() const {
    return fmt::format("{} {} {} {} x {} of {} ranks", to_string(row->collective), row->name,
                       to_string(type), to_string(op), count, n);
  }
};

Real allowed(const Call& call, const Sum& sum, const Format& format) {
  const bool small = size_of(call.type) <= 2;
  const Real fp32 = std::ldexp(Real{1}, -23);  // the factor's rounding, too
  if (call.whole && small)
    return std::max(std::abs(sum.value) * format.rounding, format.smallest / 2) +
           2 * call.n * fp32 * sum.magnitude;
  if (call.whole) return call.n * format.rounding * sum.magnitude * 1.01L + format.smallest / 2;
  const int roundings = small ? call.roundings + (call.op == ReduceOp::avg) : call.n + 1;
  return roundings * format.rounding * sum.magnitude * 1.01L + (call.n + 1) * format.smallest;
}

void check(const Call& call, const std::vector<std::vector<std::byte>>& inputs, size_t first,
           const std::byte* got, size_t count) {
  const Format format = format_of(call.type);
  const size_t size = size_of(call.type);
  const size_t stride = count > kFewElements ? 7 : 1;  // prime to the scales and vectors
  for (size_t i = 0; i < count; i += stride) {
    Sum sum;
    for (int r = 0; r < call.n; ++r) {
      const Real x = read(inputs[r].data() + (first + i) * size, call.type);
      const Real term = call.op == ReduceOp::avg ? x / call.n : x * Real{call.factor(r)};
      sum.value += term;
      sum.magnitude += std::abs(term);
    }
    const Real result = read(got + i * size, call.type);
    // Others than AVG may be too large, or pass a partial sum on that is.
    if (call.op != ReduceOp::avg && sum.magnitude > format.largest) continue;
    if (!(std::abs(result - sum.value) <= allowed(call, sum, format)))
      throw std::runtime_error(fmt::format("{}: element {} is {}, not {}, allowed is {}",
                                           call.words(), i, double(result), double(sum.value),
                                           double(allowed(call, sum, format))));
  }
}

void run(Communicator& c, const Call& call) {
  const size_t size = size_of(call.type);
  const bool scatters = call.row->collective == Collective::reduce_scatter;
  const size_t all = call.count * (scatters ? call.n : 1);
  std::vector<std::vector<std::byte>> inputs(call.n, std::vector<std::byte>(all * size));
  for (int r = 0; r < call.n; ++r) fill_scales(inputs[r].data(), all, call.type, r, call.count);
  Guarded data(all, call.type), out(call.count, call.type);
  std::memcpy(data.data(), inputs[c.rank()].data(), all * size);
  CallOptions how;
  how.algorithm = call.row->name;
  how.factor = call.factor(c.rank());
  how.synchronous = call.count % 2;
  if (scatters) {
    must(c.reduce_scatter(data.data(), out.data(), call.count, call.type, call.op, how));
    check(call, inputs, c.rank() * call.count, out.data(), call.count);
  } else if (call.row->collective == Collective::reduce) {
    must(c.reduce(data.data(), call.count, call.type, call.op, call.root, how));
    if (c.rank() == call.root) check(call, inputs, 0, data.data(), call.count);
  } else {
    must(c.all_reduce(data.data(), call.count, call.type, call.op, how));
    check(call, inputs, 0, data.data(), call.count);
  }
}

TEST_P(Averages, OfFloatsRoundNoMoreThanIsSaidAndNeverOverflow) {
  run_ranks(GetParam().n, GetParam().transports, [&](Communicator& c) {
    const int n = c.size();
    std::vector<int> hosts;
    for (int r = 0; GetParam().transports == "mixed" && r < n; ++r) hosts.push_back(r % 2);
    int nth = 0, pair = 0;
    for (const AlgorithmRow& row : algorithm_table()) {
      const Where where{0, n, 0, hosts};
      if (!reduces(row.collective) || !row.accepts(where)) continue;
      std::vector<bool> whole;  // by root
      std::vector<int> roundings;
      for (int root = 0; root < n; ++root) {
        const std::vector<Schedule> all = build_all(row, {0, n, root, hosts});
        whole.push_back(trace_sums(row.collective, all).whole);
        roundings.push_back(sum_roundings(all));
      }
      for (int t = 0; t < kDataTypes; ++t)
        for (const ReduceOp op : {ReduceOp::avg, ReduceOp::premul_sum, ReduceOp::sum}) {
          const auto type = static_cast<DataType>(t);
          if (!is_float(type)) continue;
          if (op == ReduceOp::sum ? size_of(type) > 2 : !scales_operands(type, op)) continue;
          if (kSlower > 1 && (++pair + n) % 3) continue;  // a sanitizer finds no wrong number
          for (const size_t count : kCounts) {
            if (count > kFewElements && (++nth + n) % 6) continue;
            const int root = static_cast<int>(count) % n;
            run(c, {&row, type, op, count, n, root, whole[root], roundings[root]});
          }
        }
    }
  });
}

// Of the choice, which adds up in one accumulation: exact, toward zero.
template <class T>
void average_integers(Communicator& c, DataType type, size_t count) {
  const int n = c.size();
  std::vector<std::vector<T>> inputs(n, std::vector<T>(count));
  for (int r = 0; r < n; ++r)
    for (size_t i = 0; i < count; ++i) {
      const uint64_t random = mixed(i * 64 + r);
      const auto near = static_cast<T>(random % 3);
      inputs[r][i] = i % 3 == 0   ? static_cast<T>(std::numeric_limits<T>::max() - near)
                     : i % 3 == 1 ? static_cast<T>(std::numeric_limits<T>::min() + near)
                                  : static_cast<T>(random);
    }
  std::vector<T> data = inputs[c.rank()];
  must(c.all_reduce(data.data(), count, type, ReduceOp::avg));
  for (size_t i = 0; i < count; ++i) {
    __int128 sum = 0;
    for (int r = 0; r < n; ++r) sum += inputs[r][i];
    if (data[i] != static_cast<T>(sum / n))
      throw std::runtime_error(fmt::format("{} x {}: element {} is {}, not {}", to_string(type),
                                           count, i, +data[i], +static_cast<T>(sum / n)));
  }
}

TEST_P(Averages, OfIntegersAreExact) {
  run_ranks(GetParam().n, GetParam().transports, [](Communicator& c) {
    for (const size_t count : {size_t{3}, size_t{2001}, size_t{100001}}) {
      average_integers<int8_t>(c, DataType::int8, count);
      average_integers<int16_t>(c, DataType::int16, count);
      average_integers<int32_t>(c, DataType::int32, count);
      average_integers<int64_t>(c, DataType::int64, count);
      average_integers<uint8_t>(c, DataType::uint8, count);
    }
  });
}

}  // namespace
}  // namespace ringwood::testing
