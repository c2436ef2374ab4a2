// An epoll set with an eventfd doorbell: the one place where a rank sleeps.
//
// Descriptors are added edge-triggered: an edge that arrived before its data was wanted is not
// repeated, so a thread must poll its links after arming and before wait() (see Transport::arm).
// wait() has one caller at a time; ring(), add() and remove() may be called from any thread.
#pragma once

#include <cstdint>

#include "transports/base/clock.h"

namespace ringwood {

class WaitSet final {
 public:
  WaitSet();  // throws Error(system)
  ~WaitSet();
  WaitSet(const WaitSet&) = delete;
  WaitSet& operator=(const WaitSet&) = delete;

  void add(int fd, uint32_t epoll_events);  // EPOLLIN | EPOLLOUT; EPOLLET is added
  void remove(int fd) noexcept;
  // Returns after an event, a ring, a signal, or `timeout`. Spurious returns are allowed.
  void wait(Duration timeout) noexcept;
  void ring() noexcept;
  // An eventfd in this set; writing 8 bytes to it (from any process that holds a copy) is a ring.
  int doorbell_fd() const { return doorbell_; }

 private:
  int epoll_ = -1;
  int doorbell_ = -1;
  bool precise_ = true;  // epoll_pwait2 works here
};

}  // namespace ringwood
