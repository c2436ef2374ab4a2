// `ringwood tune --diff A B`: which choices change from A to B, and what that is worth.
//
// A and B are tuning files, files with a machine model (`ringwood explain --save`, or the cache's),
// or "default": what this version chooses without a file. Each size that a file has measured is
// compared; of machine models those of -b, -e and -f. The worth is the time of A's choice by that
// of B's: as measured, where a file has both; as measured by each, where each has its own; else as
// predicted.
//
// A file also says what its version chose by itself at each size, so two files of different
// versions tell which defaults changed between them; against "default" it is the file's version
// and this one. Rows that this version does not have are compared by their names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/schedule/collective.h"

namespace ringwood::tools {

struct DiffOptions {
  std::string before, after;
  std::vector<Collective> collectives;  // none: all that the files have, or every one
  std::vector<size_t> sizes;            // of machine models
  int ranks = 0;
  std::string hosts;
  std::optional<std::string> json;  // a file, or "-"; the table is printed but for "-"
};

// Throws Error(invalid_argument) for what cannot be read.
int run_tune_diff(const DiffOptions& options);

}  // namespace ringwood::tools
