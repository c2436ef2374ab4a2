// Every value of the small floats, and drawn pairs of them: what a kernel reads, converts, folds
// and rounds against the CPU's kernels, bit for bit. Two ranks as threads: the one has all values,
// the other a neutral element, and then both have whatever comes.
#include <fmt/format.h>

#include "collectives/kernels/types.h"
#include "tools/gpu_check/findings.h"
#include "tools/gpu_check/gpu_rank.h"

namespace ringwood::gpu_check {
namespace {

// The bits of one; those of -0, which changes no sum.
uint64_t one(const TypeTraits& fields) {
  return ((uint64_t{1} << (fields.exponent_bits - 1)) - 1) << fields.mantissa_bits;
}
uint64_t minus_zero(const TypeTraits& fields) {
  return uint64_t{1} << (fields.exponent_bits + fields.mantissa_bits);
}

void put(Bytes& to, size_t element, size_t size, uint64_t bits) {
  std::memcpy(to.data() + element * size, &bits, size);
}

// All values at rank 0, `neutral` at rank 1.
Bytes all_values(DataType type, int rank, uint64_t neutral) {
  const size_t size = size_of(type), count = size_t{1} << (8 * size);
  Bytes made(count * size);
  for (size_t i = 0; i < count; ++i) put(made, i, size, rank == 0 ? i : neutral);
  return made;
}
// Each with each: of 8-bit floats.
Bytes all_pairs(int rank) {
  Bytes made(size_t{1} << 16);
  for (size_t i = 0; i < made.size(); ++i) put(made, i, 1, rank == 0 ? i & 255 : i >> 8);
  return made;
}
Bytes drawn(DataType type, int rank, size_t count) {
  Bytes made(count * size_of(type));
  draw(made, type, static_cast<uint64_t>(rank) + 7);
  return made;
}

std::string check_type(const GpuRank& rank, DataType type, size_t floats, size_t& values) {
  const int number = rank.group.rank();
  const TypeTraits& fields = traits_of(type);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::max, ReduceOp::min,
                            ReduceOp::avg, ReduceOp::premul_sum}) {
    std::vector<Bytes> inputs;
    if (is_small_float(type))
      inputs.push_back(
          all_values(type, number, op == ReduceOp::product ? one(fields) : minus_zero(fields)));
    if (size_of(type) == 1) inputs.push_back(all_pairs(number));
    if (size_of(type) > 1) inputs.push_back(drawn(type, number, floats));
    for (Bytes& input : inputs) {
      Case of{Collective::all_reduce, "direct", input.size() / size_of(type), type, op};
      of.segments = 4;
      values += of.count;
      if (std::string wrong = compare(rank, of, std::move(input)); !wrong.empty()) return wrong;
    }
  }
  return "";
}

}  // namespace

void conversions(const cuda::Driver& driver, const Settings& settings, Findings& findings) {
  for (const DataType type : {DataType::bfloat16, DataType::float16, DataType::float8_e4m3,
                              DataType::float8_e5m2, DataType::float32, DataType::float64}) {
    size_t values = 0;
    findings.check(to_string(type), [&]() -> std::string {
      if (std::string why = does_not_fit(driver, 2, 4); !why.empty()) return why;
      const size_t room = std::max(settings.floats, size_t{1} << 16) * size_of(type);
      return on_threads(2, [&](Communicator& group) {
        device::DeviceOptions options;
        options.staging_bytes = size_t{1} << 20;
        options.limit = std::chrono::seconds(20);
        const GpuRank rank(group, driver, 0, options, room);
        size_t own = 0;
        std::string wrong = check_type(rank, type, settings.floats, own);
        if (group.rank() == 0) values = own;
        return wrong;
      });
    });
    findings.tell(fmt::format("{}_values", to_string(type)), values);
  }
}

}  // namespace ringwood::gpu_check
