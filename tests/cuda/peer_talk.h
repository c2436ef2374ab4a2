// What a test and its peer process say to each other over a Unix socket.
#pragma once

#include <array>
#include <vector>

#include "tests/support/processes.h"
#include "transports/cuda/ipc.h"
#include "transports/cuda/memory.h"
#include "transports/shm/unix_socket.h"

namespace ringwood::testing {

using TwoWords = std::array<uint64_t, 2>;

inline void say(int socket, const TwoWords& words) {
  shm::send_message(socket, words.data(), sizeof words, {}, patiently());
}
inline TwoWords hear(int socket) {
  TwoWords words{};
  shm::receive_message(socket, words.data(), sizeof words, patiently());
  return words;
}

inline void send_parts(int socket, const std::vector<cuda::SharedPart>& parts) {
  say(socket, {parts.size(), 0});
  for (const cuda::SharedPart& part : parts) {
    const int fd = part.fd.get();
    shm::send_message(socket, &part.bytes, sizeof part.bytes, {&fd, 1}, patiently());
  }
}
inline std::vector<cuda::SharedPart> receive_parts(int socket) {
  std::vector<cuda::SharedPart> parts(hear(socket)[0]);
  for (cuda::SharedPart& part : parts) {
    auto fds = shm::receive_message(socket, &part.bytes, sizeof part.bytes, patiently());
    if (fds.size() == 1) part.fd = std::move(fds[0]);
  }
  return parts;
}

inline void send_buffer(int socket, const cuda::IpcBuffer& buffer) {
  shm::send_message(socket, &buffer, sizeof buffer, {}, patiently());
}
inline cuda::IpcBuffer receive_buffer(int socket) {
  cuda::IpcBuffer buffer;
  shm::receive_message(socket, &buffer, sizeof buffer, patiently());
  return buffer;
}

}  // namespace ringwood::testing
