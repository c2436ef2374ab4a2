// The rows of the table of knobs (knobs.h), a file for each audience. For knobs.cc only.
#pragma once

#include <span>

#include "transports/base/knobs/knobs.h"

namespace ringwood {

std::span<const Knob> user_knobs();    // user_knobs.cc
std::span<const Knob> expert_knobs();  // expert_knobs.cc

}  // namespace ringwood
