// Sending out of the user's memory: MSG_ZEROCOPY, for as long as the kernel really does it.
//
// The network interface reads the pages itself, so they are the kernel's until it says, on the
// socket's error queue, that a call is finished. Where it has to copy after all (virtual
// interfaces, the loopback) it says that too, and then lending is only slower, by 1.3 to 4 times:
// the first such answer ends it for this socket.
//
// Kernel: Documentation/networking/msg_zerocopy.rst. Not thread safe.
#pragma once

#include <cstdint>

#include "transports/link_parts.h"

namespace ringwood::tcp {

// Whether the connection leaves this host by a network card: a device that exists in hardware.
bool leaves_by_hardware(int fd);

class ZeroCopy final {
 public:
  // Asks the kernel; stays off where it refuses.
  void start(int fd);
  bool on() const { return on_; }
  // The number of the call that has just lent memory; counted from 1.
  uint64_t call_made();
  // Reads what the kernel has said. Returns the number of calls, the first ones, that are finished.
  uint64_t collect(int fd);
  bool idle() const { return open_.empty(); }

 private:
  void finish(uint32_t first, uint32_t last);

  bool on_ = false;
  uint64_t finished_ = 0;
  Fifo<char> open_;  // by call since `finished_`: whether it is finished too
};

}  // namespace ringwood::tcp
