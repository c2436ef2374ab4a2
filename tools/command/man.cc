#include "tools/command/man.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "tools/command/help.h"
#include "tools/command/text_files.h"
#include "transports/base/error.h"
#include "transports/base/knobs/knobs.h"

namespace ringwood::tools {
namespace {

// Text that roff shall show as it is.
std::string plain(std::string text) {
  text = CLI::detail::find_and_replace(text, "\\", "\\e");
  text = CLI::detail::find_and_replace(text, "-", "\\-");
  if (!text.empty() && (text[0] == '.' || text[0] == '\'')) text = "\\&" + text;
  return text;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string page_name(const CommandDoc& command) {
  return fmt::format("{}", fmt::join(command.path, "-"));
}

// "\fB-b\fP, \fB--minbytes\fP \fISIZE\fP" as one item of a list.
std::string item(const ArgumentDoc& argument) {
  std::vector<std::string> names;
  for (const std::string& name : argument.names) names.push_back("\\fB" + plain(name) + "\\fP");
  std::string head = fmt::format("{}", fmt::join(names, ", "));
  if (names.empty()) head = "\\fI" + plain(argument.position_name) + "\\fP";
  const std::string type = argument.type.substr(0, argument.type.find(':'));
  if (!names.empty() && !type.empty()) head += " \\fI" + plain(type) + "\\fP";
  std::string text = ".TP\n" + head + "\n" + plain(argument.description) + "\n";
  const auto& words = argument.values.words;
  // A few words are worth reading here; the rest are tables of their own.
  if (!words.empty() && words.size() <= 6 && type.find(words[0]) == std::string::npos)
    text += plain(fmt::format("One of {}.", fmt::join(words, ", "))) + "\n";
  return text;
}

std::string arguments(const CommandDoc& command) {
  std::string text;
  for (const ArgumentDoc& position : command.positions) text += item(position);
  std::string group = "Options";
  for (const ArgumentDoc& option : command.options) {
    // Every command has it; said once, on the page of all.
    if (option.names.back() == "--help" && command.path.size() > 1) continue;
    if (option.group != group && option.group != "Options")
      text += ".PP\n\\fB" + plain(option.group) + "\\fP\n";
    group = option.group;
    text += item(option);
  }
  return text;
}

std::string synopsis(const CommandDoc& command) {
  if (!command.commands.empty() && command.path.size() > 1) {
    std::string text;
    for (const CommandDoc& below : command.commands)
      text += (text.empty() ? "" : ".br\n") + synopsis(below);
    return text;
  }
  return "\\fB" + plain(fmt::format("{}", fmt::join(command.path, " "))) + "\\fP" +
         plain(command.usage) + "\n";
}

std::string section(const HelpSection& section) {
  std::string text = ".nf\n";
  for (const std::string& line : section.lines)
    text += line.empty() ? ".sp\n" : plain(line.starts_with("  ") ? line.substr(2) : line) + "\n";
  return text + ".fi\n";
}

std::string sections(const CommandDoc& command, const char* macro) {
  std::string text;
  for (const HelpSection& s : command.sections)
    text += fmt::format("{} \"{}\"\n{}", macro, plain(upper(s.title)), section(s));
  return text;
}

std::string actions(const CommandDoc& command) {
  std::string text;
  for (const CommandDoc& below : command.commands) {
    text += fmt::format(".SH \"{}\"\n{}.\n", plain(upper(below.below_root())),
                        plain(below.description));
    text += arguments(below);
    for (const HelpSection& s : below.sections)
      if (upper(s.title) == "EXAMPLES") text += ".SS Examples\n" + section(s);
  }
  return text;
}

std::string knobs_for_users() {
  std::string text = ".SH ENVIRONMENT\n";
  for (const Knob& knob : knobs())
    if (knob.audience == KnobFor::user)
      text += fmt::format(".TP\n.B {}\n{}\n", plain(knob.name), plain(knob.does));
  return text + ".PP\n" + plain("ringwood env --why tells more, and the knobs for experts.") + "\n";
}

std::string see_also(const CommandDoc& root, const CommandDoc& command) {
  std::vector<std::string> pages;
  if (command.path.size() > 1)
    pages.push_back("\\fBringwood\\fP(1)");
  else
    for (const CommandDoc& below : root.commands)
      pages.push_back("\\fB" + plain(page_name(below)) + "\\fP(1)");
  return fmt::format(".SH \"SEE ALSO\"\n{}\n", fmt::join(pages, ",\n"));
}

std::string page(const CommandDoc& root, const CommandDoc& command) {
  const bool is_root = command.path.size() == 1;
  std::string text = fmt::format(
      ".TH \"{}\" \"1\" \"\" \"ringwood {}\" \"Ringwood\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}",
      plain(upper(page_name(command))), RINGWOOD_VERSION, plain(page_name(command)),
      plain(command.description), synopsis(command));
  if (is_root) {
    text += ".SH COMMANDS\n";
    for (const CommandDoc& below : command.commands)
      text += fmt::format(".TP\n\\fB{}\\fP\n{}\n", plain(below.name()), plain(below.description));
  }
  if (const std::string own = arguments(command); !own.empty()) text += ".SH OPTIONS\n" + own;
  if (!is_root) text += actions(command);
  text += sections(command, ".SH");
  if (is_root) text += knobs_for_users();
  return text + see_also(root, command);
}

void write(const std::string& folder, const std::vector<ManPage>& pages) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const ManPage& page : pages) {
    const std::string file = folder + "/" + page.file;
    // A new file, so that the folder's time tells a build that the pages are new.
    std::filesystem::remove(file, error);
    std::ofstream out(file, std::ios::binary);
    if (!(out << page.text << std::flush))
      throw Error(ErrorCode::invalid_argument, fmt::format("{} cannot be written", file));
  }
}

// Why a command line is refused; "" where it is not. It is not run.
std::string refusal_of(const std::string& line, const CommandDoc& root, AddCommands add_commands) {
  CLI::App app("", root.name());
  int exit_code = 0;
  add_commands(app, exit_code);
  app.require_subcommand(1);
  // Called when all has been parsed and interpreted (when_parsed), before any command is run.
  app.parse_complete_callback([] { throw CLI::Success(); });
  try {
    app.parse(line.substr(std::min(line.size(), root.name().size() + 1)));
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? "" : error.what();
  } catch (const Error& error) {
    return error.cause;
  }
  return "";
}

int tell(const std::string& where, const std::string& line, const std::string& refusal) {
  if (refusal.empty())
    fmt::print("{}: parses: {}\n", where, line);
  else
    fmt::print("{}: {}: {}\n", where, line, refusal);
  return refusal.empty() ? 0 : 1;
}

// Parses every example of the help, without running it. 1 if one is refused.
int check(const CommandDoc& root, AddCommands add_commands) {
  int bad = 0;
  for (const CommandDoc* command : all_of(root)) {
    const std::vector<std::string> examples = examples_of(*command);
    const std::string name = fmt::format("{}", fmt::join(command->path, " "));
    if (examples.empty() && ++bad) fmt::print("{}: no example\n", name);
    for (const std::string& example : examples)
      bad += tell(name, example, refusal_of(example, root, add_commands));
  }
  return bad > 0 ? 1 : 0;
}

// The same for the command lines of a text.
int check_lines(const std::string& file, const CommandDoc& root, AddCommands add_commands) {
  std::istringstream lines(read_all("", file));
  int bad = 0, number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    for (const std::string& command : command_lines(line, root.name()))
      bad += tell(fmt::to_string(number), command, refusal_of(command, root, add_commands));
  }
  return bad > 0 ? 1 : 0;
}

}  // namespace

