// Instructions of registers only: which operation, of which types.
#include <iterator>
#include <map>

#include "tests/ptx/arithmetic/arithmetic.h"
#include "tests/ptx/reader/decode.h"

namespace ringwood::ptx {
namespace {

struct Row {
  Operation integer;
  size_t sources;
};
// Those whose modifiers say nothing but their type, and for floats their rounding.
const std::map<std::string, Row>& simple_rows() {
  static const std::map<std::string, Row> rows = {
      {"add", {Operation::add, 2}},     {"sub", {Operation::sub, 2}},
      {"div", {Operation::div, 2}},     {"rem", {Operation::rem, 2}},
      {"min", {Operation::min, 2}},     {"max", {Operation::max, 2}},
      {"neg", {Operation::neg, 1}},     {"abs", {Operation::abs, 1}},
      {"sad", {Operation::sad, 3}},     {"and", {Operation::bit_and, 2}},
      {"or", {Operation::bit_or, 2}},   {"xor", {Operation::bit_xor, 2}},
      {"not", {Operation::bit_not, 1}}, {"cnot", {Operation::cnot, 1}},
      {"shl", {Operation::shl, 2}},     {"shr", {Operation::shr, 2}},
      {"bfe", {Operation::bfe, 3}},     {"bfi", {Operation::bfi, 4}},
      {"bfind", {Operation::bfind, 1}}, {"brev", {Operation::brev, 1}},
      {"popc", {Operation::popc, 1}},   {"clz", {Operation::clz, 1}},
      {"prmt", {Operation::prmt, 3}},   {"lop3", {Operation::lop3, 4}},
      {"fma", {Operation::fma, 3}},     {"sqrt", {Operation::sqrt, 1}},
      {"rcp", {Operation::rcp, 1}},     {"copysign", {Operation::copysign, 2}},
      {"selp", {Operation::selp, 3}}};
  return rows;
}

void take_operands(FunctionBuilder& function, Raw& raw, Instruction& x, size_t sources, Type type) {
  if (raw.operands.size() != sources + 1) raw.not_known("another number of operands");
  x.opcode = Opcode::compute;
  x.dst[0] = function.destination(raw.operands[0], raw.line());
  x.dst_bits = static_cast<uint8_t>(function.bits(x.dst[0]));
  for (size_t i = 0; i < sources; ++i)
    x.src[i] = function.source(raw.operands[1 + i], type, raw.line());
}

void expect_known(const Raw& raw, const Instruction& x) {
  if (x.compute == nullptr) raw.not_known();
}

void decode_simple(FunctionBuilder& function, Raw& raw, Instruction& x, const Row& row) {
  constexpr std::string_view kModes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  Modifiers& modifiers = raw.modifiers;
  Operation operation = row.integer;
  x.type = modifiers.take_type();
  if (modifiers.opcode() == "prmt") x.mode = static_cast<uint8_t>(modifiers.take_one(kModes) + 1);
  x.flag = modifiers.opcode() == "bfind" && modifiers.take("shiftamt");
  if (is_float(x.type)) {
    modifiers.take("rn");
    x.saturate = modifiers.take("sat");
    x.nan = (modifiers.opcode() == "min" || modifiers.opcode() == "max") && modifiers.take("NaN");
  }
  take_operands(function, raw, x, row.sources, x.type);
  const bool float_selection = operation == Operation::selp;
  x.compute = float_selection    ? find_comparison(operation, x.type, Type::none)
              : is_float(x.type) ? find_float(operation, x.type)
                                 : find_integer(operation, x.type);
  if (x.compute == nullptr) x.compute = find_bits(operation, x.type);
  expect_known(raw, x);
}

void decode_product(FunctionBuilder& function, Raw& raw, Instruction& x, bool mad) {
  Modifiers& modifiers = raw.modifiers;
  x.type = modifiers.take_type();
  constexpr std::string_view kParts[] = {"lo", "hi", "wide"};
  constexpr Operation kProducts[] = {Operation::mul_lo, Operation::mul_hi, Operation::mul_wide};
  constexpr Operation kSums[] = {Operation::mad_lo, Operation::mad_hi, Operation::mad_wide};
  const int part = modifiers.take_one(kParts);
  if (is_float(x.type)) {
    modifiers.take("rn");
    x.saturate = modifiers.take("sat");
    if (part >= 0) raw.not_known();
  } else if (part < 0) {
    raw.not_known();
  }
  take_operands(function, raw, x, mad ? 3 : 2, x.type);
  x.compute = is_float(x.type) ? find_float(mad ? Operation::fma : Operation::mul, x.type)
                               : find_integer(mad ? kSums[part] : kProducts[part], x.type);
  expect_known(raw, x);
}

// add.cc, addc, addc.cc, and their like of sub.
void decode_carry(FunctionBuilder& function, Raw& raw, Instruction& x) {
  const std::string& opcode = raw.modifiers.opcode();
  x.type = raw.modifiers.take_type();
  take_operands(function, raw, x, 2, x.type);
  if (raw.modifiers.take("cc")) x.dst[1] = function.carry();
  if (opcode.ends_with("c")) x.src[2] = function.carry();
  x.compute =
      find_integer(opcode.starts_with("add") ? Operation::add_carry : Operation::sub_carry, x.type);
  expect_known(raw, x);
}

void decode_funnel(FunctionBuilder& function, Raw& raw, Instruction& x) {
  const bool left = raw.modifiers.take("l");
  if (!left && !raw.modifiers.take("r")) raw.not_known();
  x.flag = raw.modifiers.take("clamp");
  if (!x.flag && !raw.modifiers.take("wrap")) raw.not_known();
  x.type = raw.modifiers.take_type();
  take_operands(function, raw, x, 3, x.type);
  x.compute = find_bits(left ? Operation::shf_l : Operation::shf_r, x.type);
  expect_known(raw, x);
}

// setp.lt.and.s32 p|q, a, b, !c;  set.lt.u32.f32 d, a, b;
void decode_comparison(FunctionBuilder& function, Raw& raw, Instruction& x) {
  constexpr std::string_view kCompares[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                            "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  constexpr std::string_view kUnsigned[] = {"lo", "ls", "hi", "hs"};
  constexpr std::string_view kCombines[] = {"and", "or", "xor"};
  const bool predicate = raw.modifiers.opcode() == "setp";
  x.opcode = Opcode::compute;
  const Type type = raw.modifiers.take_type();
  x.type = predicate ? Type::pred : raw.modifiers.take_type();
  if (const int at = raw.modifiers.take_one(kCompares); at >= 0)
    x.compare = static_cast<Compare>(at);
  else if (const int other = raw.modifiers.take_one(kUnsigned); other >= 0)
    x.compare = static_cast<Compare>(static_cast<int>(Compare::lt) + other);
  else
    raw.not_known();
  x.combine = static_cast<Combine>(raw.modifiers.take_one(kCombines) + 1);
  const size_t wanted = x.combine == Combine::none ? 3 : 4;
  if (raw.operands.size() != wanted) raw.not_known("another number of operands");
  const std::vector<std::string> results = split(raw.operands[0], '|');
  if (results.size() > (predicate ? 2 : 1)) raw.not_known();
  for (size_t i = 0; i < results.size(); ++i)
    x.dst[i] = function.destination(results[i], raw.line());
  for (size_t i = 0; i < 2; ++i) x.src[i] = function.source(raw.operands[1 + i], type, raw.line());
  if (x.combine != Combine::none) {
    std::string with = raw.operands[3];
    x.negated_source = with[0] == '!';
    if (x.negated_source) with = trimmed(std::string_view(with).substr(1));
    x.src[2] = function.source(with, Type::pred, raw.line());
  }
  x.compute = find_comparison(predicate ? Operation::setp : Operation::set, type, x.type);
  expect_known(raw, x);
}

void decode_slct(FunctionBuilder& function, Raw& raw, Instruction& x) {
  const Type selector = raw.modifiers.take_type();
  x.type = raw.modifiers.take_type();
  take_operands(function, raw, x, 3, x.type);
  x.compute = find_comparison(Operation::slct, x.type, selector);
  expect_known(raw, x);
}

void decode_testp(FunctionBuilder& function, Raw& raw, Instruction& x) {
  constexpr std::string_view kTests[] = {"finite",     "infinite", "number",
                                         "notanumber", "normal",   "subnormal"};
  x.type = raw.modifiers.take_type();
  const int test = raw.modifiers.take_one(kTests);
  if (test < 0) raw.not_known();
  take_operands(function, raw, x, 1, x.type);
  x.compute =
      find_float(static_cast<Operation>(static_cast<int>(Operation::testp_finite) + test), x.type);
  expect_known(raw, x);
}

void decode_cvt(FunctionBuilder& function, Raw& raw, Instruction& x) {
  constexpr std::string_view kRoundings[] = {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi"};
  x.from = raw.modifiers.take_type();
  x.type = raw.modifiers.take_type();
  x.rounding = static_cast<Rounding>(raw.modifiers.take_one(kRoundings) + 1);
  x.saturate = raw.modifiers.take("sat");
  const bool pair = x.type == Type::f16x2 || x.type == Type::bf16x2;
  take_operands(function, raw, x, pair ? 2 : 1, x.from);
  x.compute = find_conversion(x);
  expect_known(raw, x);
}

void run_mov(uint64_t* slots, const Instruction& x) {
  slots[x.dst[0]] = low_bits(slots[x.src[0]], bits_of(x.type));
}
void run_pack(uint64_t* slots, const Instruction& x) {
  const int bits = bits_of(x.type) / x.count;
  uint64_t value = 0;
  for (int i = 0; i < x.count; ++i) value |= low_bits(slots[x.src[i]], bits) << (i * bits);
  slots[x.dst[0]] = value;
}
void run_unpack(uint64_t* slots, const Instruction& x) {
  const int bits = bits_of(x.type) / x.count;
  const uint64_t value = slots[x.src[0]];
  for (int i = 0; i < x.count; ++i) slots[x.dst[i]] = low_bits(value >> (i * bits), bits);
}

// mov d, a;  mov d, {a, b};  mov {a, b}, d;  and the clocks, which are read no other way.
void decode_mov(FunctionBuilder& function, Raw& raw, Instruction& x) {
  x.type = raw.modifiers.take_type();
  if (x.type == Type::none || raw.operands.size() != 2) raw.not_known();
  const std::string& from = raw.operands[1];
  const auto results = elements(raw.operands[0]), sources = elements(from);
  const size_t count = std::max(results.size(), sources.size());
  const bool vector = count > 1;
  if (vector && (std::min(results.size(), sources.size()) != 1 || count > 4 || is_float(x.type)))
    raw.not_known();
  x.count = static_cast<uint8_t>(count);
  for (size_t i = 0; i < results.size(); ++i)
    x.dst[i] = function.destination(results[i], raw.line());
  x.opcode = Opcode::compute;
  if (from.starts_with("%clock") || from.starts_with("%globaltimer")) {
    if (from.ends_with("_hi")) raw.not_known();
    x.opcode = from[1] == 'c' ? Opcode::clock : Opcode::time;
    return;
  }
  for (size_t i = 0; i < sources.size(); ++i)
    x.src[i] = function.source(sources[i], x.type, raw.line());
  x.compute = !vector ? &run_mov : results.size() > 1 ? &run_unpack : &run_pack;
}

}  // namespace

bool decode_compute(FunctionBuilder& function, Raw& raw, Instruction& x) {
  const std::string& opcode = raw.modifiers.opcode();
  const bool adds = opcode == "add" || opcode == "sub";
  const bool has_carry = raw.statement.text.find(".cc.") != std::string::npos;
  if (opcode == "addc" || opcode == "subc" || (adds && has_carry))
    decode_carry(function, raw, x);
  else if (const auto row = simple_rows().find(opcode); row != simple_rows().end())
    decode_simple(function, raw, x, row->second);
  else if (opcode == "mul" || opcode == "mad")
    decode_product(function, raw, x, opcode == "mad");
  else if (opcode == "shf")
    decode_funnel(function, raw, x);
  else if (opcode == "setp" || opcode == "set")
    decode_comparison(function, raw, x);
  else if (opcode == "slct")
    decode_slct(function, raw, x);
  else if (opcode == "testp")
    decode_testp(function, raw, x);
  else if (opcode == "cvt")
    decode_cvt(function, raw, x);
  else if (opcode == "mov")
    decode_mov(function, raw, x);
  else
    return false;
  return true;
}

}  // namespace ringwood::ptx
