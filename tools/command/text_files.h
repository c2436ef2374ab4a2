// Texts that a command reads and writes: of a file, or "-": standard input and output.
#pragma once

#include <string>

namespace ringwood::tools {

// Throws Error(invalid_argument).
std::string read_all(const std::string& file);

// `option` names the file where it cannot be written: "--json". Throws Error(invalid_argument).
void write_all(const std::string& option, const std::string& file, const std::string& text);

}  // namespace ringwood::tools
