// Texts that a command reads and writes: of a file, or "-": standard input and output.
#pragma once

#include <string>

#include "transports/base/error.h"

namespace ringwood::tools {

// `option` names the file where it cannot be read: "--matrix"; "": the file is an argument. Throws
// Error(invalid_argument).
std::string read_all(const std::string& option, const std::string& file);

// "--matrix m.json: why".
[[noreturn]] void refuse_file(const std::string& option, const std::string& file,
                              const std::string& why);

// What `parse` makes of it; what that refuses is said of the file.
template <class Parse>
auto parse_all(const std::string& option, const std::string& file, const Parse& parse) {
  const std::string text = read_all(option, file);
  try {
    return parse(text);
  } catch (const Error& error) {
    refuse_file(option, file, error.cause);
  }
}

// `option` names the file where it cannot be written: "--json". Throws Error(invalid_argument).
void write_all(const std::string& option, const std::string& file, const std::string& text);

}  // namespace ringwood::tools
