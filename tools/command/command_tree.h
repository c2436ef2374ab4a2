// The subcommands and options of a command, read from its CLI11 tree: what completion scripts and
// man pages are made of. A new subcommand is in both without another line.
#pragma once

#include <string>
#include <vector>

#include "tools/command/values.h"

namespace CLI {
class App;
}

namespace ringwood::tools {

struct ArgumentDoc {
  std::vector<std::string> names;  // "-b", "--minbytes"; empty: its position says what it is
  std::string position_name;       // "collective"; "": it has none
  std::string type;                // "SIZE"; "": a flag
  std::string description;
  std::string group;         // the heading of the help
  Values values;             // what may stand there
  bool needs_value = false;  // false: a flag, or one whose value may be left out
  bool repeats = false;      // takes all further words
};

// "EXAMPLES" and its lines, as the help has them.
struct HelpSection {
  std::string title;
  std::vector<std::string> lines;
};

struct CommandDoc {
  std::vector<std::string> path;  // {"ringwood", "schedule", "draw"}
  std::string description;
  std::string usage;                 // after the name
  std::vector<ArgumentDoc> options;  // with --help
  std::vector<ArgumentDoc> positions;
  std::vector<HelpSection> sections;  // of the footer
  std::vector<CommandDoc> commands;   // as declared

  std::string name() const { return path.back(); }
  // "schedule draw"; "" for the root.
  std::string below_root() const;
};

CommandDoc read_tree(const CLI::App& app);

// The command and all below it, parents first.
std::vector<const CommandDoc*> all_of(const CommandDoc& root);

// The command lines in a line of a text that begin with that name, without what a shell adds
// (pipes, redirections, another program before it).
std::vector<std::string> command_lines(const std::string& line, const std::string& name);
// Those of the help.
std::vector<std::string> examples_of(const CommandDoc& command);

}  // namespace ringwood::tools
