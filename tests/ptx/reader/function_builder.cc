#include "tests/ptx/reader/function_builder.h"

#include <bit>
#include <cctype>
#include <cstdlib>

namespace ringwood::ptx {
namespace {

// What is in a register before its first use: nothing to rely on, but the same in every run.
uint64_t rubbish(size_t slot, int bits) {
  const uint64_t value = (slot + 1) * 0x9e3779b97f4a7c15u;
  return bits >= 64 ? value : value >> 7 & ((uint64_t{1} << bits) - 1);
}

const std::map<std::string, Symbol::Kind>& special_registers() {
  static const std::map<std::string, Symbol::Kind> all = {
      {"%tid.x", Symbol::tid},       {"%ntid.x", Symbol::ntid},   {"%ctaid.x", Symbol::ctaid},
      {"%nctaid.x", Symbol::nctaid}, {"%laneid", Symbol::laneid}, {"%warpid", Symbol::warpid}};
  return all;
}

}  // namespace

uint64_t aligned(uint64_t at, uint64_t align) { return (at + align - 1) / align * align; }

std::optional<uint64_t> number(const std::string& text, Type type) {
  if (text.empty()) return std::nullopt;
  const size_t first = text[0] == '-' || text[0] == '+' ? 1 : 0;
  if (first >= text.size() || std::isdigit(static_cast<unsigned char>(text[first])) == 0)
    return std::nullopt;
  const std::string prefix = text.substr(0, 2);
  if (prefix == "0f" || prefix == "0F" || prefix == "0d" || prefix == "0D") {
    const uint64_t bits = std::strtoull(text.c_str() + 2, nullptr, 16);
    const bool narrow = prefix[1] == 'f' || prefix[1] == 'F';
    if (narrow && type == Type::f64)
      return std::bit_cast<uint64_t>(double{std::bit_cast<float>(static_cast<uint32_t>(bits))});
    return bits;
  }
  const bool hexadecimal = prefix == "0x" || prefix == "0X";
  if (!hexadecimal && text.find_first_of(".eE") != std::string::npos) {
    const double value = std::strtod(text.c_str(), nullptr);
    if (type == Type::f64) return std::bit_cast<uint64_t>(value);
    return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
  char* end = nullptr;
  const bool binary = prefix == "0b" || prefix == "0B";
  const uint64_t value = binary ? std::strtoull(text.c_str() + 2, &end, 2)
                                : std::strtoull(text.c_str(), &end, 0);  // wraps a minus
  if (*end == 'U') ++end;
  if (*end != '\0') return std::nullopt;
  if (type == Type::f32)
    return std::bit_cast<uint32_t>(static_cast<float>(static_cast<int64_t>(value)));
  if (type == Type::f64)
    return std::bit_cast<uint64_t>(static_cast<double>(static_cast<int64_t>(value)));
  return value;
}

Declared declared(const std::string& text, int line) {
  Declared d;
  size_t elements = 1;
  const std::vector<std::string> words = split(text, ' ');
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == ".align" && i + 1 < words.size()) {
      d.align = static_cast<uint32_t>(std::stoul(words[++i]));
    } else if (word == ".ptr" || word == ".noalias" || word == ".visible" || word == ".weak") {
      continue;
    } else if (word == ".global" || word == ".shared" || word == ".const" || word == ".local") {
      continue;  // what a pointer parameter points to
    } else if (word[0] == '.') {
      d.type = type_named(word.substr(1));
      if (d.type == Type::none) not_known(line, text);
    } else {
      const size_t bracket = word.find('[');
      d.name = word.substr(0, bracket);
      if (bracket != std::string::npos)
        elements = word[bracket + 1] == ']' ? 0 : std::stoul(word.substr(bracket + 1));
    }
  }
  if (d.name.empty() || d.type == Type::none) not_known(line, text);
  const uint32_t size = static_cast<uint32_t>(bits_of(d.type)) / 8;
  d.bytes = static_cast<uint32_t>(elements * size);
  d.align = std::max(d.align, size);
  return d;
}

uint32_t FunctionBuilder::new_slot(int bits, uint64_t value) {
  f_.initial.push_back(value);
  bits_.push_back(static_cast<uint8_t>(bits));
  return static_cast<uint32_t>(f_.initial.size() - 1);
}

void FunctionBuilder::label(const std::string& name) {
  labels_[name] = static_cast<uint32_t>(f_.code.size());
  last_label_ = name;
}

void FunctionBuilder::declare_registers(const std::string& text, int line) {
  const size_t space = text.find(' ');
  const Type type = type_named(text.substr(1, space - 1));
  if (type == Type::none || space == std::string::npos) not_known(line, text);
  const int bits = bits_of(type);
  const auto add_register = [&](const std::string& name) {
    const size_t slot = f_.initial.size();
    scopes_.back().registers[name] = new_slot(bits, rubbish(slot, bits));
  };
  for (const std::string& name : split(text.substr(space), ',')) {
    const size_t many = name.find('<');
    if (many == std::string::npos) {
      add_register(name);
      continue;
    }
    const unsigned long count = std::stoul(name.substr(many + 1));
    for (unsigned long i = 0; i < count; ++i)
      add_register(name.substr(0, many) + std::to_string(i));
  }
}

