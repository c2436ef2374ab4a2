// `ringwood top` on a terminal, by ncurses: the table of ranks by host, bars, colours and the last
// events; keys to sort, to scroll and to leave.
#pragma once

#include "tools/top/sample.h"

namespace ringwood::tools {

// Returns when the user leaves, or when the job has ended. Throws Error(system) where there is no
// terminal that can be drawn on.
void run_screen(Sampler& sampler);

}  // namespace ringwood::tools
