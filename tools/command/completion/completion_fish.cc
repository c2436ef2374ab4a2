#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "tools/command/completion/completion.h"

namespace ringwood::tools {
namespace {

std::string shell_quoted(std::string text) {
  for (const char* special : {"\\", "'"})
    text = CLI::detail::find_and_replace(text, special, std::string("\\") + special);
  return "'" + text + "'";
}

// What completes a value, for `complete`; "" for a flag.
std::string completing(const ArgumentDoc& argument) {
  const Values& values = argument.values;
  const bool option = !argument.names.empty();
  const bool paths = values.files || values.folders;
  std::string text;
  if (argument.type.empty()) return text;
  if (option && argument.needs_value) text += paths ? " -r -F" : " -x";
  if (!option && paths) text += " -F";
  const std::string words = fmt::format("{}", fmt::join(values.words, " "));
  if (values.algorithms) {
    text += " -a '(__ringwood_algorithms)'";
  } else if (!words.empty()) {
    text += " -a " + shell_quoted(values.list ? "(__fish_complete_list , \"string split ' ' '" +
                                                    words + "'\")"
                                              : words);
  }
  return text;
}

std::string print(const CommandDoc& command) {
  const std::string begin =
      fmt::format("complete -c ringwood -n '__ringwood_at {}'",
                  fmt::join(command.path.begin() + 1, command.path.end(), " "));
  std::string text;
  for (const CommandDoc& below : command.commands)
    text += fmt::format("{} -a {} -d {}\n", begin, below.name(), shell_quoted(below.description));
  for (const ArgumentDoc& position : command.positions)
    if (const std::string values = completing(position); !values.empty())
      text += begin + values + "\n";
  for (const ArgumentDoc& option : command.options) {
    text += begin;
    for (const std::string& name : option.names)
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    text += completing(option) + " -d " + shell_quoted(option.description) + "\n";
  }
  return text;
}

constexpr const char* kPath = R"fish(
# The subcommands on the line: "schedule draw".
function __ringwood_path
    set -l path
    set -l words (commandline -opc)
    set -e words[1]
    for word in $words
        set -l path_and_word "$path $word"
        if contains -- (string trim -- $path_and_word) $__ringwood_paths
            set path (string trim -- $path_and_word)
        end
    end
    echo "$path"
end
function __ringwood_at
    test (__ringwood_path) = "$argv"
end
)fish";

std::string algorithms_function() {
  std::string cases;
  for (const std::string& collective : collective_names())
    cases += fmt::format(
        "            case {}\n                string split ' ' '{}'\n                return\n",
        collective, fmt::join(algorithm_names(collective), " "));
  return fmt::format(
      "function __ringwood_algorithms\n    for word in (commandline -opc)\n"
      "        switch $word\n{}        end\n    end\n    string split ' ' '{}'\nend\n",
      cases, fmt::join(algorithm_names(), " "));
}

}  // namespace

std::string fish_completion(const CommandDoc& root) {
  std::string text = "# Completes `ringwood` in fish. Made by `ringwood completion fish`.\n";
  text += "set -g __ringwood_paths";
  for (const CommandDoc* command : all_of(root))
    if (command->path.size() > 1) text += " " + shell_quoted(command->below_root());
  text += "\n" + std::string(kPath).substr(1) + algorithms_function() + "complete -c ringwood -f\n";
  for (const CommandDoc* command : all_of(root)) text += print(*command);
  return text;
}

}  // namespace ringwood::tools
