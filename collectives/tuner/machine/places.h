// The text forms of a list that says for each rank where it is, or for each host.
//
// Numbers begin at 0 in the order of their first mention, so that equal lists print equally.
//   ""             an empty list
//   "2048x8"       2048 places, each with the next 8
//   "0*8,1*5,0"    runs, where no single product says it; "*1" is left out
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringwood {

inline constexpr int kMaxPlaces = 1 << 15;

std::string print_places(const std::vector<int>& places);
// The forms above, and runs that could be written shorter ("0,0,1,1,1"). `key` is for the error:
// throws Error(invalid_argument).
std::vector<int> parse_places(std::string_view key, std::string_view text);

}  // namespace ringwood
