// `ringwood completion SHELL`: a script that completes the command in bash, zsh or fish, made of
// the command's own tree (command_tree.h). The scripts are pure text: completing starts no process.
#pragma once

#include <string>

#include "tools/command/command_tree.h"

namespace CLI {
class App;
}

namespace ringwood::tools {

std::string bash_completion(const CommandDoc& root);
std::string zsh_completion(const CommandDoc& root);
std::string fish_completion(const CommandDoc& root);

// Declares the subcommand; it describes `app`, which is its parent.
void add_completion_command(CLI::App& app);

}  // namespace ringwood::tools
