// PTX text as statements, before anything is known about them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/ptx/module.h"

namespace ringwood::ptx {

struct Statement {
  enum Kind { plain, open, close, label };
  Kind kind = plain;
  std::string text;  // without its end; blanks are single
  int line = 0;      // where it begins
};

// Comments and debug lines as blanks, so that lines keep their numbers.
std::string without_comments(std::string_view text);

// Cuts text into statements, one after the other, from where it stands.
class StatementReader {
 public:
  explicit StatementReader(std::string_view text) : text_(text) {}
  // Outside functions: up to a semicolon, or the brace that opens a body (kind open, with the
  // header as its text). False at the end.
  bool next_outside(Statement& statement);
  // Inside one: also braces and labels by themselves.
  bool next_inside(Statement& statement);

 private:
  void skip_blanks();
  void add(std::string& text, char c);
  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

std::string trimmed(std::string_view text);
// Pieces between separators that are in no bracket.
std::vector<std::string> split(std::string_view text, char separator);
[[noreturn]] void not_known(int line, std::string_view text, std::string_view why = "not known");

}  // namespace ringwood::ptx
