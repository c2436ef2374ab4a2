#include "tests/ptx/reader/decode.h"

namespace ringwood::ptx {
namespace {

void decode_branch(FunctionBuilder& function, Raw& raw, Instruction& x) {
  raw.modifiers.take("uni");
  if (raw.modifiers.take("idx")) {
    if (raw.operands.size() != 2) raw.not_known();
    x.opcode = Opcode::branch_table;
    x.src[0] = function.source(raw.operands[0], Type::u32, raw.line());
    x.offset = function.table_named(raw.operands[1], raw.line());
    return;
  }
  if (raw.operands.size() != 1) raw.not_known();
  x.opcode = Opcode::branch;
  function.branch_later(raw.operands[0], raw.line());
}

// "(result), name, (arguments)", of which result and arguments may be missing.
void decode_call(FunctionBuilder& function, Raw& raw, Instruction& x) {
  raw.modifiers.take("uni");
  Call call;
  size_t at = 0;
  const auto inner = [&](const std::string& operand) {
    return split(std::string_view(operand).substr(1, operand.size() - 2), ',');
  };
  const auto bytes = [&](const std::string& name) {
    const auto found = function.frame_bytes(name);
    if (!found) raw.not_known("no such parameter");
    return found->at;
  };
  if (raw.operands.empty()) raw.not_known();
  if (raw.operands[at][0] == '(') {
    const auto results = inner(raw.operands[at++]);
    if (results.size() != 1 || raw.operands.size() < 2) raw.not_known();
    call.result = bytes(results[0]);
  }
  call.function = function.function(raw.operands[at++], raw.line());
  if (at < raw.operands.size())
    for (const std::string& argument : inner(raw.operands[at]))
      call.arguments.push_back(bytes(argument));
  x.opcode = Opcode::call;
  x.offset = function.add_call(std::move(call));
}

// bar.sync a{, b}; bar.red.op.type d, a{, b}, {!}p; bar.warp.sync mask. bar.arrive is not known.
void decode_barrier(FunctionBuilder& function, Raw& raw, Instruction& x) {
  raw.modifiers.take("cta");
  raw.modifiers.take("aligned");
  const bool warp = raw.modifiers.take("warp");
  std::vector<std::string>& operands = raw.operands;
  x.opcode = warp ? Opcode::warp_barrier : Opcode::barrier;
  if (!warp && raw.modifiers.take("red")) {
    constexpr std::string_view kVotes[] = {"popc", "and", "or"};
    x.vote = static_cast<Vote>(raw.modifiers.take_one(kVotes) + 1);
    x.type = raw.modifiers.take_type();
    const Type result = x.vote == Vote::count ? Type::u32 : Type::pred;
    if (x.vote == Vote::none || x.type != result || operands.size() < 3) raw.not_known();
    x.negated_source = operands.back()[0] == '!';
    x.dst[0] = function.destination(operands.front(), raw.line());
    x.src[2] =
        function.source(operands.back().substr(x.negated_source ? 1 : 0), Type::pred, raw.line());
    operands.erase(operands.begin());
    operands.pop_back();
  } else if (!raw.modifiers.take("sync")) {
    raw.not_known();
  }
  if (operands.empty() || operands.size() > 2) raw.not_known();
  x.src[0] = function.source(operands[0], Type::u32, raw.line());
  x.src[1] = operands.size() > 1 ? function.source(operands[1], Type::u32, raw.line())
                                 : function.constant(0);
}

bool decode_control(FunctionBuilder& function, Raw& raw, Instruction& x) {
  const std::string& opcode = raw.modifiers.opcode();
  if (opcode == "bra" || opcode == "brx") {
    decode_branch(function, raw, x);
  } else if (opcode == "call") {
    decode_call(function, raw, x);
  } else if (opcode == "bar" || opcode == "barrier") {
    decode_barrier(function, raw, x);
  } else if (opcode == "ret") {
    raw.modifiers.take("uni");
    x.opcode = Opcode::ret;
  } else if (opcode == "exit") {
    x.opcode = Opcode::exit;
  } else if (opcode == "trap") {
    x.opcode = Opcode::trap;
  } else if (opcode == "nanosleep") {
    raw.modifiers.take("u32");
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool Modifiers::take(std::string_view word) {
  for (size_t i = 1; i < words_.size(); ++i)
    if ((taken_ >> i & 1) == 0 && words_[i] == word) {
      taken_ |= size_t{1} << i;
      return true;
    }
  return false;
}

Type Modifiers::take_type() {
  for (size_t i = words_.size(); i-- > 1;) {
    const Type type = (taken_ >> i & 1) == 0 ? type_named(words_[i]) : Type::none;
    if (type == Type::none) continue;
    taken_ |= size_t{1} << i;
    return type;
  }
  return Type::none;
}

void Modifiers::drop_cache_hints() {
  constexpr std::string_view kHints[] = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc"};
  while (take_one(kHints) >= 0) continue;
  for (size_t i = 1; i < words_.size(); ++i)
    if (words_[i].starts_with("L1::") || words_[i].starts_with("L2::")) taken_ |= size_t{1} << i;
}

bool Modifiers::all_taken() const { return taken_ == (size_t{1} << words_.size()) - 1; }

std::vector<std::string> elements(const std::string& operand) {
  if (operand[0] != '{') return {operand};
  return split(std::string_view(operand).substr(1, operand.size() - 2), ',');
}

void decode(FunctionBuilder& function, const Statement& statement) {
  Instruction x;
  x.line = statement.line;
  std::string rest = statement.text;
  if (rest[0] == '@') {
    const size_t end = std::min(rest.find(' '), rest.size());
    x.negated = rest[1] == '!';
    const size_t begin = x.negated ? 2 : 1;
    x.guard = function.destination(rest.substr(begin, end - begin), x.line);
    rest = trimmed(std::string_view(rest).substr(end));
  }
  const size_t end = std::min(rest.find(' '), rest.size());
  if (end == 0) not_known(statement.line, statement.text);
  Raw raw{statement, Modifiers(rest.substr(0, end)),
          split(std::string_view(rest).substr(end), ',')};
  const bool known = decode_control(function, raw, x) || decode_memory(function, raw, x) ||
                     decode_compute(function, raw, x);
  if (!known || !raw.modifiers.all_taken()) raw.not_known();
  function.add(x, statement.text);
}

}  // namespace ringwood::ptx
