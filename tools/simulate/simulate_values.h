// Values of options of `ringwood simulate`, from what is typed. What cannot be throws
// Error(invalid_argument) with the form that is wanted.
#pragma once

#include <string>
#include <vector>

namespace ringwood::tools {

// "150G": bytes/s, in powers of 1000.
double parse_rate(const std::string& what, const std::string& text);

// "8..16384": each doubling.
std::vector<int> group_sizes(const std::string& text);

}  // namespace ringwood::tools
