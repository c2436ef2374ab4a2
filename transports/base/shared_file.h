// Anonymous files (memfd) whose memory processes share. Thread safety: all functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transports/base/owned_fd.h"

namespace ringwood {

// The file can be sealed, is closed by exec(), and can never be executed if the kernel can promise
// that (Linux 6.3 and later; vm.memfd_noexec = 2 demands it). Empty: refused, errno says why.
OwnedFd make_shared_file(const char* name) noexcept;

// Addresses are cheap, but 47 bits of them must suffice for the files of all ranks of a host.
inline constexpr uint64_t kMaxSharedBytes = uint64_t{256} << 30;
// True if this process may have only so many addresses (ulimit -v): then large files are not
// mapped.
bool addresses_are_limited() noexcept;

// Maps all `bytes` of the file, kept out of forks, at a multiple of a huge page, as huge pages of a
// file demand. Null: refused, errno says why.
std::byte* map_shared_file(int fd, uint64_t bytes) noexcept;

// Allocates the missing pages of the file at [offset, offset + bytes), which is mapped at `data`,
// as huge pages if the kernel would use them at the first touch too. Otherwise a page that cannot
// be had is a SIGBUS for the code that touches it. False: there is not enough memory; errno says
// why, and some pages may have been allocated.
bool reserve_pages(int fd, std::byte* data, uint64_t offset, uint64_t bytes) noexcept;

}  // namespace ringwood
