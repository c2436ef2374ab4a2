// A function while it is read: what its names mean, and where its registers and constants lie.
//
// Names are scoped as PTX scopes them: a register or parameter that is declared between braces ends
// there. Registers and constants get slots in the order in which they are met; equal constants
// share one. finish() turns labels into indices.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/ptx/module.h"
#include "tests/ptx/reader/statements.h"

namespace ringwood::ptx {

// What names of a module mean to its functions.
struct ModuleNames {
  std::unordered_map<std::string, Symbol> symbols;  // variables; `slot` is not used
  std::unordered_map<std::string, uint32_t> functions;
};

class FunctionBuilder {
 public:
  FunctionBuilder(Function& function, const ModuleNames& names) : f_(function), names_(names) {}

  void open() { scopes_.emplace_back(); }
  void close() { scopes_.pop_back(); }
  void label(const std::string& name);
  // .reg, .param and .local; .branchtargets, which belong to the label before them.
  void declare(const Statement& statement);
  // A parameter or result of the function itself: ".param .align 8 .b8 name[24]".
  FrameBytes declare_param(const std::string& declaration, int line);
  void add(Instruction x, const std::string& text);
  void finish();

  // A register, "_" too; throws where the name is none.
  uint32_t destination(const std::string& name, int line);
  // A register, constant or symbol.
  uint32_t source(const std::string& text, Type type, int line);
  uint32_t constant(uint64_t value);
  // The condition code of add.cc and its like.
  uint32_t carry();
  int bits(uint32_t slot) const { return slot < bits_.size() ? bits_[slot] : 64; }
  // Bytes of the frame that a name stands for, where it is a parameter or result of a call.
  std::optional<FrameBytes> frame_bytes(const std::string& name) const;
  uint32_t function(const std::string& name, int line) const;
  uint32_t add_call(Call call);
  // The label's index when all is read.
  void branch_later(const std::string& label, int line);
  uint32_t table_named(const std::string& label, int line);

 private:
  struct Scope {
    std::unordered_map<std::string, uint32_t> registers;
    std::unordered_map<std::string, FrameBytes> params;
  };
  struct Pending {
    size_t instruction = 0;
    std::string label;
    int line = 0;
  };
  struct Table {
    std::vector<std::string> labels;
    int line = 0;
  };
  uint32_t new_slot(int bits, uint64_t value);
  void declare_registers(const std::string& text, int line);
  std::optional<uint32_t> register_named(const std::string& name) const;
  std::optional<uint32_t> symbol_named(const std::string& name);
  uint32_t code_index(const std::string& label, int line) const;

  Function& f_;
  const ModuleNames& names_;
  std::vector<Scope> scopes_ = {{}};
  std::vector<uint8_t> bits_;  // by slot
  std::unordered_map<uint64_t, uint32_t> constants_;
  uint32_t carry_ = kNoSlot;
  std::map<std::string, uint32_t> symbols_;    // slots of those that are used
  std::map<std::string, Symbol> own_symbols_;  // local variables, an entry's parameters
  std::map<std::string, uint32_t> labels_;
  std::map<std::string, Table> tables_;
  std::map<std::string, uint32_t> table_index_;
  std::vector<Pending> pending_;
  std::string last_label_;
};

// "0x1f", "-5", "010", "0b11", "7U", "0f3F800000", "0d3FF0000000000000", "1.5"; none: no number.
std::optional<uint64_t> number(const std::string& text, Type type);
// ".align 8 .b8 name[24]" after its state space: the name and its bytes.
struct Declared {
  std::string name;
  uint32_t align = 1, bytes = 0;
  Type type = Type::none;
};
Declared declared(const std::string& text, int line);
uint64_t aligned(uint64_t at, uint64_t align);

}  // namespace ringwood::ptx