void FunctionBuilder::declare(const Statement& statement) {
  const std::string& text = statement.text;
  const std::string rest = trimmed(text.substr(std::min(text.find(' '), text.size())));
  if (text.starts_with(".reg ")) {
    declare_registers(rest, statement.line);
  } else if (text.starts_with(".local ")) {
    const Declared d = declared(rest, statement.line);
    const uint64_t at = aligned(f_.local_bytes, d.align);
    own_symbols_[d.name] = {Symbol::local, 0, at};
    f_.local_bytes = static_cast<uint32_t>(at + d.bytes);
  } else if (text.starts_with(".param ")) {
    declare_param(text, statement.line);
  } else if (text.starts_with(".branchtargets ")) {
    tables_[last_label_] = {split(rest, ','), statement.line};
  } else if (!text.starts_with(".pragma")) {
    not_known(statement.line, text);
  }
}

FrameBytes FunctionBuilder::declare_param(const std::string& declaration, int line) {
  const Declared d = declared(trimmed(declaration.substr(std::string(".param").size())), line);
  uint32_t& end = f_.entry && scopes_.size() == 1 ? f_.param_bytes : f_.frame_bytes;
  const FrameBytes bytes{static_cast<uint32_t>(aligned(end, d.align)), d.bytes};
  end = bytes.at + bytes.bytes;
  if (&end == &f_.param_bytes)
    own_symbols_[d.name] = {Symbol::param, 0, bytes.at};
  else
    scopes_.back().params[d.name] = bytes;
  return bytes;
}

void FunctionBuilder::add(Instruction x, const std::string& text) {
  f_.code.push_back(x);
  f_.texts.push_back(text);
}

std::optional<uint32_t> FunctionBuilder::register_named(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const auto found = scope->registers.find(name); found != scope->registers.end())
      return found->second;
  return std::nullopt;
}

std::optional<FrameBytes> FunctionBuilder::frame_bytes(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const auto found = scope->params.find(name); found != scope->params.end())
      return found->second;
  return std::nullopt;
}

uint32_t FunctionBuilder::destination(const std::string& name, int line) {
  if (name == "_") return new_slot(64, 0);
  const std::optional<uint32_t> slot = register_named(name);
  if (!slot) not_known(line, name, "no such register");
  return *slot;
}

uint32_t FunctionBuilder::constant(uint64_t value) {
  const auto [found, is_new] = constants_.try_emplace(value, 0);
  if (is_new) found->second = new_slot(64, value);
  return found->second;
}

uint32_t FunctionBuilder::carry() {
  if (carry_ == kNoSlot) carry_ = new_slot(1, 0);
  return carry_;
}

std::optional<uint32_t> FunctionBuilder::symbol_named(const std::string& name) {
  if (const auto used = symbols_.find(name); used != symbols_.end()) return used->second;
  Symbol symbol;
  const auto& special = special_registers();
  if (const auto own = own_symbols_.find(name); own != own_symbols_.end())
    symbol = own->second;
  else if (const auto global = names_.symbols.find(name); global != names_.symbols.end())
    symbol = global->second;
  else if (const auto one = special.find(name); one != special.end())
    symbol.kind = one->second;
  else
    return std::nullopt;
  symbol.slot = new_slot(64, 0);
  f_.symbols.push_back(symbol);
  symbols_[name] = symbol.slot;
  return symbol.slot;
}

uint32_t FunctionBuilder::source(const std::string& text, Type type, int line) {
  if (const auto slot = register_named(text)) return *slot;
  if (const auto value = number(text, type)) return constant(*value);
  if (const auto slot = symbol_named(text)) return *slot;
  if (text == "WARP_SZ") return constant(32);
  // A block is a line of threads, and so is a launch of blocks.
  for (const char* name : {"%tid.y", "%tid.z", "%ctaid.y", "%ctaid.z"})
    if (text == name) return constant(0);
  for (const char* name : {"%ntid.y", "%ntid.z", "%nctaid.y", "%nctaid.z"})
    if (text == name) return constant(1);
  not_known(line, text, "no such register, number or symbol");
}

uint32_t FunctionBuilder::function(const std::string& name, int line) const {
  const auto found = names_.functions.find(name);
  if (found == names_.functions.end()) not_known(line, name, "no such function");
  return found->second;
}

uint32_t FunctionBuilder::add_call(Call call) {
  f_.calls.push_back(std::move(call));
  return static_cast<uint32_t>(f_.calls.size() - 1);
}

void FunctionBuilder::branch_later(const std::string& label, int line) {
  pending_.push_back({f_.code.size(), label, line});
}

uint32_t FunctionBuilder::table_named(const std::string& label, int line) {
  if (!tables_.contains(label)) not_known(line, label, "no such table of branches");
  const auto [found, is_new] =
      table_index_.try_emplace(label, static_cast<uint32_t>(table_index_.size()));
  return found->second;
}

uint32_t FunctionBuilder::code_index(const std::string& label, int line) const {
  const auto found = labels_.find(label);
  if (found == labels_.end()) not_known(line, label, "no such label");
  return found->second;
}

void FunctionBuilder::finish() {
  for (const Pending& branch : pending_)
    f_.code[branch.instruction].offset = code_index(branch.label, branch.line);
  f_.tables.resize(table_index_.size());
  for (const auto& [name, index] : table_index_)
    for (const std::string& label : tables_[name].labels)
      f_.tables[index].push_back(code_index(label, tables_[name].line));
  Instruction end;  // of a text that ends without ret
  end.opcode = Opcode::ret;
  add(end, "the end of " + f_.name);
  f_.defined = true;
}

}  // namespace ringwood::ptx
