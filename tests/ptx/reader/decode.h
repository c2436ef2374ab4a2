// One statement of a function's body -> one instruction.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/ptx/reader/function_builder.h"

namespace ringwood::ptx {

// "ld.relaxed.sys.b64" as words, each of which is taken once. What nobody takes is not known.
class Modifiers {
 public:
  explicit Modifiers(const std::string& opcode) : words_(split(opcode, '.')) {}
  const std::string& opcode() const { return words_[0]; }
  // Whether the word is there; it is taken.
  bool take(std::string_view word);
  // The last word that is a type, taken; none: there is none.
  Type take_type();
  // The index of one of the names that is there, which is taken; -1: none.
  template <size_t N>
  int take_one(const std::string_view (&names)[N]) {
    for (size_t i = 0; i < N; ++i)
      if (take(names[i])) return static_cast<int>(i);
    return -1;
  }
  void drop_cache_hints();
  bool all_taken() const;

 private:
  std::vector<std::string> words_;
  size_t taken_ = 1;  // bits
};

// What is decoded: the statement, its modifiers and its operands.
struct Raw {
  Statement statement;
  Modifiers modifiers;
  std::vector<std::string> operands;
  int line() const { return statement.line; }
  [[noreturn]] void not_known(std::string_view why = "not known") const {
    ptx::not_known(statement.line, statement.text, why);
  }
};

// Adds it to the function. Throws Fault::unknown.
void decode(FunctionBuilder& function, const Statement& statement);

// Opcodes that use registers only (decode_compute.cc), and those of memory (decode_memory.cc):
// false where the opcode is none of theirs.
bool decode_compute(FunctionBuilder& function, Raw& raw, Instruction& x);
bool decode_memory(FunctionBuilder& function, Raw& raw, Instruction& x);

// "{%r1, %r2}" -> its elements; anything else is its own element.
std::vector<std::string> elements(const std::string& operand);

}  // namespace ringwood::ptx
