// Reduction kernels against what bounds them, for each instruction set, in the second and third
// cache and in memory:
//
//   p=P,D=D/TYPE/SIMD  reduce_many of P operands into D results, D of the operands in place: what
//                      one rank does of an all-reduce in shared memory
//   TYPE/SIMD          dst += src
//   bf16-encode/SIMD   fp32 into a wire format; int8 likewise
//   bf16-add/SIMD      fp32 += what was encoded; bytes per second are those of the fp32 numbers
//   .../plain          the same loop as the compiler builds it
//   memcpy             the limit: what one read and one write of the bytes cost
//
// Bytes per second are those of one operand times how many times they are read or written, halved:
// memcpy's own measure. A table of the best of the repetitions follows, with its ratios to memcpy
// and to the compiler's loop. From memory a memcpy also reads what it overwrites, which a kernel in
// place needs anyway: there the limit is up to 1.5 times memcpy's.
//
//   bench_kernels --benchmark_min_time=0.05 --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=5 --benchmark_filter='memcpy|bfloat16'
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "collectives/kernels/reduce.h"
#include "collectives/kernels/wire.h"

namespace ringwood {
namespace {

// Of one operand: in the second cache, in the third, in memory, with up to eight of them.
constexpr size_t kSizes[] = {size_t{32} << 10, size_t{1} << 20, size_t{64} << 20};
constexpr DataType kTypes[] = {DataType::float32, DataType::bfloat16,    DataType::float16,
                               DataType::int8,    DataType::float8_e4m3, DataType::float8_e5m2};
constexpr DataType kManyTypes[] = {DataType::float32, DataType::bfloat16, DataType::float16,
                                   DataType::int8, DataType::float8_e4m3};

struct Arity {
  size_t sources, results;
};
constexpr Arity kArities[] = {{2, 2}, {4, 4}};

struct Buffers {
  // A normal number in every type, so that no subnormals slow anything down.
  Buffers(size_t count, size_t bytes) {
    for (size_t i = 0; i < count; ++i) {
      all.emplace_back(static_cast<uint8_t*>(::operator new[](bytes, std::align_val_t{64})));
      std::memset(all.back().get(), 0x38, bytes);
    }
  }
  uint8_t* operator[](size_t i) { return all[i].get(); }

