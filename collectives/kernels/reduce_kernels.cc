// The table of kernels, built once per instruction set.
#include "collectives/kernels/reduce_kernels.h"

#include <cstdint>
#include <span>
#include <type_traits>

// One step below AVX2 is plain code: machines without AVX2 are older than the networks in use, and
// each target costs compile time.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE_256 | HWY_SVE2 | HWY_SVE2_128)
// Of Highway's two kinds of plain code the one that all compilers translate rightly; the other's
// minimum and maximum drop NaN.
#define HWY_BROKEN_EMU128 1
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/kernels/reduce_kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "collectives/kernels/reduce_kernels-inl.h"
#include "collectives/kernels/reduce_many-inl.h"
#include "collectives/kernels/wire_codecs-inl.h"
#include "hwy/highway.h"

#if HWY_ARCH_X86
#include <cpuid.h>
#elif HWY_ARCH_ARM_A64
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace ringwood {
namespace HWY_NAMESPACE {

constexpr const char* simd_name() {
  switch (HWY_TARGET) {
    case HWY_AVX3: return "avx512";
    case HWY_AVX2: return "avx2";
    case HWY_SVE: return "sve";
    case HWY_NEON: return "neon";
    default: return "scalar";
  }
}

class TableBuilder {
 public:
  constexpr Kernels build() {
    table_.simd = simd_name();
    add_floats();
    add_narrow<Float16, Decoded<Float16>>(DataType::float16);
    add_narrow<Bfloat16, BfloatPairs>(DataType::bfloat16);
    add_narrow<E4m3, ByteParts<E4m3>>(DataType::float8_e4m3);
    add_narrow<E5m2, ByteParts<E5m2>>(DataType::float8_e5m2);
    add_integer<int8_t, uint8_t>(DataType::int8);
    add_integer<int16_t, uint16_t>(DataType::int16);
    add_integer<int32_t, uint32_t>(DataType::int32);
    add_integer<int64_t, uint64_t>(DataType::int64);
    add_integer<uint8_t, uint8_t>(DataType::uint8);
    add_integer<uint32_t, uint32_t>(DataType::uint32);
    add_bool();
    table_.encode_int8 = HWY_NAMESPACE::encode_int8;
    table_.decode_int8 = HWY_NAMESPACE::decode_int8<Second>;
    table_.add_int8 = HWY_NAMESPACE::decode_int8<Add>;
    return table_;
  }

 private:
  template <class Parts, class Op>
  constexpr void set(DataType type, ReduceOp op) {
    table_.reduce[index(type)][index(op)] = fold_into<Parts, Op>;
#if HWY_TARGET == HWY_STATIC_TARGET
    using Plain = std::conditional_t<kFinishes<Op>, Add, Op>;
    if (!converts(type)) table_.pair[index(type)][index(op)] = fold_pair<Parts, Plain>;
#endif
  }

  static constexpr size_t index(DataType type) { return static_cast<size_t>(type); }
  static constexpr size_t index(ReduceOp op) { return static_cast<size_t>(op); }

  template <class Parts>
  constexpr void set_float_sums(DataType type) {
    set<Parts, Add>(type, ReduceOp::sum);
    set<Parts, AddScaled>(type, ReduceOp::premul_sum);
    set<Parts, AddThenFinish>(type, ReduceOp::avg);
  }

  template <class Parts>
  constexpr void set_float_ops(DataType type) {
    set_float_sums<Parts>(type);
    set<Parts, Multiply>(type, ReduceOp::product);
    set<Parts, FloatMin>(type, ReduceOp::min);
    set<Parts, FloatMax>(type, ReduceOp::max);
  }

  constexpr void set_scale(DataType type, Kernels::Scale scale, Kernels::Scale divide) {
    table_.scale[index(type)] = scale;
    table_.divide[index(type)] = divide;
  }

  constexpr void add_floats() {
    set_float_ops<Whole<float>>(DataType::float32);
    set_float_ops<Whole<double>>(DataType::float64);
    set_float_sums<Whole<float>>(DataType::complex64);
    set_float_sums<Whole<double>>(DataType::complex128);
    for (const DataType type : {DataType::float32, DataType::complex64}) {
      set_scale(type, scale_by<ScaleFloat<Multiply>>, scale_by<ScaleFloat<Divide>>);
    }
  }

  template <class Codec, class Parts>
  constexpr void add_narrow(DataType type) {
    set_float_ops<Parts>(type);
    set_scale(type, scale_by<ScaleNarrow<Codec, Multiply>>, scale_by<ScaleNarrow<Codec, Divide>>);
    const size_t i = index(type);
    table_.widen[i] = into_wide<Codec, Second>;
    table_.add_wide[i] = into_wide<Codec, Add>;
    table_.multiply_wide[i] = into_wide<Codec, Multiply>;
    table_.narrow[i] = narrow_to<Codec>;
  }

  constexpr void add_bitwise(DataType type) {
    set<Whole<uint32_t>, BitAnd>(type, ReduceOp::band);
    set<Whole<uint32_t>, BitOr>(type, ReduceOp::bor);
    set<Whole<uint32_t>, BitXor>(type, ReduceOp::bxor);
  }

  // Sums and products of two's complement equal those of the unsigned type, which may wrap.
  template <class T, class Unsigned>
  constexpr void add_integer(DataType type) {
    set<Whole<Unsigned>, Add>(type, ReduceOp::sum);
    set<Whole<Unsigned>, Add>(type, ReduceOp::avg);
    if constexpr (sizeof(T) == 1) {
      set<Whole<uint16_t>, MultiplyBytes>(type, ReduceOp::product);
    } else {
      set<Whole<Unsigned>, Multiply>(type, ReduceOp::product);
    }
    set<Whole<T>, IntMin>(type, ReduceOp::min);
    set<Whole<T>, IntMax>(type, ReduceOp::max);
    add_bitwise(type);
  }

  constexpr void add_bool() {
    const DataType type = DataType::bool8;
    add_bitwise(type);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
      set<Whole<uint32_t>, BitOr>(type, op);
    }
    for (const ReduceOp op : {ReduceOp::product, ReduceOp::min}) {
      set<Whole<uint32_t>, BitAnd>(type, op);
    }
  }

  Kernels table_;
};

const Kernels* kernels() {
  static constexpr Kernels table = TableBuilder().build();
  return &table;
}

}  // namespace HWY_NAMESPACE
}  // namespace ringwood
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringwood {
namespace {

// Not by Highway's own dispatch: it keeps one choice for every library in the process, and it is
// the only part of Highway that needs its library where this one runs.
using Table = const Kernels* (*)();
constexpr Table kPlain = &HWY_STATIC_DISPATCH(kernels);

#if HWY_ARCH_X86
// The builtin also asks whether the system saves the registers; of F16C not all compilers let it.
bool has_avx2() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw");
}
#elif HWY_ARCH_ARM_A64
bool has_sve() { return (getauxval(AT_HWCAP) & HWCAP_SVE) != 0; }
#endif

}  // namespace

std::vector<KernelSet> kernel_sets() {
  std::vector<KernelSet> sets;
  // Null where the compiler cannot make it; the plain one where it may use these anyway.
  [[maybe_unused]] const auto add = [&](Table table, bool runs_here) {
    if (table != nullptr && table != kPlain) sets.push_back({table(), runs_here});
  };
#if HWY_ARCH_X86
  add(HWY_CHOOSE_AVX3(kernels), has_avx512());
  add(HWY_CHOOSE_AVX2(kernels), has_avx2());
#elif HWY_ARCH_ARM_A64
  add(HWY_CHOOSE_SVE(kernels), has_sve());
#endif
  sets.push_back({kPlain(), true});
  return sets;
}

const Kernels& plain_kernels() { return *kPlain(); }

}  // namespace ringwood
#endif  // HWY_ONCE