std::vector<ManPage> man_pages(const CommandDoc& root) {
  std::vector<ManPage> pages = {{page_name(root) + ".1", page(root, root)}};
  for (const CommandDoc& command : root.commands)
    pages.push_back({page_name(command) + ".1", page(root, command)});
  return pages;
}

void add_man_command(CLI::App& app, int& exit_code, AddCommands add_commands) {
  const auto folder = std::make_shared<std::string>();
  const auto only_check = std::make_shared<bool>(false);
  const auto lines = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("man", "The pages of this command for man(1)");
  command
      ->add_option("folder", *folder,
                   "where to write them, or the command whose page is printed; without it all are")
      ->type_name("DIR|COMMAND");
  command->add_flag("--check", *only_check,
                    "write none; parse every example of the help, and tell which fail");
  command
      ->add_option("--check-lines", *lines,
                   "likewise, the command lines of a text; - is standard input")
      ->type_name("FILE");
  add_help(
      *command,
      {{"ringwood man ~/.local/share/man/man1", "then: man ringwood-perf"},
       {"ringwood man perf | man -l -", "that of a command"},
       {"ringwood man | man -l -", "all of them, one after the other"},
       {"ringwood man --check", "as the tests do"},
       {"ringwood man --check-lines job.sh", "would this version take the commands of a script?"}},
      {{0, "all is well"}, {1, "a command line does not parse"}, {2, "bad input"}});
  command->callback([&app, &exit_code, folder, only_check, lines, add_commands] {
    const CommandDoc root = read_tree(app);
    if (*only_check || !lines->empty()) {
      exit_code = *only_check ? check(root, add_commands) : 0;
      if (!lines->empty()) exit_code = std::max(exit_code, check_lines(*lines, root, add_commands));
      return;
    }
    std::vector<ManPage> pages = man_pages(root);
    const std::string only = fmt::format("{}-{}.1", root.name(), *folder);
    const auto named = std::ranges::find(pages, only, &ManPage::file);
    if (named != pages.end())
      pages = {*named};
    else if (!folder->empty())
      return write(*folder, pages);
    for (const ManPage& page : pages) fmt::print("{}", page.text);
  });
}

}  // namespace ringwood::tools
