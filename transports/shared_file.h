// Anonymous files (memfd) whose memory processes share. Thread safety: all functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transports/link_parts.h"

namespace ringwood {

// Can be sealed, is closed by exec(), and can never be executed where the kernel can promise that
// (from Linux 6.3; vm.memfd_noexec = 2 demands it). Empty: refused, errno says why.
OwnedFd make_shared_file(const char* name) noexcept;

// Addresses are cheap, but 47 bits of them must do for the files of all ranks of a host.
inline constexpr uint64_t kMostSharedBytes = uint64_t{256} << 30;
// Whether this process may have only so many addresses (ulimit -v): then large files are not mapped.
bool addresses_are_limited() noexcept;

// All `bytes` of it, kept out of forks, at a multiple of a huge page, as huge pages of a file
// demand. Null: refused, errno says why.
std::byte* map_shared_file(int fd, uint64_t bytes) noexcept;

}  // namespace ringwood
