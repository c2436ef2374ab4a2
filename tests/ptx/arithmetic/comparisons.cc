// Comparisons and selections.
#include <cmath>

#include "tests/ptx/arithmetic/arithmetic.h"

namespace ringwood::ptx {
namespace {

template <class T>
bool compared(Compare compare, T a, T b) {
  switch (compare) {
    case Compare::eq: return a == b;
    case Compare::ne: return a != b && a == a && b == b;
    case Compare::lt: return a < b;
    case Compare::le: return a <= b;
    case Compare::gt: return a > b;
    case Compare::ge: return a >= b;
    case Compare::equ: return a == b || a != a || b != b;
    case Compare::neu: return a != b;
    case Compare::ltu: return !(a >= b);
    case Compare::leu: return !(a > b);
    case Compare::gtu: return !(a <= b);
    case Compare::geu: return !(a < b);
    case Compare::num: return a == a && b == b;
    case Compare::nan: return a != a || b != b;
  }
  return false;
}

struct Half {};
struct Bhalf {};
template <class T>
bool compared_slots(const uint64_t* slots, const Instruction& x) {
  const uint64_t a = slots[x.src[0]], b = slots[x.src[1]];
  if constexpr (std::is_same_v<T, Half>)
    return compared(x.compare, wide_f16(static_cast<uint16_t>(a)),
                    wide_f16(static_cast<uint16_t>(b)));
  else if constexpr (std::is_same_v<T, Bhalf>)
    return compared(x.compare, wide_bf16(static_cast<uint16_t>(a)),
                    wide_bf16(static_cast<uint16_t>(b)));
  else
    return compared(x.compare, value_of<T>(a), value_of<T>(b));
}

bool combined(Combine combine, bool result, bool with) {
  switch (combine) {
    case Combine::bit_and: return result && with;
    case Combine::bit_or: return result || with;
    case Combine::bit_xor: return result != with;
    default: return result;
  }
}

// dst[1], where it is there, gets the opposite comparison, combined alike.
template <class T>
void run_setp(uint64_t* slots, const Instruction& x) {
  const bool result = compared_slots<T>(slots, x);
  if (x.combine == Combine::none && x.dst[1] == kNoSlot) {
    slots[x.dst[0]] = result ? 1 : 0;
    return;
  }
  const bool with = x.src[2] != kNoSlot && (slots[x.src[2]] != 0) != x.negated_source;
  slots[x.dst[0]] = combined(x.combine, result, with) ? 1 : 0;
  if (x.dst[1] != kNoSlot) slots[x.dst[1]] = combined(x.combine, !result, with) ? 1 : 0;
}

// All ones, or 1.0 where the result is a float.
template <class T>
void run_set(uint64_t* slots, const Instruction& x) {
  const bool with = x.src[2] != kNoSlot && (slots[x.src[2]] != 0) != x.negated_source;
  const bool result = combined(x.combine, compared_slots<T>(slots, x), with);
  const uint64_t yes = x.type == Type::f32 ? slot_of(1.0f) : low_bits(~uint64_t{0}, 32);
  slots[x.dst[0]] = result ? yes : 0;
}

template <bool kPredicate>
Compute over_all(Type type) {
  switch (type) {
    case Type::b16:
    case Type::u16: return kPredicate ? &run_setp<uint16_t> : &run_set<uint16_t>;
    case Type::s16: return kPredicate ? &run_setp<int16_t> : &run_set<int16_t>;
    case Type::b32:
    case Type::u32: return kPredicate ? &run_setp<uint32_t> : &run_set<uint32_t>;
    case Type::s32: return kPredicate ? &run_setp<int32_t> : &run_set<int32_t>;
    case Type::b64:
    case Type::u64: return kPredicate ? &run_setp<uint64_t> : &run_set<uint64_t>;
    case Type::s64: return kPredicate ? &run_setp<int64_t> : &run_set<int64_t>;
    case Type::f32: return kPredicate ? &run_setp<float> : &run_set<float>;
    case Type::f64: return kPredicate ? &run_setp<double> : &run_set<double>;
    case Type::f16: return kPredicate ? &run_setp<Half> : &run_set<Half>;
    case Type::bf16: return kPredicate ? &run_setp<Bhalf> : &run_set<Bhalf>;
    default: return nullptr;
  }
}

void run_selp(uint64_t* slots, const Instruction& x) {
  const uint64_t value = slots[slots[x.src[2]] != 0 ? x.src[0] : x.src[1]];
  slots[x.dst[0]] = low_bits(value, bits_of(x.type));
}
template <class T>
void run_slct(uint64_t* slots, const Instruction& x) {
  const uint64_t value = slots[value_of<T>(slots[x.src[2]]) >= 0 ? x.src[0] : x.src[1]];
  slots[x.dst[0]] = low_bits(value, bits_of(x.type));
}

}  // namespace

Compute find_comparison(Operation operation, Type type, Type other) {
  switch (operation) {
    case Operation::setp: return over_all<true>(type);
    case Operation::set:
      return bits_of(other) == 32 && other != Type::f16x2 && other != Type::bf16x2
                 ? over_all<false>(type)
                 : nullptr;
    case Operation::selp: return bits_of(type) >= 16 ? &run_selp : nullptr;
    case Operation::slct:
      return other == Type::s32   ? &run_slct<int32_t>
             : other == Type::f32 ? &run_slct<float>
                                  : nullptr;
    default: return nullptr;
  }
}

}  // namespace ringwood::ptx
