// Read-modify-writes.
#include <fmt/format.h>

#include "tests/ptx/arithmetic/arithmetic.h"
#include "tests/ptx/memory.h"

namespace ringwood::ptx {
namespace {

template <class V>
uint64_t float_sum(uint64_t a, uint64_t b) {
  return slot_of(static_cast<V>(value_of<V>(a) + value_of<V>(b)));
}

bool less(Type type, uint64_t a, uint64_t b) {
  const int bits = bits_of(type);
  return is_signed(type) ? sign_extended(a, bits) < sign_extended(b, bits) : a < b;
}

uint64_t sum(Type type, uint64_t a, uint64_t b) {
  if (type == Type::f32) return float_sum<float>(a, b);
  if (type == Type::f64) return float_sum<double>(a, b);
  return a + b;
}

// What becomes of the value; cas and its kind may leave it.
bool changed(const Instruction& x, uint64_t b, uint64_t c, uint64_t& value) {
  const uint64_t old = value;
  switch (x.rmw) {
    case Rmw::add: value = sum(x.type, old, b); break;
    case Rmw::bit_and: value = old & b; break;
    case Rmw::bit_or: value = old | b; break;
    case Rmw::bit_xor: value = old ^ b; break;
    case Rmw::exchange: value = b; break;
    case Rmw::cas:
      if (old != b) return false;
      value = c;
      break;
    case Rmw::inc: value = old >= b ? 0 : old + 1; break;
    case Rmw::dec: value = old == 0 || old > b ? b : old - 1; break;
    case Rmw::min: value = less(x.type, b, old) ? b : old; break;
    case Rmw::max: value = less(x.type, old, b) ? b : old; break;
  }
  value = low_bits(value, bits_of(x.type));
  return true;
}

}  // namespace

void Memory::atomic(Agent& agent, const Instruction& x, uint64_t* slots) {
  const uint64_t address = slots[x.src[0]] + static_cast<uint64_t>(x.offset);
  const int bits = bits_of(x.type);
  const uint32_t bytes = static_cast<uint32_t>(bits) / 8;
  Region& region = checked_region(x, address, bytes, true);
  const uint64_t b = low_bits(slots[x.src[1]], bits);
  const uint64_t c = x.src[2] == kNoSlot ? 0 : low_bits(slots[x.src[2]], bits);
  const Strong access{address, bytes, x.order, x.scope, static_cast<uint32_t>(x.line)};
  slots[x.dst[0]] =
      region.words->modify(agent, access, [&](uint64_t& value) { return changed(x, b, c, value); });
}

}  // namespace ringwood::ptx
