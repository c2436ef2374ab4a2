// At which leaf switch each host is, from a file: one line for each host,
//
//   # host  leaf  rail
//   node1   a     0
//   node1   b     1
//   node2   a
//
// with spaces or commas between them and the rail left out where there is one; or Slurm's
// topology.conf ("SwitchName=a Nodes=node[1-4,7]"; lines with Switches= are not leaves).
//
// Errors name the file, the line and what to do. Pure but for the file.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ringwood {

struct Topology {
  std::map<std::string, std::string> leaf_of;  // by host: the leaf of its first rail
  int rails = 1;                               // of the host with the most
};

// `name` is for errors. Throws Error(invalid_argument).
Topology parse_topology(std::string_view text, const std::string& name);

// The leaves of these hosts, numbered from 0 in the order of the first hosts; sets `rails`. Throws
// Error(invalid_argument) for a file that cannot be read, and for a host that is not in it.
std::vector<int> leaves_of(const std::string& file, const std::vector<std::string>& hosts,
                           int& rails);

// "node[1-3,07],b" -> node1 node2 node3 node07 b. Throws Error(invalid_argument).
std::vector<std::string> expand_host_list(std::string_view list);

}  // namespace ringwood
