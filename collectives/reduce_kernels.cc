// The table of kernels, built once per instruction set.
#include "collectives/reduce_kernels.h"

#include <cstdint>
#include <iterator>

// One step below AVX2 is plain code: machines without AVX2 are older than the networks we run on,
// and each target costs compile time.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE_256 | HWY_SVE2 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce_kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "collectives/reduce_kernels-inl.h"
#include "hwy/highway.h"

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

template <class Op>
using Float16Step = ViaFloat<Float16, Op>;
template <class Op>
using E4m3Step = Bytes<E4m3, Op>;
template <class Op>
using E5m2Step = Bytes<E5m2, Op>;

class TableBuilder {
 public:
  constexpr Kernels build() {
    table_.simd = simd_name();
    add_floats();
    add_narrow<Float16, Float16Step>(DataType::float16);
    add_narrow<Bfloat16, EvenOdd>(DataType::bfloat16);
    add_narrow<E4m3, E4m3Step>(DataType::float8_e4m3);
    add_narrow<E5m2, E5m2Step>(DataType::float8_e5m2);
    add_integer<int8_t, uint8_t>(DataType::int8);
    add_integer<int16_t, uint16_t>(DataType::int16);
    add_integer<int32_t, uint32_t>(DataType::int32);
    add_integer<int64_t, uint64_t>(DataType::int64);
    add_integer<uint8_t, uint8_t>(DataType::uint8);
    add_bool();
    return table_;
  }

 private:
  constexpr void set(DataType type, ReduceOp op, Kernels::Combine kernel) {
    table_.reduce[static_cast<size_t>(type)][static_cast<size_t>(op)] = kernel;
  }

  constexpr void set_sums(DataType type, Kernels::Combine kernel) {
    set(type, ReduceOp::sum, kernel);
    set(type, ReduceOp::avg, kernel);
    if (supports_premul(type)) set(type, ReduceOp::premul_sum, kernel);
  }

  static constexpr bool supports_premul(DataType type) {
    return type <= DataType::float8_e5m2 || type >= DataType::complex64;
  }

  template <class T>
  constexpr void add_float(DataType type, DataType complex) {
    set_sums(type, combine<Direct<T, Add>>);
    set_sums(complex, combine<Direct<T, Add>>);
    set(type, ReduceOp::product, combine<Direct<T, Multiply>>);
    set(type, ReduceOp::min, combine<Direct<T, FloatMin>>);
    set(type, ReduceOp::max, combine<Direct<T, FloatMax>>);
  }

  constexpr void set_scale(DataType type, Kernels::Scale kernel) {
    table_.scale[static_cast<size_t>(type)] = kernel;
  }

  constexpr void add_floats() {
    add_float<float>(DataType::float32, DataType::complex64);
    add_float<double>(DataType::float64, DataType::complex128);
    set_scale(DataType::float32, scale_by<ScaleFloat>);
    set_scale(DataType::complex64, scale_by<ScaleFloat>);
    set_scale(DataType::float64, scale_by<ScaleDouble>);
    set_scale(DataType::complex128, scale_by<ScaleDouble>);
  }

  // `Step` makes a step of an operation on fp32.
  template <class Codec, template <class> class Step>
  constexpr void add_narrow(DataType type) {
    set_sums(type, combine<Step<Add>>);
    set(type, ReduceOp::product, combine<Step<Multiply>>);
    set(type, ReduceOp::min, combine<Step<FloatMin>>);
    set(type, ReduceOp::max, combine<Step<FloatMax>>);
    const size_t i = static_cast<size_t>(type);
    set_scale(type, scale_by<ScaleNarrow<Codec>>);
    table_.widen[i] = into_wide<Codec, Second>;
    table_.add_wide[i] = into_wide<Codec, Add>;
    table_.multiply_wide[i] = into_wide<Codec, Multiply>;
    table_.narrow[i] = narrow_to<Codec>;
  }

  constexpr void add_bitwise(DataType type) {
    set(type, ReduceOp::band, combine<Direct<uint32_t, BitAnd>>);
    set(type, ReduceOp::bor, combine<Direct<uint32_t, BitOr>>);
    set(type, ReduceOp::bxor, combine<Direct<uint32_t, BitXor>>);
  }

  // Sums and products of two's complement are those of the unsigned type, which may wrap.
  template <class T, class Unsigned>
  constexpr void add_integer(DataType type) {
    set_sums(type, combine<Direct<Unsigned, Add>>);
    if constexpr (sizeof(T) == 1) {
      set(type, ReduceOp::product, combine<Direct<uint16_t, MultiplyBytes>>);
    } else {
      set(type, ReduceOp::product, combine<Direct<Unsigned, Multiply>>);
    }
    set(type, ReduceOp::min, combine<Direct<T, IntMin>>);
    set(type, ReduceOp::max, combine<Direct<T, IntMax>>);
    add_bitwise(type);
  }

  constexpr void add_bool() {
    const DataType type = DataType::bool8;
    add_bitwise(type);
    const Kernels::Combine either = combine<Direct<uint32_t, BitOr>>;
    const Kernels::Combine both = combine<Direct<uint32_t, BitAnd>>;
    set_sums(type, either);
    set(type, ReduceOp::max, either);
    set(type, ReduceOp::product, both);
    set(type, ReduceOp::min, both);
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

HWY_EXPORT(kernels);

std::vector<KernelSet> kernel_sets() {
  // Highway's own dispatch keeps one choice for every library in the process; a local one leaves it
  // alone.
  std::vector<KernelSet> sets;
  for (int64_t rest = HWY_TARGETS; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    hwy::ChosenTarget only;
    only.Update(target);
    const size_t slot = std::size(HWY_DISPATCH_TABLE(kernels)) == 1 ? 0 : only.GetIndex();
    const bool fallback = (rest & (rest - 1)) == 0;
    sets.push_back(
        {HWY_DISPATCH_TABLE(kernels)[slot](), fallback || (hwy::SupportedTargets() & target) != 0});
  }
  return sets;
}

const Kernels& plain_kernels() { return *HWY_STATIC_DISPATCH(kernels)(); }

}  // namespace ringwood
#endif  // HWY_ONCE
