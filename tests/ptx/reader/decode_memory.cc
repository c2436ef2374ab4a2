// Instructions of memory: ld, st, atom, red, fence, membar, and questions about addresses.
#include <algorithm>

#include "tests/ptx/reader/decode.h"

namespace ringwood::ptx {
namespace {

constexpr std::string_view kSpaces[] = {"global", "shared", "local", "param", "const"};
constexpr Space kSpaceOf[] = {Space::global, Space::shared, Space::local, Space::param,
                              Space::constant};
constexpr std::string_view kScopes[] = {"cta", "gpu", "sys"};

Space take_space(Modifiers& modifiers) {
  if (modifiers.take("shared::cta")) return Space::shared;
  const int at = modifiers.take_one(kSpaces);
  return at < 0 ? Space::generic : kSpaceOf[at];
}

void take_order(Raw& raw, Instruction& x) {
  constexpr std::string_view kOrders[] = {"weak", "relaxed", "acquire", "release", "acq_rel"};
  constexpr Order kOrderOf[] = {Order::weak, Order::relaxed, Order::acquire, Order::release,
                                Order::acq_rel};
  const int order = raw.modifiers.take_one(kOrders);
  const int scope = raw.modifiers.take_one(kScopes);
  if (order >= 0) x.order = kOrderOf[order];
  if (scope >= 0) x.scope = static_cast<Scope>(scope);
  if (x.order != Order::weak && scope < 0) raw.not_known("no scope");
  if (x.order == Order::weak && scope >= 0) raw.not_known("a scope without an order");
  // A volatile access has the meaning of a relaxed one of the whole system.
  if (raw.modifiers.take("volatile")) x.order = Order::relaxed, x.scope = Scope::sys;
}

// "[%rd1+8]", "[name]", "[name+-4]" -> src[0] and offset; or bytes of the frame.
void take_address(FunctionBuilder& function, Raw& raw, const std::string& operand, Instruction& x) {
  if (operand.size() < 3 || operand[0] != '[' || operand.back() != ']') raw.not_known();
  std::string base = operand.substr(1, operand.size() - 2);
  const size_t plus = std::min(base.find('+'), base.size());
  if (plus < base.size()) {
    const auto offset = number(trimmed(std::string_view(base).substr(plus + 1)), Type::s64);
    if (!offset) raw.not_known("no offset");
    x.offset = static_cast<int64_t>(*offset);
  }
  base = trimmed(std::string_view(base).substr(0, plus));
  const auto bytes = x.space == Space::param ? function.frame_bytes(base) : std::nullopt;
  if (!bytes) {
    x.src[0] = function.source(base, Type::u64, raw.line());
    return;
  }
  const int64_t end = x.offset + int64_t{x.count} * bits_of(x.type) / 8;
  if (x.offset < 0 || end > bytes->bytes) raw.not_known("beyond the parameter");
  x.offset += bytes->at;
  x.opcode = x.opcode == Opcode::load ? Opcode::load_slot : Opcode::store_slot;
}

void decode_access(FunctionBuilder& function, Raw& raw, Instruction& x, bool load) {
  x.opcode = load ? Opcode::load : Opcode::store;
  x.space = take_space(raw.modifiers);
  take_order(raw, x);
  raw.modifiers.drop_cache_hints();
  raw.modifiers.take("mmio");
  x.count = raw.modifiers.take("v2") ? 2 : raw.modifiers.take("v4") ? 4 : 1;
  x.type = raw.modifiers.take_type();
  if (bits_of(x.type) < 8 || raw.operands.size() != 2) raw.not_known();
  const bool right_way = load ? x.order != Order::release : x.order != Order::acquire;
  if (!right_way || x.order == Order::acq_rel) raw.not_known();
  take_address(function, raw, raw.operands[load ? 1 : 0], x);
  const std::vector<std::string> values = elements(raw.operands[load ? 0 : 1]);
  if (values.size() != x.count) raw.not_known("other elements than the vector has");
  for (size_t i = 0; i < values.size(); ++i) {
    if (load) {
      x.dst[i] = function.destination(values[i], raw.line());
      x.dst_bits = static_cast<uint8_t>(function.bits(x.dst[i]));
    } else {
      x.src[1 + i] = function.source(values[i], x.type, raw.line());
    }
  }
}

void decode_atomic(FunctionBuilder& function, Raw& raw, Instruction& x) {
  constexpr std::string_view kNames[] = {"add", "and", "or",  "xor", "exch",
                                         "cas", "inc", "dec", "min", "max"};
  x.opcode = Opcode::atomic;
  x.space = take_space(raw.modifiers);
  x.order = Order::relaxed;
  x.scope = Scope::gpu;
  constexpr std::string_view kOrders[] = {"relaxed", "acquire", "release", "acq_rel"};
  constexpr Order kOrderOf[] = {Order::relaxed, Order::acquire, Order::release, Order::acq_rel};
  if (const int at = raw.modifiers.take_one(kOrders); at >= 0) x.order = kOrderOf[at];
  if (const int at = raw.modifiers.take_one(kScopes); at >= 0) x.scope = static_cast<Scope>(at);
  const int name = raw.modifiers.take_one(kNames);
  if (name < 0) raw.not_known();
  x.rmw = static_cast<Rmw>(name);
  x.type = raw.modifiers.take_type();
  const bool half = bits_of(x.type) < 32 && !(bits_of(x.type) == 16 && x.rmw == Rmw::cas);
  if (half || x.type == Type::f16x2 || x.type == Type::bf16x2) raw.not_known();
  if (is_float(x.type) && x.rmw != Rmw::add) raw.not_known();
  const bool result = raw.modifiers.opcode() == "atom";
  const size_t sources = x.rmw == Rmw::cas ? 2 : 1;
  if (raw.operands.size() != sources + 1 + (result ? 1 : 0)) raw.not_known();
  size_t at = 0;
  x.dst[0] = function.destination(result ? raw.operands[at++] : "_", raw.line());
  take_address(function, raw, raw.operands[at++], x);
  for (size_t i = 0; i < sources; ++i)
    x.src[1 + i] = function.source(raw.operands[at++], x.type, raw.line());
}

void decode_fence(Raw& raw, Instruction& x) {
  x.opcode = Opcode::fence;
  if (raw.modifiers.opcode() == "membar") {
    constexpr std::string_view kLevels[] = {"cta", "gl", "sys"};
    const int level = raw.modifiers.take_one(kLevels);
    if (level < 0) raw.not_known();
    x.order = Order::sc;  // what membar means since sm_70
    x.scope = static_cast<Scope>(level);
    return;
  }
  constexpr std::string_view kOrders[] = {"acquire", "release", "acq_rel", "sc"};
  constexpr Order kOrderOf[] = {Order::acquire, Order::release, Order::acq_rel, Order::sc};
  const int order = raw.modifiers.take_one(kOrders);
  const int scope = raw.modifiers.take_one(kScopes);
  if (scope < 0) raw.not_known();
  x.order = order < 0 ? Order::acq_rel : kOrderOf[order];
  x.scope = static_cast<Scope>(scope);
}

// One address space: an address is the same in its own space and as a generic one.
void decode_conversion(FunctionBuilder& function, Raw& raw, Instruction& x) {
  raw.modifiers.take("to");
  take_space(raw.modifiers);
  x.type = raw.modifiers.take_type();
  if (raw.operands.size() != 2 || bits_of(x.type) < 32) raw.not_known();
  x.opcode = Opcode::compute;
  x.dst[0] = function.destination(raw.operands[0], raw.line());
  x.src[0] = function.source(raw.operands[1], x.type, raw.line());
  x.compute = [](uint64_t* slots, const Instruction& one) {
    slots[one.dst[0]] = slots[one.src[0]];
  };
}

}  // namespace

bool decode_memory(FunctionBuilder& function, Raw& raw, Instruction& x) {
  const std::string& opcode = raw.modifiers.opcode();
  if (opcode == "ld" || opcode == "st" || opcode == "ldu") {
    decode_access(function, raw, x, opcode != "st");
  } else if (opcode == "atom" || opcode == "red") {
    decode_atomic(function, raw, x);
  } else if (opcode == "fence" || opcode == "membar") {
    decode_fence(raw, x);
  } else if (opcode == "cvta") {
    decode_conversion(function, raw, x);
  } else if (opcode == "isspacep") {
    x.opcode = Opcode::isspace;
    x.space = take_space(raw.modifiers);
    if (raw.operands.size() != 2) raw.not_known();
    x.dst[0] = function.destination(raw.operands[0], raw.line());
    x.src[0] = function.source(raw.operands[1], Type::u64, raw.line());
  } else if (opcode == "prefetch" || opcode == "prefetchu") {
    take_space(raw.modifiers);
    raw.modifiers.take("L1");
    raw.modifiers.take("L2");
  } else {
    return false;
  }
  return true;
}

}  // namespace ringwood::ptx
