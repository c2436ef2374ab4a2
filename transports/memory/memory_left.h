// How much memory this process can still use before the kernel would end some process for it: what
// the machine has free, and what the limits of its control groups (containers, jobs of a cluster)
// leave. What can be dropped (cached files) or swapped out counts as free. Reads a few small files:
// some 50 us. Thread safety: all functions.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace ringwood {

struct MemoryLeft {
  uint64_t bytes = std::numeric_limits<uint64_t>::max();  // as much as wanted
  std::string limit;  // what leaves no more, in words: "the control group /a/b"
};

// `root` is "" but in tests: a folder with copies of the kernel's files.
MemoryLeft memory_left(const std::string& root = "");

}  // namespace ringwood
