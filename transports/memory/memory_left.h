// How much memory this process can still use before the kernel would end some process for lack of
// it: what the machine has free, and what the limits of its control groups (containers, jobs of a
// cluster) leave. Memory that can be dropped (cached files) counts as free, and so does what can be
// swapped out, as far as all control groups of the process may swap. Reads a few small files, in
// about 50 us. Thread safety: all functions.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace ringwood {

struct MemoryLeft {
  uint64_t bytes = std::numeric_limits<uint64_t>::max();  // the maximum: no limit
  std::string limit;  // what sets the limit, in words: "the control group /a/b"
};

// `root` is "" except in tests: a folder with copies of the kernel's files.
MemoryLeft memory_left(const std::string& root = "");

}  // namespace ringwood
