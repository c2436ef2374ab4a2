#include "tests/ptx/reader/statements.h"

#include <fmt/format.h>

#include <cctype>

namespace ringwood::ptx {
namespace {

bool blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// Directives that end with their line.
bool ends_with_line(std::string_view line) {
  for (const std::string_view word : {".version", ".target", ".address_size", ".loc", ".file"})
    if (line.starts_with(word) && line.size() > word.size() && blank(line[word.size()]))
      return true;
  return false;
}

}  // namespace

std::string without_comments(std::string_view text) {
  std::string out(text);
  size_t line_start = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == '\n') line_start = i + 1;
    if (out.compare(i, 2, "//") == 0) {
      while (i < out.size() && out[i] != '\n') out[i++] = ' ';
      line_start = i + 1;
    } else if (out.compare(i, 2, "/*") == 0) {
      const size_t end = std::min(out.find("*/", i + 2), out.size() - 2) + 2;
      for (; i < end; ++i)
        if (out[i] != '\n') out[i] = ' ';
      --i;
    } else if (out[i] == '.' &&
               trimmed(std::string_view(out).substr(line_start, i - line_start)).empty()) {
      if (ends_with_line(std::string_view(out).substr(i)))
        while (i + 1 < out.size() && out[i] != '\n') out[i++] = ' ';
      if (i < out.size() && out[i] == '\n') line_start = i + 1;
    }
  }
  return out;
}

void StatementReader::skip_blanks() {
  for (; at_ < text_.size() && blank(text_[at_]); ++at_) line_ += text_[at_] == '\n';
}

void StatementReader::add(std::string& text, char c) {
  line_ += c == '\n';
  if (!blank(c))
    text += c;
  else if (!text.empty() && text.back() != ' ')
    text += ' ';
}

bool StatementReader::next_outside(Statement& statement) {
  skip_blanks();
  statement = {Statement::plain, "", line_};
  if (at_ >= text_.size()) return false;
  bool initialised = false;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    initialised |= c == '=';
    if (c == ';' || (c == '{' && !initialised)) {
      statement.kind = c == '{' ? Statement::open : Statement::plain;
      ++at_;
      statement.text = trimmed(statement.text);
      return true;
    }
    add(statement.text, c);
  }
  not_known(statement.line, statement.text, "no end of");
}

bool StatementReader::next_inside(Statement& statement) {
  skip_blanks();
  while (at_ < text_.size() && text_[at_] == ';') ++at_, skip_blanks();
  statement = {Statement::plain, "", line_};
  if (at_ >= text_.size()) return false;
  if (text_[at_] == '{' || text_[at_] == '}') {
    statement.kind = text_[at_++] == '{' ? Statement::open : Statement::close;
    return true;
  }
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    const bool twice =
        c == ':' && (text_.substr(at_ + 1, 1) == ":" || statement.text.ends_with(':'));
    const bool is_label = c == ':' && !twice && statement.text.find(' ') == std::string::npos;
    if (c == ';' || is_label) {
      statement.kind = is_label ? Statement::label : Statement::plain;
      ++at_;
      statement.text = trimmed(statement.text);
      return true;
    }
    add(statement.text, c);
  }
  not_known(statement.line, statement.text, "no end of");
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return std::string(text);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : separator;
    depth += c == '{' || c == '[' || c == '(';
    depth -= c == '}' || c == ']' || c == ')';
    if (i < text.size() && (c != separator || depth > 0)) continue;
    std::string piece = trimmed(text.substr(begin, i - begin));
    if (!piece.empty()) pieces.push_back(std::move(piece));
    begin = i + 1;
  }
  return pieces;
}

void not_known(int line, std::string_view text, std::string_view why) {
  throw Fault(Fault::unknown, fmt::format("line {}: {}: {}", line, why, text));
}

}  // namespace ringwood::ptx
