// Messages with descriptors over abstract Unix sockets, which have no file and vanish with their
// process. Everything is non-blocking underneath and bounded by a deadline. All functions throw
// Error(system).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "transports/base/clock.h"
#include "transports/base/error.h"
#include "transports/base/owned_fd.h"

namespace ringwood::shm {

// What a rank gives the other ranks of its host: its doorbell, its arena, and the reading end of
// the pipe that tells of its process's end (process_ends.h). They travel together.
inline constexpr size_t kFdsPerRank = 3;
inline constexpr size_t kFdsPerMessage = 42 * kFdsPerRank;  // the kernel allows 253

OwnedFd listen_at(const std::string& name);
OwnedFd connect_to(const std::string& name, Deadline deadline);

// Sends at most kFdsPerMessage descriptors and at least one byte.
void send_message(int fd, const void* data, size_t bytes, std::span<const int> fds,
                  Deadline deadline);
// Receives exactly `bytes`, and the descriptors that came with them.
std::vector<OwnedFd> receive_message(int fd, void* data, size_t bytes, Deadline deadline);

}  // namespace ringwood::shm
