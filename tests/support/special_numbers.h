// Numbers that break careless reductions: zeros of both signs, NaN of several payloads and signs,
// infinities, the largest, the smallest, and what lies between.
#pragma once

#include <cstdint>
#include <cstring>

#include "collectives/kernels/reduce.h"

namespace ringwood::testing {

// Bits of a float, or of a complex number's part; `random` chooses.
inline uint64_t special_bits(const TypeTraits& fields, uint64_t random) {
  const uint64_t ones = (uint64_t{1} << fields.exponent_bits) - 1;
  const uint64_t most = (uint64_t{1} << fields.mantissa_bits) - 1;
  const uint64_t quiet = uint64_t{1} << (fields.mantissa_bits - 1);
  const uint64_t sign = (random & 1) << (fields.exponent_bits + fields.mantissa_bits);
  const auto bits = [&](uint64_t exponent, uint64_t mantissa) {
    return sign | exponent << fields.mantissa_bits | mantissa;
  };
  switch (random >> 1 & 15) {
    case 0:
    case 1: return bits(0, 0);
    case 2: return bits(0, 1);
    case 3: return bits(0, most);
    case 4: return bits(1, 0);
    case 5: return bits(ones - 1, most);
    case 6: return bits(ones, 0);          // an infinity, or of e4m3 a large number
    case 7: return bits(ones, most);       // NaN
    case 8: return bits(ones, quiet);      // NaN; of e4m3 a number
    case 9: return bits(ones, quiet | 1);  // another, with a payload
    case 10: return bits(ones, 1);         // a signalling one
    case 11: return bits(ones - 1, random >> 8 & most);
    default: return bits(ones / 2 - 1 + (random >> 5 & 3), random >> 8 & most);
  }
}

// A hash: the same on every rank.
inline uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

inline void fill_special(void* at, size_t count, DataType type, uint64_t seed) {
  const TypeTraits& fields = traits_of(type);
  const size_t size = part_size(type), parts = count * (size_of(type) / size);
  for (size_t i = 0; i < parts; ++i) {
    const uint64_t random = mixed(mixed(seed + 1) ^ (i + 1) * 0x9e3779b97f4a7c15u);
    uint64_t bits = fields.exponent_bits ? special_bits(fields, random) : random;
    if (fields.kind == NumberKind::boolean) bits &= 1;
    std::memcpy(static_cast<unsigned char*>(at) + i * size, &bits, size);
  }
}

}  // namespace ringwood::testing
