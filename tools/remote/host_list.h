// Hosts as people type them, and as the files of launchers have them.
//
// A host is a word that ssh takes: "node7", "user@10.0.0.7". Each is there once, in the order in
// which it came first. At most 16,384 hosts. Throw Error(invalid_argument). Pure functions.
#pragma once

#include <string>
#include <vector>

namespace ringwood::tools {

// "node[01-03,7],gpu9" -> node01 node02 node03 node7 gpu9, as pdsh, clush and Slurm write it.
std::vector<std::string> parse_hosts(const std::string& text);

// A line for each host, as mpirun reads it: what follows the first word ("slots=8"), and ":8" after
// a name, is left out; # begins a comment. The first word may be a list, as above.
std::vector<std::string> parse_host_file(const std::string& text);

// "node7" of "user@node7".
std::string without_user(const std::string& host);

}  // namespace ringwood::tools
