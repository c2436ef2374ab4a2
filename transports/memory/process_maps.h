// What lies where among this process's addresses, as the kernel knows it.
//
// at() asks for one address (PROCMAP_QUERY, Linux 6.11: half a microsecond), so a user of memory
// that may have been unmapped, moved or replaced behind its back can ask each time. Reading
// /proc/self/maps as text would take 0.2 ms for 50 mappings, 2.6 ms for 350. Thread safety: all
// methods.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "transports/base/owned_fd.h"

namespace ringwood {

// A file, whatever its name.
struct FileId {
  uint64_t inode = 0;
  uint32_t major = 0, minor = 0;
  bool operator==(const FileId&) const = default;
  // Throws Error(system).
  static FileId of(int fd);
};

struct Mapping {
  uintptr_t begin = 0, end = 0;
  uint64_t offset = 0;  // of `begin` in the file
  FileId file;          // inode 0: none
  bool readable = false, writable = false, shared = false;
};

class ProcessMaps final {
 public:
  // Throws Error(system) where the kernel cannot be asked.
  ProcessMaps();

  std::optional<Mapping> at(uintptr_t address) const noexcept;
  // The shared mappings of `file`, ascending. Not a snapshot: what other threads map, unmap or move
  // meanwhile may be missed; what stays where it is cannot be.
  std::vector<Mapping> shared_mappings_of(const FileId& file) const;
  // The first shared mapping of a file at `address` or above it, of the process that opened `fd`,
  // its /proc/self/maps. Async-signal-safe.
  static std::optional<Mapping> next_shared(int fd, uintptr_t address) noexcept;
  // Whether the file lies at [begin, end), from `offset` on, readable, writable and shared.
  bool holds(uintptr_t begin, uintptr_t end, const FileId& file, uint64_t offset) const noexcept;
  // Whether nobody but ordinary loads and stores of this process knows the pages: private,
  // anonymous, writable, without any property beyond huge pages (neither locked, nor kept out of
  // forks or dumps, nor watched), neither stack nor the heap of brk(); or else shared pages of
  // `file`. Looks through
  // /proc/self/smaps: milliseconds.
  bool ordinary(uintptr_t begin, uintptr_t end, const FileId& file) const;

 private:
  OwnedFd fd_;
};

}  // namespace ringwood
