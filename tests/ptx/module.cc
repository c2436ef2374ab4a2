#include "tests/ptx/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/ptx/reader/decode.h"

namespace ringwood::ptx {
namespace {

struct TypeRow {
  std::string_view name;
  Type type;
  int bits;
};
constexpr TypeRow kTypes[] = {
    {"pred", Type::pred, 1}, {"b8", Type::b8, 8},        {"u8", Type::u8, 8},
    {"s8", Type::s8, 8},     {"b16", Type::b16, 16},     {"u16", Type::u16, 16},
    {"s16", Type::s16, 16},  {"f16", Type::f16, 16},     {"bf16", Type::bf16, 16},
    {"b32", Type::b32, 32},  {"u32", Type::u32, 32},     {"s32", Type::s32, 32},
    {"f32", Type::f32, 32},  {"f16x2", Type::f16x2, 32}, {"bf16x2", Type::bf16x2, 32},
    {"b64", Type::b64, 64},  {"u64", Type::u64, 64},     {"s64", Type::s64, 64},
    {"f64", Type::f64, 64}};

}  // namespace

int bits_of(Type type) {
  static constexpr int kBits[] = {0,  1,  8,  8,  8,  16, 16, 16, 16, 16,
                                  32, 32, 32, 32, 32, 32, 64, 64, 64, 64};
  return kBits[static_cast<size_t>(type)];
}
bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}
bool is_float(Type type) {
  switch (type) {
    case Type::f16:
    case Type::bf16:
    case Type::f32:
    case Type::f16x2:
    case Type::bf16x2:
    case Type::f64: return true;
    default: return false;
  }
}
Type type_named(std::string_view name) {
  const auto* row = std::ranges::find(kTypes, name, &TypeRow::name);
  return row == std::end(kTypes) ? Type::none : row->type;
}

// Reads a module from its beginning to its end.
class ModuleParser {
 public:
  ModuleParser(Module& module, std::string_view text)
      : m_(module), text_(without_comments(text)), reader_(text_) {}

  void parse() {
    Statement statement;
    while (reader_.next_outside(statement)) {
      if (statement.text.find(".func") != std::string::npos ||
          statement.text.find(".entry") != std::string::npos)
        read_function(statement);
      else
        read_variable(statement);
    }
    // What the launch adds lies behind all else.
    m_.shared_bytes_ = static_cast<uint32_t>(aligned(shared_, 16));
    for (Function& function : m_.functions_)
      for (Symbol& symbol : function.symbols)
        if (symbol.kind == Symbol::shared && symbol.offset == kExtern)
          symbol.offset = m_.shared_bytes_;
  }

 private:
  static constexpr uint64_t kExtern = ~uint64_t{0};

  void add_shared(const std::string& declaration, int line) {
    const Declared d = declared(declaration, line);
    if (d.bytes == 0) {
      names_.symbols[d.name] = {Symbol::shared, 0, kExtern};
      return;
    }
    shared_ = aligned(shared_, d.align);
    names_.symbols[d.name] = {Symbol::shared, 0, shared_};
    shared_ += d.bytes;
  }

  // ".visible .global .align 4 .u32 counter = 7", ".const .align 4 .b8 table[64]".
  void read_variable(const Statement& statement) {
    std::string text = statement.text;
    for (const std::string_view linkage : {".extern ", ".visible ", ".weak ", ".common "})
      if (text.starts_with(linkage)) text = trimmed(std::string_view(text).substr(linkage.size()));
    if (text.starts_with(".shared ")) return add_shared(text.substr(8), statement.line);
    if (text.empty() || text.starts_with(".pragma")) return;
    const bool constant = text.starts_with(".const ");
    if (!constant && !text.starts_with(".global ")) not_known(statement.line, statement.text);
    const size_t equal = std::min(text.find('='), text.size());
    const size_t begin = text.find(' ');
    const Declared d = declared(text.substr(begin, equal - begin), statement.line);
    Variable variable{d.name, constant ? Space::constant : Space::global,
                      std::vector<uint8_t>(d.bytes)};
    if (equal < text.size()) {
      size_t at = 0;
      for (const std::string& value : elements(trimmed(std::string_view(text).substr(equal + 1)))) {
        const auto bits = number(value, d.type);
        if (!bits) not_known(statement.line, statement.text);
        for (int i = 0; i < bits_of(d.type) / 8 && at < d.bytes; ++i)
          variable.initial[at++] = static_cast<uint8_t>(*bits >> (8 * i));
      }
    }
    names_.symbols[d.name] = {Symbol::variable, 0, m_.variables_.size()};
    m_.variables_.push_back(std::move(variable));
  }

