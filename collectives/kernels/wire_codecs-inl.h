// fp32 to blocks of int8 with a scale and back (wire.h), for one instruction set. No include guard
// of the usual kind: Highway includes this once per target.
#if defined(RINGWOOD_WIRE_CODECS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGWOOD_WIRE_CODECS_INL_H_
#undef RINGWOOD_WIRE_CODECS_INL_H_
#else
#define RINGWOOD_WIRE_CODECS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "collectives/kernels/reduce_kernels-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ringwood {
namespace HWY_NAMESPACE {

// A block of `words` words of four codes. Word j has those of elements j, j + words, j + 2 words
// and j + 3 words, the first in its lowest byte. Loops process vectors of whole words only.
struct Int8Blocks {
  static constexpr size_t kWords = kInt8Block / 4;
  static constexpr uint32_t kInfinity = 0x7f800000u, kNan = 0x7fc00000u;

  // fp32 bits of the largest magnitude of a whole block; larger than all numbers if one
  // is not finite.
  static HWY_INLINE uint32_t largest(const uint8_t* in) {
    const hn::ScalableTag<int32_t> d;
    const size_t lanes = hn::Lanes(d);
    const auto magnitude = hn::Set(d, 0x7fffffff);
    auto a = hn::Zero(d), b = a, c = a, e = a;
    for (size_t i = 0; i < kWords; i += lanes) {
      const uint8_t* const at = in + i * sizeof(float);
      constexpr size_t kQuarter = kWords * sizeof(float);
      a = hn::Max(a, hn::And(load(d, at), magnitude));
      b = hn::Max(b, hn::And(load(d, at + kQuarter), magnitude));
      c = hn::Max(c, hn::And(load(d, at + 2 * kQuarter), magnitude));
      e = hn::Max(e, hn::And(load(d, at + 3 * kQuarter), magnitude));
    }
    const auto all = hn::Max(hn::Max(a, b), hn::Max(c, e));
    return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(d, all)));
  }

  // 17 significant bits, so that a product with a code has 24. At least the smallest normal number,
  // below which a product would lose bits.
  static HWY_INLINE uint32_t scale_bits(uint32_t largest) {
    if (HWY_UNLIKELY(largest >= kInfinity)) return kNan;
    float value;
    std::memcpy(&value, &largest, sizeof value);
    value = std::max(value / 127, 0x1p-126f);
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits & ~uint32_t{0x7f};
  }

  template <class D>
  static HWY_INLINE void put_codes(D df, uint8_t* out, const uint8_t* in, size_t words,
                                   float scale) {
    const hn::RebindToUnsigned<D> du;
    const auto inverse = hn::Set(df, 1 / scale);
    const auto low = hn::Set(du, 0xffu);
    const size_t quarter = words * sizeof(float);
    // Its last bit is 1, so the sum's lowest byte is the code, rounded to nearest even: 1.3 times
    // as fast as a conversion, and 6 times in plain code.
    const auto adder = hn::Set(df, 0x1.8p23f);
    const auto code = [&](const uint8_t* at) HWY_ATTR {
      return hn::BitCast(du, hn::MulAdd(load(df, at), inverse, adder));
    };
    for (size_t i = 0; i < words * sizeof(float); i += bytes_of(df)) {
      const uint8_t* const at = in + i;
      const auto first = hn::And(code(at), low);
      const auto second = hn::ShiftLeft<8>(hn::And(code(at + quarter), low));
      const auto third = hn::ShiftLeft<16>(hn::And(code(at + 2 * quarter), low));
      const auto fourth = hn::ShiftLeft<24>(code(at + 3 * quarter));
      store(du, hn::Or(hn::Or(first, second), hn::Or(third, fourth)), out + i);
    }
  }

  // Op is Second or Add, applied to the present and the decoded value.
  template <class Op, class D>
  static HWY_INLINE void take_codes(D df, uint8_t* out, const uint8_t* in, size_t words,
                                    float scale_value) {
    const hn::RebindToSigned<D> di;
    const auto scale = hn::Set(df, scale_value);
    const size_t quarter = words * sizeof(float);
    const auto take = [&](uint8_t* at, auto code) HWY_ATTR {
      const auto value = hn::Mul(hn::ConvertTo(df, code), scale);
      store(df, into<Op>(load(df, at), value), at);
    };
    for (size_t i = 0; i < words * sizeof(float); i += bytes_of(df)) {
      uint8_t* const at = out + i;
      const auto word = load(di, in + i);
      take(at, hn::ShiftRight<24>(hn::ShiftLeft<24>(word)));
      take(at + quarter, hn::ShiftRight<24>(hn::ShiftLeft<16>(word)));
      take(at + 2 * quarter, hn::ShiftRight<24>(hn::ShiftLeft<8>(word)));
      take(at + 3 * quarter, hn::ShiftRight<24>(word));
    }
  }
};

inline void encode_int8(void* out_start, const float* in_start, size_t count) {
  const hn::ScalableTag<float> df;
  auto* out = static_cast<uint8_t*>(out_start);
  const auto* in = reinterpret_cast<const uint8_t*>(in_start);
  const auto put = [&](auto d, const uint8_t* block, const uint8_t* whole, size_t words) HWY_ATTR {
    const uint32_t bits = Int8Blocks::scale_bits(Int8Blocks::largest(whole));
    std::memcpy(out, &bits, sizeof bits);
    float scale;
    std::memcpy(&scale, &bits, sizeof scale);
    if (HWY_UNLIKELY(bits == Int8Blocks::kNan))
      std::memset(out + sizeof bits, 0, words * 4);
    else
      Int8Blocks::put_codes(d, out + sizeof bits, block, words, scale);
    out += sizeof bits + words * 4;
  };
  for (; count >= kInt8Block; count -= kInt8Block, in += kInt8Block * sizeof(float))
    put(df, in, in, Int8Blocks::kWords);
  if (count == 0) return;
  uint8_t rest[kInt8Block * sizeof(float)] = {};
  std::memcpy(rest, in, count * sizeof(float));
  put(hn::CappedTag<float, 1>(), rest, rest, (count + 3) / 4);
}

template <class Op>
void decode_int8(float* out_start, const void* in_start, size_t count) {
  const hn::ScalableTag<float> df;
  auto* out = reinterpret_cast<uint8_t*>(out_start);
  const auto* in = static_cast<const uint8_t*>(in_start);
  float scale;
  for (; count >= kInt8Block; count -= kInt8Block) {
    std::memcpy(&scale, in, sizeof scale);
    Int8Blocks::take_codes<Op>(df, out, in + sizeof scale, Int8Blocks::kWords, scale);
    in += sizeof scale + kInt8Block;
    out += kInt8Block * sizeof(float);
  }
  if (count == 0) return;
  uint8_t rest[kInt8Block * sizeof(float)] = {};
  std::memcpy(rest, out, count * sizeof(float));
  std::memcpy(&scale, in, sizeof scale);
  Int8Blocks::take_codes<Op>(hn::CappedTag<float, 1>(), rest, in + sizeof scale, (count + 3) / 4,
                             scale);
  std::memcpy(out, rest, count * sizeof(float));
}

}  // namespace HWY_NAMESPACE
}  // namespace ringwood
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