  struct Free {
    void operator()(uint8_t* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  std::vector<std::unique_ptr<uint8_t[], Free>> all;  // aligned as torch aligns tensors
};

void count_bytes(benchmark::State& state, size_t bytes, size_t reads_and_writes) {
  state.SetBytesProcessed(static_cast<int64_t>(bytes * reads_and_writes / 2) * state.iterations());
}

void run_reduce(benchmark::State& state, const std::string& simd, DataType type, size_t bytes) {
  force_simd_target(simd);
  Buffers buffers(2, bytes);
  for (auto _ : state) {
    reduce(buffers[0], buffers[1], bytes / size_of(type), type, ReduceOp::sum);
    benchmark::ClobberMemory();
  }
  count_bytes(state, bytes, 3);
  force_simd_target("");
}

void run_many(benchmark::State& state, const std::string& simd, DataType type, Arity arity,
              size_t bytes) {
  force_simd_target(simd);
  Buffers buffers(arity.sources, bytes);
  std::vector<const void*> srcs;
  std::vector<void*> dsts;
  for (size_t k = 0; k < arity.sources; ++k) srcs.push_back(buffers[k]);
  for (size_t d = 0; d < arity.results; ++d) dsts.push_back(buffers[d]);
  for (auto _ : state) {
    reduce_many(dsts, srcs, bytes / size_of(type), type, ReduceOp::sum);
    benchmark::ClobberMemory();
  }
  count_bytes(state, bytes, arity.sources + arity.results);
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

// uint16_t here is bfloat16: the only type of the three whose sum is not the compiler's own +.
template <class T>
T plain_sum(T a, T b) {
  if constexpr (std::is_same_v<T, uint16_t>)
    return to_bfloat16(from_bfloat16(a) + from_bfloat16(b));
  return static_cast<T>(a + b);
}

template <class T>
void run_plain(benchmark::State& state, size_t bytes) {
  Buffers buffers(2, bytes);
  auto* dst = reinterpret_cast<T*>(buffers[0]);
  const auto* src = reinterpret_cast<const T*>(buffers[1]);
  for (auto _ : state) {
    for (size_t i = 0; i < bytes / sizeof(T); ++i) dst[i] = plain_sum(dst[i], src[i]);
    benchmark::ClobberMemory();
  }
  count_bytes(state, bytes, 3);
}

// The sum of two in place of both.
template <class T>
void run_plain_both(benchmark::State& state, size_t bytes) {
  Buffers buffers(2, bytes);
  auto* a = reinterpret_cast<T*>(buffers[0]);
  auto* b = reinterpret_cast<T*>(buffers[1]);
  for (auto _ : state) {
    for (size_t i = 0; i < bytes / sizeof(T); ++i) a[i] = b[i] = plain_sum(a[i], b[i]);
    benchmark::ClobberMemory();
  }
  count_bytes(state, bytes, 4);
}

void run_memcpy(benchmark::State& state, size_t bytes) {
  Buffers buffers(2, bytes);
  for (auto _ : state) {
    std::memcpy(buffers[0], buffers[1], bytes);
    benchmark::ClobberMemory();
  }
  count_bytes(state, bytes, 2);
}

void run_wire(benchmark::State& state, const std::string& simd, WireFormat format, bool encodes,
              size_t bytes) {
  force_simd_target(simd);
  const size_t count = bytes / sizeof(float);
  Buffers numbers(1, bytes), wire(1, wire_bytes(format, count));
  auto* const x = reinterpret_cast<float*>(numbers[0]);
  encode(format, wire[0], x, count);
  for (auto _ : state) {
    encodes ? encode(format, wire[0], x, count) : decode_add(format, x, wire[0], count);
    benchmark::ClobberMemory();
  }
  count_bytes(state, bytes, 2);
  force_simd_target("");
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
    add("p=2,D=2/float32/plain", bytes, run_plain_both<float>);
    add("p=2,D=2/bfloat16/plain", bytes, run_plain_both<uint16_t>);
    for (const std::string& simd : simd_targets()) {
      for (const DataType type : kTypes) {
        add(fmt::format("{}/{}", to_string(type), simd), bytes, run_reduce, simd, type);
      }
      for (const WireFormat format : {WireFormat::bf16, WireFormat::int8}) {
        for (const bool encodes : {true, false}) {
          add(fmt::format("{}-{}/{}", to_string(format), encodes ? "encode" : "add", simd), bytes,
              run_wire, simd, format, encodes);
        }
      }
      for (const DataType type : kManyTypes) {
        for (const Arity& arity : kArities) {
          add(fmt::format("p={},D={}/{}/{}", arity.sources, arity.results, to_string(type), simd),
              bytes, run_many, simd, type, arity);
        }
      }
    }
  }
}

// The usual lines, then the best of each row's repetitions as ratios to its limit and to the
// compiler's loop.
class RatioReporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      const auto rate = run.counters.find("bytes_per_second");
      if (run.run_type != Run::RT_Iteration || rate == run.counters.end()) continue;
      double& best = best_[run.run_name.function_name];
      best = std::max(best, rate->second.value);
    }
  }

  void print_ratios() const {
    fmt::print("\n{:<40} {:>8} {:>10} {:>10}\n", "best", "GB/s", "/ memcpy", "/ plain");
    for (const auto& [name, rate] : best_) {
      const size_t size_at = name.rfind('/');
      const size_t simd_at = name.rfind('/', size_at - 1);
      const std::string size = name.substr(size_at);
      fmt::print("{:<40} {:>8.2f} {:>10} {:>10}\n", name, rate / 1e9, ratio(rate, "memcpy" + size),
                 simd_at == std::string::npos
                     ? ""
                     : ratio(rate, name.substr(0, simd_at) + "/plain" + size));
    }
  }

 private:
  std::string ratio(double rate, const std::string& to) const {
    const auto other = best_.find(to);
    return other == best_.end() ? "" : fmt::format("{:.2f}", rate / other->second);
  }

  std::map<std::string, double> best_;
};

}  // namespace
}  // namespace ringwood

int main(int argc, char** argv) {
  ringwood::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  ringwood::RatioReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  reporter.print_ratios();
  benchmark::Shutdown();
  return 0;
}
