// Integer arithmetic.
#include <algorithm>

#include "tests/ptx/arithmetic/arithmetic.h"

namespace ringwood::ptx {
namespace {

template <class T>
using Double = std::conditional_t<
    sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>>>;

template <class T>
Double<T> product(T a, T b) {
  // 65535 * 65535 is no int.
  using Wide = std::conditional_t<sizeof(T) == 2, int64_t, Double<T>>;
  return static_cast<Double<T>>(static_cast<Wide>(a) * static_cast<Wide>(b));
}
template <class T>
T high(Double<T> value) {
  return static_cast<T>(value >> (8 * sizeof(T)));
}

// Each a function of up to three values of one type.
struct Add {
  template <class T>
  static T of(T a, T b, T) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};
struct Sub {
  template <class T>
  static T of(T a, T b, T) {
    return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  }
};
struct MulLo {
  template <class T>
  static T of(T a, T b, T) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
struct MulHi {
  template <class T>
  static T of(T a, T b, T) {
    return high<T>(product(a, b));
  }
};
struct MadLo {
  template <class T>
  static T of(T a, T b, T c) {
    return Add::of(MulLo::of(a, b, c), c, c);
  }
};
struct MadHi {
  template <class T>
  static T of(T a, T b, T c) {
    return Add::of(high<T>(product(a, b)), c, c);
  }
};
struct Div {
  template <class T>
  static T of(T a, T b, T) {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Sub::of(T{0}, a, a);
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  static T of(T a, T b, T) {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <class T>
  static T of(T a, T b, T) {
    return std::min(a, b);
  }
};
struct Max {
  template <class T>
  static T of(T a, T b, T) {
    return std::max(a, b);
  }
};
struct Neg {
  template <class T>
  static T of(T a, T, T) {
    return Sub::of(T{0}, a, a);
  }
};
struct Abs {
  template <class T>
  static T of(T a, T, T) {
    return a < 0 ? Sub::of(T{0}, a, a) : a;
  }
};
struct Sad {
  template <class T>
  static T of(T a, T b, T c) {
    return Add::of(a < b ? Sub::of(b, a, a) : Sub::of(a, b, b), c, c);
  }
};

template <class F, int kSources, class T>
void run(uint64_t* slots, const Instruction& x) {
  const T a = value_of<T>(slots[x.src[0]]);
  const T b = kSources > 1 ? value_of<T>(slots[x.src[1]]) : T{};
  const T c = kSources > 2 ? value_of<T>(slots[x.src[2]]) : T{};
  slots[x.dst[0]] = slot_of<T>(F::of(a, b, c));
}

template <class F, int kSources>
Compute over_integers(Type type) {
  switch (type) {
    case Type::u16:
    case Type::b16: return &run<F, kSources, uint16_t>;
    case Type::s16: return &run<F, kSources, int16_t>;
    case Type::u32:
    case Type::b32: return &run<F, kSources, uint32_t>;
    case Type::s32: return &run<F, kSources, int32_t>;
    case Type::u64:
    case Type::b64: return &run<F, kSources, uint64_t>;
    case Type::s64: return &run<F, kSources, int64_t>;
    default: return nullptr;
  }
}

template <class T, bool kMad>
void run_wide(uint64_t* slots, const Instruction& x) {
  const auto a = product(value_of<T>(slots[x.src[0]]), value_of<T>(slots[x.src[1]]));
  uint64_t result = static_cast<uint64_t>(a);
  if (kMad) result += slots[x.src[2]];
  slots[x.dst[0]] = low_bits(result, 16 * sizeof(T));
}

template <bool kMad>
Compute over_narrow_integers(Type type) {
  switch (type) {
    case Type::u16: return &run_wide<uint16_t, kMad>;
    case Type::s16: return &run_wide<int16_t, kMad>;
    case Type::u32: return &run_wide<uint32_t, kMad>;
    case Type::s32: return &run_wide<int32_t, kMad>;
    default: return nullptr;
  }
}

// dst[1]: the condition code that is written; src[2]: the one that is read.
template <class T, bool kSub>
void run_carry(uint64_t* slots, const Instruction& x) {
  using U = std::make_unsigned_t<T>;
  const U a = value_of<U>(slots[x.src[0]]), b = value_of<U>(slots[x.src[1]]);
  const U in = x.src[2] == kNoSlot ? 0 : value_of<U>(slots[x.src[2]]);
  const U once = kSub ? a - b : a + b;
  const U result = kSub ? once - in : once + in;
  const bool out = kSub ? a < b || once < in : once < a || result < once;
  slots[x.dst[0]] = result;
  if (x.dst[1] != kNoSlot) slots[x.dst[1]] = out ? 1 : 0;
}
template <bool kSub>
Compute over_carries(Type type) {
  if (bits_of(type) < 32 || is_float(type)) return nullptr;
  return bits_of(type) == 32 ? &run_carry<uint32_t, kSub> : &run_carry<uint64_t, kSub>;
}

}  // namespace

Compute find_integer(Operation operation, Type type) {
  switch (operation) {
    case Operation::add: return over_integers<Add, 2>(type);
    case Operation::sub: return over_integers<Sub, 2>(type);
    case Operation::mul_lo: return over_integers<MulLo, 2>(type);
    case Operation::mul_hi: return over_integers<MulHi, 2>(type);
    case Operation::mul_wide: return over_narrow_integers<false>(type);
    case Operation::mad_lo: return over_integers<MadLo, 3>(type);
    case Operation::mad_hi: return over_integers<MadHi, 3>(type);
    case Operation::mad_wide: return over_narrow_integers<true>(type);
    case Operation::div: return over_integers<Div, 2>(type);
    case Operation::rem: return over_integers<Rem, 2>(type);
    case Operation::min: return over_integers<Min, 2>(type);
    case Operation::max: return over_integers<Max, 2>(type);
    case Operation::neg: return over_integers<Neg, 1>(type);
    case Operation::abs: return over_integers<Abs, 1>(type);
    case Operation::sad: return over_integers<Sad, 3>(type);
    case Operation::add_carry: return over_carries<false>(type);
    case Operation::sub_carry: return over_carries<true>(type);
    default: return nullptr;
  }
}

}  // namespace ringwood::ptx
