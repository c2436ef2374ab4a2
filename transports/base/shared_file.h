// Anonymous files (memfd) whose memory processes share. Thread safety: all functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transports/base/owned_fd.h"

namespace ringwood {

// Can be sealed, is closed by exec(), and can never be executed where the kernel can promise that
// (from Linux 6.3; vm.memfd_noexec = 2 demands it). Empty: refused, errno says why.
OwnedFd make_shared_file(const char* name) noexcept;

// Addresses are cheap, but 47 bits of them must do for the files of all ranks of a host.
inline constexpr uint64_t kMaxSharedBytes = uint64_t{256} << 30;
// Whether this process may have only so many addresses (ulimit -v): then large files are not
// mapped.
bool addresses_are_limited() noexcept;

// All `bytes` of it, kept out of forks, at a multiple of a huge page, as huge pages of a file
// demand. Null: refused, errno says why.
std::byte* map_shared_file(int fd, uint64_t bytes) noexcept;

// Gives the file the pages at [offset, offset + bytes), which are mapped at `data`: those that it
// lacks, in huge pages where the kernel would give them at the first touch too. Without it, a page
// that cannot be had is a SIGBUS of whoever touches it. False: there are not so many, errno says
// why, and some of them may have been given.
bool reserve_pages(int fd, std::byte* data, uint64_t offset, uint64_t bytes) noexcept;

}  // namespace ringwood
