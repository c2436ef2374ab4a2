// What `ringwood doctor` on another host says to the one that has started it there by ssh.
//
// A line that begins it, because a login may print before, and one JSON object. A document is
// untrusted: types and sizes are checked, and findings get severity and fix from our own rules.
#pragma once

#include <cstdint>
#include <string>

#include "tools/doctor/present.h"

namespace ringwood::tools::doctor {

struct Relay {
  Outcome outcome;     // hosts, probe, complete
  double clock_s = 0;  // there, since 1970, when it was written
  int free_port = 0;   // of TCP, on which nobody listened there
};

std::string to_text(const Relay& relay);
// Throws Error(invalid_argument) that names `origin`.
Relay relay_from_text(const std::string& text, const std::string& origin);

}  // namespace ringwood::tools::doctor
