// The one sentence that a command line which cannot be used is answered with.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace ringwood::tools {

// What is wrong with what `app` has just parsed; with the nearest name where one is misspelt.
std::string reason_of(const CLI::App& app, const CLI::ParseError& error);

// Prints `why` to standard error, with where help is; returns the exit code: 2, or
// what the command has for it (help.h).
int refuse_command_line(const CLI::App& app, const std::string& why);

// `interpret` is called once all words of `command` are known, and before anything is run, so that
// `ringwood man --check` refuses what the command would. It throws Error(invalid_argument). Not
// called where words are left over: the parser then says which.
void when_parsed(CLI::App& command, std::function<void()> interpret);

}  // namespace ringwood::tools
