// Reduction kernels against what bounds them: payload bytes per second of dst += src for each
// instruction set, beside the same loop as the compiler builds it and memcpy, which moves two
// thirds of the bytes.
//
//   bench_kernels --benchmark_filter='bfloat16/.*/1048576'
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include <benchmark/benchmark.h>

#include "collectives/reduce.h"

namespace ringwood {
namespace {

constexpr size_t kSizes[] = {size_t{32} << 10, size_t{1} << 20, size_t{64} << 20};
constexpr DataType kTypes[] = {DataType::float32, DataType::bfloat16,    DataType::float16,
                               DataType::int8,    DataType::float8_e4m3, DataType::float8_e5m2};

struct Buffers {
  // A normal number in every type, so that no subnormals slow anything down.
  explicit Buffers(size_t bytes) : dst(bytes, 0x38), src(bytes, 0x38) {}
  std::vector<uint8_t> dst, src;
};

void run_reduce(benchmark::State& state, const std::string& simd, DataType type, size_t bytes) {
  force_simd_target(simd);
  Buffers buffers(bytes);
  for (auto _ : state) {
    reduce(buffers.dst.data(), buffers.src.data(), bytes / size_of(type), type, ReduceOp::sum);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
  force_simd_target("");
}

float from_bfloat16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

uint16_t to_bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// `BFloat16` here is uint16_t: the only type of the three whose sum is not the compiler's own +.
template <class T>
void run_plain(benchmark::State& state, size_t bytes) {
  Buffers buffers(bytes);
  auto* dst = reinterpret_cast<T*>(buffers.dst.data());
  const auto* src = reinterpret_cast<const T*>(buffers.src.data());
  for (auto _ : state) {
    for (size_t i = 0; i < bytes / sizeof(T); ++i) {
      if constexpr (std::is_same_v<T, uint16_t>) {
        dst[i] = to_bfloat16(from_bfloat16(dst[i]) + from_bfloat16(src[i]));
      } else {
        dst[i] = static_cast<T>(dst[i] + src[i]);
      }
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
}

void run_memcpy(benchmark::State& state, size_t bytes) {
  Buffers buffers(bytes);
  for (auto _ : state) {
    std::memcpy(buffers.dst.data(), buffers.src.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
}

template <class Function, class... Arguments>
void add(const std::string& name, size_t bytes, Function* function, Arguments... arguments) {
  const std::string full = name + "/" + std::to_string(bytes);
  benchmark::RegisterBenchmark(full.c_str(), function, arguments..., bytes);
}

void register_all() {
  for (const size_t bytes : kSizes) {
    add("memcpy", bytes, run_memcpy);
    add("float32/plain", bytes, run_plain<float>);
    add("bfloat16/plain", bytes, run_plain<uint16_t>);
    add("int8/plain", bytes, run_plain<int8_t>);
    for (const DataType type : kTypes) {
      for (const std::string& simd : simd_targets()) {
        add(std::string(to_string(type)) + "/" + simd, bytes, run_reduce, simd, type);
      }
    }
  }
}

}  // namespace
}  // namespace ringwood

int main(int argc, char** argv) {
  ringwood::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
