// What the help of a subcommand ends with: examples, and exit codes. `ringwood man` prints the same
// as sections of a page, and `ringwood man --check` parses every example.
//
//   add_help(*command, {{"ringwood explain all_reduce 1M --ranks 8", "on this host"},
//                       {"ringwood explain all_gather 64M --hosts 2048x8"}});
//
// Call it after the subcommands of `command` have been added: they inherit what they lack.
//
// The type name of an option or argument says what a shell completes there (values.h): COLLECTIVE,
// ALGORITHM, TYPE, OP, TRANSPORT, KNOB, FILE, DIR; words in small letters are themselves
// ("host|default|FILE"); "TYPE,..." is a list. A CLI::IsMember that describes itself works, too.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ringwood::tools {

struct Example {
  std::string line;  // as it is typed
  std::string what;  // in a few words, or ""
};

struct ExitCode {
  int code = 0;
  std::string when;
};

// What `when` says of the code that a command line which cannot be used ends with.
inline constexpr const char* kBadInput = "bad input";
// That code, of the codes that were given; 2 where none was.
int code_of_bad_input(const CLI::App& command);

// 0 all is well, 1 a result is wrong or a run failed, 2 bad input.
const std::vector<ExitCode>& usual_exit_codes();

void add_help(CLI::App& command, const std::vector<Example>& examples,
              const std::vector<ExitCode>& codes = usual_exit_codes());

}  // namespace ringwood::tools
