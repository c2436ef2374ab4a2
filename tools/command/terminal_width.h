// How wide a terminal is.
#pragma once

#include <cstdio>
#include <optional>

namespace ringwood::tools {

// Columns that may be written on a line: one less than there are, since some terminals begin a new
// line after the last one. None: the stream is no terminal, or does not tell.
std::optional<int> terminal_width(std::FILE* stream);

}  // namespace ringwood::tools
