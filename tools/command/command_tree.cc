#include "tools/command/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

namespace ringwood::tools {
namespace {

ArgumentDoc read(const CLI::Option& option) {
  ArgumentDoc doc;
  for (const std::string& name : option.get_snames()) doc.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) doc.names.push_back("--" + name);
  if (option.get_positional()) doc.position_name = option.get_name(/*positional=*/true);
  if (option.get_type_size() != 0) doc.type = option.get_type_name();
  doc.description = option.get_description();
  doc.group = option.get_group();
  doc.values = values_of(doc.type);
  doc.needs_value = option.get_items_expected_min() > 0;
  doc.repeats = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  return doc;
}

// A line without indentation that ends in a colon begins a section.
std::vector<HelpSection> read_sections(const std::string& footer) {
  std::vector<HelpSection> sections;
  std::istringstream lines(footer);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.front() != ' ' && line.back() == ':')
      sections.push_back({line.substr(0, line.size() - 1), {}});
    else if (!sections.empty())
      sections.back().lines.push_back(line);
  }
  for (HelpSection& section : sections)
    while (!section.lines.empty() && section.lines.back().empty()) section.lines.pop_back();
  return sections;
}

// As the help says it: "[OPTIONS] collective [algorithm]".
std::string usage_of(const CLI::App& app) {
  std::string usage = app.get_options({}).empty() ? "" : " [OPTIONS]";
  for (const CLI::Option* option : app.get_options({})) {
    if (!option->get_positional()) continue;
    const std::string name =
        option->get_name(true) +
        (option->get_expected_max() >= CLI::detail::expected_max_vector_size ? "..." : "");
    usage += option->get_required() ? " " + name : " [" + name + "]";
  }
  return usage + (app.get_subcommands({}).empty() ? "" : " COMMAND");
}

CommandDoc read(const CLI::App& app, std::vector<std::string> path) {
  CommandDoc doc;
  path.push_back(app.get_name());
  doc.path = path;
  doc.description = app.get_description();
  doc.usage = usage_of(app);
  doc.sections = read_sections(app.get_footer());
  for (const CLI::Option* option : app.get_options({})) {
    if (option->get_group().empty()) continue;  // hidden
    if (option->nonpositional()) doc.options.push_back(read(*option));
    if (!option->get_positional()) continue;
    doc.positions.push_back(read(*option));
    doc.positions.back().names.clear();
  }
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty()) doc.commands.push_back(read(*command, path));
  return doc;
}

void append_all(const CommandDoc& command, std::vector<const CommandDoc*>& all) {
  all.push_back(&command);
  for (const CommandDoc& below : command.commands) append_all(below, all);
}

}  // namespace

std::string CommandDoc::below_root() const {
  std::string text;
  for (size_t i = 1; i < path.size(); ++i) text += (i > 1 ? " " : "") + path[i];
  return text;
}

CommandDoc read_tree(const CLI::App& app) { return read(app, {}); }

std::vector<const CommandDoc*> all_of(const CommandDoc& root) {
  std::vector<const CommandDoc*> all;
  append_all(root, all);
  return all;
}

std::vector<std::string> command_lines(const std::string& line, const std::string& name) {
  std::vector<std::string> lines;
  std::istringstream words(line);
  bool inside = false;  // one of ours
  for (std::string word; words >> word && word != "#";) {
    const bool ends = inside && word.ends_with(';');
    if (ends) word.pop_back();
    if (word.find_first_of("|<>&;") != std::string::npos) {
      inside = false;
    } else if (inside) {
      lines.back() += " " + word;
    } else if (word == name) {
      inside = true;
      lines.push_back(word);
    }
    if (ends) inside = false;
  }
  return lines;
}

std::vector<std::string> examples_of(const CommandDoc& command) {
  std::vector<std::string> examples;
  for (const HelpSection& section : command.sections) {
    if (CLI::detail::to_lower(section.title) != "examples") continue;
    for (const std::string& line : section.lines)
      for (std::string& example : command_lines(line, command.path.front()))
        examples.push_back(std::move(example));
  }
  return examples;
}

}  // namespace ringwood::tools
