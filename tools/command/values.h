// What may stand at an option or argument, from the name of its type: "COLLECTIVE",
// "host|default|FILE", "TYPE,...|all", "[FILE]", "KIND:{private,shared}".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringwood::tools {

struct Values {
  std::vector<std::string> words;
  bool list = false;        // words with commas between them
  bool files = false;       // also any file
  bool folders = false;     // also any folder
  bool algorithms = false;  // those of the collective that stands before, else all
};
Values values_of(std::string_view type);

// Of all algorithms, each once; or of one collective.
std::vector<std::string> algorithm_names();
std::vector<std::string> algorithm_names(std::string_view collective);
std::vector<std::string> collective_names();

}  // namespace ringwood::tools
