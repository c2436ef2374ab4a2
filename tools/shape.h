// Where the ranks of a group are, as it is typed: alike in every command that takes it.
//
//   --hosts 4          so many hosts
//   --hosts 8x8        hosts, and the ranks of each; "999x8,4": and one with 4
//   --hosts 8,8,4      the ranks of each host
//   --hosts 0,0,1,1    the host of each rank: a list that begins with 0; "0*8,1*8"
//   --ranks 16         in all, spread over the hosts
//   --ranks-per-host 8
//
// Without any of them: two ranks on one host. What contradicts throws Error(invalid_argument).
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ringwood::tools {

inline constexpr int kMaxRanks = 16384;
inline constexpr int kUsualRanks = 2;

struct Shape {
  std::string hosts;                  // empty: not typed
  int ranks = 0, ranks_per_host = 0;  // 0: not typed

  // --hosts says where ranks are, and not only how many hosts there are.
  bool lists_hosts() const { return hosts.find_first_of("x,*") != hosts.npos; }
  bool typed() const { return !hosts.empty() || ranks > 0 || ranks_per_host > 0; }
};

// `shape` must outlive `command`.
void add_shape(CLI::App& command, Shape& shape);

// By rank: its host, from 0 in the order of first ranks. `usual`: of a group of which nothing says
// how many, but one for each host.
std::vector<int> places_of(const Shape& shape, int usual = kUsualRanks);

}  // namespace ringwood::tools
