// `ringwood man [DIR]`: pages for man(1), made of the command's own tree (command_tree.h):
// ringwood.1, and one for each subcommand.
#pragma once

#include <string>
#include <vector>

#include "tools/command/command_tree.h"

namespace CLI {
class App;
}

namespace ringwood::tools {

struct ManPage {
  std::string file;  // "ringwood-perf.1"
  std::string text;
};
std::vector<ManPage> man_pages(const CommandDoc& root);

// Declares all commands on an empty App.
using AddCommands = void (*)(CLI::App& app, int& exit_code);

// Declares the subcommand. It describes `app`, its parent; `add_commands` makes another such tree,
// whose commands do nothing, for --check.
void add_man_command(CLI::App& app, int& exit_code, AddCommands add_commands);

}  // namespace ringwood::tools
