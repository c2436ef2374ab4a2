// Sending from the user's memory with MSG_ZEROCOPY, for as long as the kernel really does it.
//
// The network interface reads the pages itself, so they belong to the kernel until it reports, on
// the socket's error queue, that a call is finished. If it has to copy after all (virtual
// interfaces, the loopback), it reports that too; zero-copy is then 1.3 to 4 times slower than a
// plain send, so the first such report turns it off for this socket.
//
// Source: Linux, Documentation/networking/msg_zerocopy.rst. Not thread safe.
#pragma once

#include <cstdint>

#include "transports/link_parts.h"

namespace ringwood::tcp {

// True if the connection leaves this host by a network card: a device that exists in hardware.
bool leaves_by_hardware(int fd);

class ZeroCopy final {
 public:
  // Asks the kernel for zero-copy sends; stays off if it refuses.
  void start(int fd);
  bool on() const { return on_; }
  // Returns the number of the zero-copy call just made; counted from 1.
  uint64_t call_made();
  // Reads the kernel's reports. Returns the number n such that the first n calls are finished.
  uint64_t collect(int fd);
  bool idle() const { return open_.empty(); }

 private:
  void finish(uint32_t first, uint32_t last);

  bool on_ = false;
  uint64_t finished_ = 0;
  Fifo<char> open_;  // by call since `finished_`: whether it is finished
};

}  // namespace ringwood::tcp
