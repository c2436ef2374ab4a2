// The table of kernels, built once per instruction set.
#include "collectives/kernels/reduce_kernels.h"

#include <cstdint>
#include <iterator>
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

HWY_EXPORT(kernels);

std::vector<KernelSet> kernel_sets() {
  // Highway's own dispatch keeps one choice for every library in the process; a local one does
  // not change it.
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
