#include "tools/command/refusal.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <regex>
#include <utility>
#include <vector>

#include "tools/command/help.h"
#include "transports/base/knobs/nearest.h"

namespace ringwood::tools {
namespace {

const CLI::App& innermost(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen[0]);
}

std::string path_of(const CLI::App& app) {
  return app.get_parent() ? path_of(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options({})) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// Where the parser's words say little to those who do not know it: "touch was given a disallowed
// flag override", "--ranks: 1 required N missing".
std::string sentence_of(const std::string& what) {
  static const std::regex kValue("([^ ]+) was given a disallowed flag override");
  static const std::regex kNoValue("(-[^ ]+): 1 required (.+) missing");
  std::smatch found;
  if (std::regex_match(what, found, kValue))
    return fmt::format("--{} takes no value", found[1].str());
  if (std::regex_match(what, found, kNoValue))
    return fmt::format("{} needs a value: {} {}", found[1].str(), found[1].str(), found[2].str());
  return what;
}

}  // namespace

std::string reason_of(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> extra = app.remaining(/*recurse=*/true);
  const int code = error.get_exit_code();
  const bool superfluous = code == static_cast<int>(CLI::ExitCodes::ExtrasError) ||
                           code == static_cast<int>(CLI::ExitCodes::RequiredError);
  const CLI::App& where = innermost(app);
  if (superfluous && extra.empty() && !command_names(where).empty())
    return fmt::format("{}: which command? {}", path_of(where),
                       CLI::detail::join(command_names(where), ", "));
  if (!superfluous || extra.empty()) return sentence_of(error.what());
  const std::string word = extra[0].substr(0, extra[0].find('='));
  const std::string path = path_of(where);
  if (word.starts_with("-"))
    return fmt::format("{} has no option {}{}", path, word,
                       did_you_mean(word, option_names(where)));
  const std::vector<std::string> commands = command_names(where);
  if (!commands.empty())
    return fmt::format("{} has no command '{}'{}", path, word, did_you_mean(word, commands));
  return fmt::format("{}: '{}' is one word too many", path, word);
}

// Parser messages name the option but neither begin nor end as a sentence of ours does.
int refuse_command_line(const CLI::App& app, const std::string& why) {
  fmt::print(stderr, "ringwood: {}{} see {} --help\n", why, why.back() == '?' ? "" : ";",
             path_of(innermost(app)));
  return code_of_bad_input(innermost(app));
}

void when_parsed(CLI::App& command, std::function<void()> interpret) {
  command.parse_complete_callback([&command, interpret = std::move(interpret)] {
    if (command.remaining_size() == 0) interpret();
  });
}

}  // namespace ringwood::tools
