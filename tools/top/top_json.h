// A sample as an object of JSON, in one line.
#pragma once

#include <string>

#include "tools/top/sample.h"

namespace ringwood::tools {

std::string json_line(const Sample& sample);
std::string utc(std::time_t time);  // "2026-11-23T20:00:00Z"

}  // namespace ringwood::tools