  static size_t after_brackets(const std::string& text, size_t open) {
    return std::min(text.find(')', open), text.size() - 1) + 1;
  }

  // ".func (.param .b32 r) name (.param .b64 a, ...)" or ".visible .entry name(...) .maxntid 512".
  void read_function(const Statement& header) {
    const std::string& text = header.text;
    const bool entry = text.find(".entry") != std::string::npos;
    size_t at = text.find(entry ? ".entry" : ".func") + (entry ? 6 : 5);
    while (at < text.size() && text[at] == ' ') ++at;
    std::string result;
    if (at < text.size() && text[at] == '(') {
      const size_t end = after_brackets(text, at);
      result = text.substr(at + 1, end - at - 2);
      at = end;
    }
    const size_t open = text.find('(', at);
    const std::string name =
        split(std::string_view(text).substr(at, open == std::string::npos ? open : open - at), ' ')
            .at(0);
    const auto [found, is_new] =
        names_.functions.try_emplace(name, static_cast<uint32_t>(m_.functions_.size()));
    if (is_new) m_.functions_.emplace_back();
    m_.index_[name] = found->second;
    if (header.kind == Statement::plain) return;  // a declaration: the body comes later
    Function f;
    f.name = name;
    f.entry = entry;
    FunctionBuilder builder(f, names_);
    if (!trimmed(result).empty()) f.result = builder.declare_param(trimmed(result), header.line);
    if (open != std::string::npos)
      for (const std::string& param : split(
               std::string_view(text).substr(open + 1, after_brackets(text, open) - open - 2), ','))
        f.params.push_back(builder.declare_param(param, header.line));
    builder.open();
    read_body(builder);
    m_.functions_[found->second] = std::move(f);
  }

  void read_body(FunctionBuilder& builder) {
    int depth = 1;
    Statement statement;
    while (depth > 0) {
      if (!reader_.next_inside(statement)) not_known(statement.line, "", "no end of a function");
      if (statement.kind == Statement::open) {
        ++depth;
        builder.open();
      } else if (statement.kind == Statement::close) {
        --depth;
        builder.close();
      } else if (statement.kind == Statement::label) {
        builder.label(statement.text);
      } else if (statement.text.starts_with(".shared ")) {
        add_shared(statement.text.substr(8), statement.line);
      } else if (statement.text[0] == '.') {
        builder.declare(statement);
      } else {
        decode(builder, statement);
      }
    }
    builder.finish();
  }

  Module& m_;
  std::string text_;
  StatementReader reader_;
  ModuleNames names_;
  uint64_t shared_ = 0;
};

Module::Module(std::string_view text) { ModuleParser(*this, text).parse(); }

const Function& Module::function(const std::string& name) const {
  const Function& f = functions_.at(index_.at(name));
  if (!f.defined) throw std::out_of_range("function without a body: " + name);
  return f;
}

std::vector<std::string> Module::kernels() const {
  std::vector<std::string> names;
  for (const Function& f : functions_)
    if (f.entry && f.defined) names.push_back(f.name);
  return names;
}

std::string read_ptx(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(fmt::format("cannot read {}", path));
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace ringwood::ptx
