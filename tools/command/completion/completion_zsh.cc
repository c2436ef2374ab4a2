#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "tools/command/completion/completion.h"

namespace ringwood::tools {
namespace {

using CLI::detail::find_and_replace;

std::string shell_quoted(const std::string& text) {
  return "'" + find_and_replace(text, "'", "'\\''") + "'";
}

// In a specification of _arguments.
std::string escaped(std::string text) {
  for (const char* special : {"\\", "[", "]", ":"})
    text = find_and_replace(text, special, std::string("\\") + special);
  return text;
}

std::string function_of(const CommandDoc& command) {
  return "_ringwood_" + find_and_replace(command.below_root(), " ", "_");
}

// What completes a value: an action of _arguments.
std::string action_of(const Values& values) {
  if (values.algorithms) return "__ringwood_algorithms";
  const std::string words = fmt::format("{}", fmt::join(values.words, " "));
  if (values.list) return fmt::format("_values -s , value {}", words);
  std::string files;
  if (values.files) files = "_files";
  if (values.folders) files = "_files -/";
  if (values.words.empty()) return files.empty() ? " " : files;
  return files.empty() ? "(" + words + ")" : "{compadd - " + words + "; " + files + "}";
}

std::string message_of(const ArgumentDoc& argument) {
  const std::string name = argument.position_name.empty() ? argument.type : argument.position_name;
  return escaped(name.substr(0, name.find(':')));
}

std::string specification(const ArgumentDoc& option) {
  std::string rest = "[" + escaped(option.description) + "]";
  if (!option.type.empty())
    rest += (option.needs_value ? ":" : "::") + message_of(option) + ":" + action_of(option.values);
  if (option.names.size() == 1) return shell_quoted(option.names[0] + rest);
  return fmt::format("'({})'{{{}}}{}", fmt::join(option.names, " "), fmt::join(option.names, ","),
                     shell_quoted(rest));
}

std::string print(const CommandDoc& command) {
  std::string text = function_of(command) + "() {\n";
  std::vector<std::string> specifications;
  for (const ArgumentDoc& option : command.options) specifications.push_back(specification(option));
  for (size_t i = 0; i < command.positions.size(); ++i) {
    const ArgumentDoc& position = command.positions[i];
    const std::string number = position.repeats ? "*" : fmt::format("{}", i + 1);
    specifications.push_back(
        shell_quoted(number + ":" + message_of(position) + ":" + action_of(position.values)));
  }
  if (command.commands.empty())
    return text + fmt::format("  _arguments -s : \\\n    {}\n}}\n\n",
                              fmt::join(specifications, " \\\n    "));
  specifications.insert(specifications.end(), {"'1: :->command'", "'*:: :->rest'"});
  text += "  local state line\n  local -a commands=(\n";
  std::string cases;
  for (const CommandDoc& below : command.commands) {
    text += "    " +
            shell_quoted(below.name() + ":" + find_and_replace(below.description, ":", "\\:")) +
            "\n";
    cases += fmt::format("        {}) {} ;;\n", below.name(), function_of(below));
  }
  return text + fmt::format(
                    "  )\n  _arguments -C : \\\n    {}\n"
                    "  case $state in\n"
                    "    command) _describe command commands ;;\n"
                    "    rest)\n      case $words[1] in\n{}      esac\n      ;;\n"
                    "  esac\n}}\n\n",
                    fmt::join(specifications, " \\\n    "), cases);
}

std::string algorithms_function() {
  std::string cases;
  for (const std::string& collective : collective_names())
    cases += fmt::format("      {}) compadd - {}; return ;;\n", collective,
                         fmt::join(algorithm_names(collective), " "));
  return fmt::format(
      "__ringwood_algorithms() {{\n  local word\n  for word in $ringwood_line; do\n"
      "    case $word in\n{}    esac\n  done\n  compadd - {}\n}}\n\n",
      cases, fmt::join(algorithm_names(), " "));
}

}  // namespace

std::string zsh_completion(const CommandDoc& root) {
  std::string text =
      "#compdef ringwood\n# Completes `ringwood` in zsh. Made by `ringwood completion zsh`.\n\n";
  text += algorithms_function();
  for (const CommandDoc* command : all_of(root)) text += print(*command);
  // Loaded by its name from $fpath it is called at once; `source`d it only declares itself.
  return text +
         "_ringwood() {\n  local -a ringwood_line=($words)\n  _ringwood_\n}\n\n"
         "if [[ $funcstack[1] == _ringwood ]]; then\n  _ringwood \"$@\"\nelse\n"
         "  compdef _ringwood ringwood\nfi\n";
}

}  // namespace ringwood::tools
