// The table of ranks as texts, alike on the screen and in --once.
#pragma once

#include <string>
#include <vector>

#include "tools/top/sample.h"

namespace ringwood::tools {

struct Column {
  const char* title;
  int width;   // 0: what is left
  bool right;  // aligned
};
const std::vector<Column>& columns();
std::vector<std::string> cells_of(const RankLine& line);

enum class SortBy { host, late, rate, trouble };
const char* to_string(SortBy order);

// The ranks of a host, by the host they are on; or, for other orders, all in one block.
struct Block {
  std::string title;  // "node-a: eth0 1.25 GB/s, 3 retransmissions/s"; "" for none
  std::vector<const RankLine*> ranks;
  double path_bytes_per_s = 0;
};
std::vector<Block> blocks_of(const GroupView& view, const GroupLines& group, SortBy order);

std::string rate_text(double bytes_per_s);  // "1.25", GB/s
std::string time_text(double seconds);      // "12 us", "5.0 ms", "3.2 s"
// Exactly so wide, counted in characters.
std::string fit(const std::string& text, int width, bool right);
std::string clock_text(std::time_t time);  // "14:03:12", of this place

// Heading, one block of lines per host, and what is wrong: for --once.
std::string plain_text(const Sample& sample);

}  // namespace ringwood::tools
