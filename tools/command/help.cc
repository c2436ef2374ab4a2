#include "tools/command/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

namespace ringwood::tools {
namespace {

// Beyond this column what an example is for stands on the line above it.
constexpr size_t kMaxColumn = 72;

std::string print(const std::vector<Example>& examples) {
  size_t column = 0;
  for (const Example& example : examples) column = std::max(column, example.line.size());
  const bool beside = column <= kMaxColumn;
  std::string text = "EXAMPLES:\n";
  for (const auto& [line, what] : examples) {
    if (what.empty())
      text += fmt::format("  {}\n", line);
    else if (beside)
      text += fmt::format("  {:<{}}   # {}\n", line, column, what);
    else
      text += fmt::format("  # {}\n  {}\n", what, line);
  }
  return text;
}

// By command; the parser has no place for it.
std::map<const CLI::App*, int>& bad_input_codes() {
  static auto* codes = new std::map<const CLI::App*, int>;
  return *codes;
}

}  // namespace

const std::vector<ExitCode>& usual_exit_codes() {
  static const auto* codes = new std::vector<ExitCode>{
      {0, "all is well"}, {1, "a result is wrong, or a run failed"}, {2, kBadInput}};
  return *codes;
}

void add_help(CLI::App& command, const std::vector<Example>& examples,
              const std::vector<ExitCode>& codes) {
  std::string text = print(examples) + "\nEXIT CODES:\n";
  for (const auto& [code, when] : codes) text += fmt::format("  {}  {}\n", code, when);
  text.pop_back();
  command.footer(text);
  for (const auto& [code, when] : codes)
    if (when == kBadInput) bad_input_codes()[&command] = code;
}

int code_of_bad_input(const CLI::App& command) {
  const auto found = bad_input_codes().find(&command);
  return found == bad_input_codes().end() ? 2 : found->second;
}

}  // namespace ringwood::tools
