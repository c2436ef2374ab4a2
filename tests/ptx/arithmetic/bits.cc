// Operations on bits: logic, shifts, fields and bytes.
#include <algorithm>
#include <bit>

#include "tests/ptx/arithmetic/arithmetic.h"

namespace ringwood::ptx {
namespace {

template <Operation kOperation>
void run_logic(uint64_t* slots, const Instruction& x) {
  const uint64_t a = slots[x.src[0]], b = slots[x.src[1]];
  const uint64_t result = kOperation == Operation::bit_and  ? a & b
                          : kOperation == Operation::bit_or ? a | b
                                                            : a ^ b;
  // A constant may have more bits than the type.
  slots[x.dst[0]] = low_bits(result, bits_of(x.type));
}
void run_not(uint64_t* slots, const Instruction& x) {
  slots[x.dst[0]] = low_bits(~slots[x.src[0]], bits_of(x.type));
}
void run_cnot(uint64_t* slots, const Instruction& x) {
  slots[x.dst[0]] = low_bits(slots[x.src[0]], bits_of(x.type)) == 0 ? 1 : 0;
}

uint32_t amount(const uint64_t* slots, uint32_t slot) { return static_cast<uint32_t>(slots[slot]); }

template <class T>
void run_shl(uint64_t* slots, const Instruction& x) {
  const uint32_t by = amount(slots, x.src[1]);
  slots[x.dst[0]] = by >= 8 * sizeof(T) ? 0 : static_cast<T>(slots[x.src[0]] << by);
}
template <class T>
void run_shr(uint64_t* slots, const Instruction& x) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  const uint32_t by = amount(slots, x.src[1]);
  const T a = value_of<T>(slots[x.src[0]]);
  const T fill = a < 0 ? static_cast<T>(-1) : T{0};
  slots[x.dst[0]] = slot_of<T>(by >= kBits ? fill : static_cast<T>(a >> by));
}
// src[1] is the high word, src[0] the low one.
template <bool kLeft>
void run_funnel(uint64_t* slots, const Instruction& x) {
  const uint64_t both = slots[x.src[1]] << 32 | low_bits(slots[x.src[0]], 32);
  const uint32_t c = amount(slots, x.src[2]);
  const uint32_t by = x.flag ? std::min(c, 32u) : c & 31;
  slots[x.dst[0]] = static_cast<uint32_t>(kLeft ? both << by >> 32 : both >> by);
}

void run_bfe(uint64_t* slots, const Instruction& x) {
  const int bits = bits_of(x.type);
  const uint64_t a = low_bits(slots[x.src[0]], bits);
  const int at = static_cast<int>(slots[x.src[1]] & 255);
  const int length = static_cast<int>(slots[x.src[2]] & 255);
  const int last = std::min(at + length - 1, bits - 1);
  const bool sign = is_signed(x.type) && length > 0 && (a >> last & 1) != 0;
  uint64_t result = sign ? ~uint64_t{0} : 0;
  if (length > 0 && at < bits) {
    const uint64_t mask = low_bits(~uint64_t{0}, std::min(length, bits - at));
    result = (result & ~mask) | (a >> at & mask);
  }
  slots[x.dst[0]] = low_bits(result, bits);
}
void run_bfi(uint64_t* slots, const Instruction& x) {
  const int bits = bits_of(x.type);
  const uint64_t at = slots[x.src[2]] & 255;
  const int length = static_cast<int>(slots[x.src[3]] & 255);
  const uint64_t mask = at < 64 ? low_bits(~uint64_t{0}, length) << at : 0;
  const uint64_t a = at < 64 ? slots[x.src[0]] << at : 0;
  slots[x.dst[0]] = low_bits((slots[x.src[1]] & ~mask) | (a & mask), bits);
}
void run_bfind(uint64_t* slots, const Instruction& x) {
  const int bits = bits_of(x.type);
  uint64_t a = low_bits(slots[x.src[0]], bits);
  if (is_signed(x.type) && (a >> (bits - 1) & 1) != 0) a = low_bits(~a, bits);
  const int at = static_cast<int>(std::bit_width(a)) - 1;
  slots[x.dst[0]] = static_cast<uint32_t>(at < 0 || !x.flag ? at : bits - 1 - at);
}
void run_brev(uint64_t* slots, const Instruction& x) {
  const int bits = bits_of(x.type);
  uint64_t result = 0;
  for (int i = 0; i < bits; ++i) result |= (slots[x.src[0]] >> i & 1) << (bits - 1 - i);
  slots[x.dst[0]] = result;
}
void run_popc(uint64_t* slots, const Instruction& x) {
  slots[x.dst[0]] =
      static_cast<uint64_t>(std::popcount(low_bits(slots[x.src[0]], bits_of(x.type))));
}
void run_clz(uint64_t* slots, const Instruction& x) {
  const int bits = bits_of(x.type);
  slots[x.dst[0]] = static_cast<uint64_t>(bits - std::bit_width(low_bits(slots[x.src[0]], bits)));
}

// Which byte of {b, a} goes to place i; bit 3: its sign, eight times.
uint32_t permuted(uint8_t mode, uint32_t selector, uint32_t i) {
  const uint32_t n = selector & 3;
  switch (mode) {
    case 1: return n + i;                  // f4e
    case 2: return (n + 8 - i) & 7;        // b4e
    case 3: return n;                      // rc8
    case 4: return std::max(n, i);         // ecl
    case 5: return std::min(n, i);         // ecr
    case 6: return (n & 1) * 2 + (i & 1);  // rc16
    default: return selector >> (4 * i) & 15;
  }
}
void run_prmt(uint64_t* slots, const Instruction& x) {
  const uint64_t both = slots[x.src[1]] << 32 | low_bits(slots[x.src[0]], 32);
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t from = permuted(x.mode, amount(slots, x.src[2]), i);
    uint32_t byte = both >> (8 * (from & 7)) & 255;
    if ((from & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    result |= byte << (8 * i);
  }
  slots[x.dst[0]] = result;
}
void run_lop3(uint64_t* slots, const Instruction& x) {
  const uint64_t a = slots[x.src[0]], b = slots[x.src[1]], c = slots[x.src[2]];
  uint64_t result = 0;
  for (int i = 0; i < 8; ++i)
    if ((slots[x.src[3]] >> i & 1) != 0)
      result |= ((i & 4) != 0 ? a : ~a) & ((i & 2) != 0 ? b : ~b) & ((i & 1) != 0 ? c : ~c);
  slots[x.dst[0]] = low_bits(result, 32);
}

Compute find_shift(bool left, Type type) {
  switch (type) {
    case Type::b16:
    case Type::u16: return left ? &run_shl<uint16_t> : &run_shr<uint16_t>;
    case Type::b32:
    case Type::u32: return left ? &run_shl<uint32_t> : &run_shr<uint32_t>;
    case Type::b64:
    case Type::u64: return left ? &run_shl<uint64_t> : &run_shr<uint64_t>;
    case Type::s16: return left ? nullptr : &run_shr<int16_t>;
    case Type::s32: return left ? nullptr : &run_shr<int32_t>;
    case Type::s64: return left ? nullptr : &run_shr<int64_t>;
    default: return nullptr;
  }
}

}  // namespace

Compute find_bits(Operation operation, Type type) {
  const int bits = bits_of(type);
  if (is_float(type)) return nullptr;
  const bool word = bits == 32 || bits == 64;
  switch (operation) {
    case Operation::bit_and: return &run_logic<Operation::bit_and>;
    case Operation::bit_or: return &run_logic<Operation::bit_or>;
    case Operation::bit_xor: return &run_logic<Operation::bit_xor>;
    case Operation::bit_not: return &run_not;
    case Operation::cnot: return &run_cnot;
    case Operation::shl: return find_shift(true, type);
    case Operation::shr: return find_shift(false, type);
    case Operation::shf_l: return bits == 32 ? &run_funnel<true> : nullptr;
    case Operation::shf_r: return bits == 32 ? &run_funnel<false> : nullptr;
    case Operation::bfe: return word ? &run_bfe : nullptr;
    case Operation::bfi: return word ? &run_bfi : nullptr;
    case Operation::bfind: return word ? &run_bfind : nullptr;
    case Operation::brev: return word ? &run_brev : nullptr;
    case Operation::popc: return word ? &run_popc : nullptr;
    case Operation::clz: return word ? &run_clz : nullptr;
    case Operation::prmt: return bits == 32 ? &run_prmt : nullptr;
    case Operation::lop3: return bits == 32 ? &run_lop3 : nullptr;
    default: return nullptr;
  }
}

}  // namespace ringwood::ptx
