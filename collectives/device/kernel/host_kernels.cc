#include "collectives/device/kernel/host_kernels.h"

#include <string>

namespace ringwood::device {
namespace {

template <class N, Fold kFold>
void run(HostMachine machine, BlockMemory& shared, const Launch& launch) {
  Interpreter<N, kFold, HostMachine>(machine, shared, launch).run();
}

// As kernels.cu has them. Null: that type has no such kernel.
template <class N, bool kProduct = true, bool kMean = true>
HostKernel kernel_of_numbers(std::string_view fold) {
  if (fold == "sum") return run<N, Fold::sum>;
  if (fold == "min") return run<N, Fold::min>;
  if (fold == "max") return run<N, Fold::max>;
  if constexpr (kProduct) {
    if (fold == "product") return run<N, Fold::product>;
  }
  if constexpr (kMean) {
    if (fold == "mean") return run<N, Fold::mean>;
  }
  if constexpr (N::kFloating) {
    if (fold == "scaled") return run<N, Fold::scaled>;
  }
  return nullptr;
}
HostKernel kernel_of_bits(std::string_view fold) {
  if (fold == "band") return run<Bits, Fold::band>;
  if (fold == "bor") return run<Bits, Fold::bor>;
  return fold == "bxor" ? run<Bits, Fold::bxor> : nullptr;
}

struct Named {
  std::string_view numbers;
  HostKernel (*kernel)(std::string_view fold);
};
constexpr Named kKernels[] = {
    {"float64", kernel_of_numbers<Float64>},
    {"float32", kernel_of_numbers<Float32>},
    {"float16", kernel_of_numbers<Float16, true, false>},
    {"bfloat16", kernel_of_numbers<Bfloat16, true, false>},
    {"float8_e4m3", kernel_of_numbers<Float8E4m3, true, false>},
    {"float8_e5m2", kernel_of_numbers<Float8E5m2, true, false>},
    {"int8", kernel_of_numbers<Integer<int8_t>>},
    {"int16", kernel_of_numbers<Integer<int16_t>>},
    {"int32", kernel_of_numbers<Integer<int32_t>>},
    {"int64", kernel_of_numbers<Integer<int64_t>>},
    {"uint8", kernel_of_numbers<Integer<uint8_t>, false>},
    {"uint32", kernel_of_numbers<Integer<uint32_t>, false>},
    {"bits", kernel_of_bits},
};

}  // namespace

HostKernel host_kernel(std::string_view name) {
  constexpr std::string_view kPrefix = "ringwood_";
  const size_t fold = name.rfind('_');
  if (!name.starts_with(kPrefix) || fold < kPrefix.size()) return nullptr;
  const std::string_view numbers = name.substr(kPrefix.size(), fold - kPrefix.size());
  for (const Named& one : kKernels)
    if (one.numbers == numbers) return one.kernel(name.substr(fold + 1));
  return nullptr;
}

}  // namespace ringwood::device
