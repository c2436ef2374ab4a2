#include "transports/base/wait_set.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "transports/base/error.h"
#include "transports/base/fork_guard.h"

namespace ringwood {

WaitSet::WaitSet() {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) throw Error(ErrorCode::system, system_message("epoll_create1"));
  doorbell_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (doorbell_ < 0) {
    Error error(ErrorCode::system, system_message("eventfd"));
    ::close(epoll_);
    throw error;
  }
  close_on_fork(epoll_);
  close_on_fork(doorbell_);
  add(doorbell_, EPOLLIN);
}

WaitSet::~WaitSet() {
  close_and_forget(doorbell_);
  close_and_forget(epoll_);
}

void WaitSet::add(int fd, uint32_t epoll_events) {
  epoll_event event{};
  event.events = epoll_events | EPOLLET;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
    throw Error(ErrorCode::system, system_message("epoll_ctl"));
  }
}

void WaitSet::remove(int fd) noexcept { ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr); }

// The doorbell is not read: edge-triggered, every write is a new edge, and 2^64 rings do not
// happen.
void WaitSet::wait(Duration timeout) noexcept {
  epoll_event events[16];
  const Duration capped = std::clamp<Duration>(timeout, Duration::zero(), std::chrono::hours(1));
  if (precise_) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(capped);
    timespec limit{static_cast<time_t>(seconds.count()),
                   static_cast<long>((capped - seconds).count())};
    if (::syscall(SYS_epoll_pwait2, epoll_, events, 16, &limit, nullptr, 0) >= 0 || errno == EINTR)
      return;
    precise_ = false;  // older than Linux 5.11, or forbidden in this sandbox
  }
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(capped);
  ::epoll_wait(epoll_, events, 16, static_cast<int>(ms.count()));
}

void WaitSet::ring() noexcept { (void)!::eventfd_write(doorbell_, 1); }

}  // namespace ringwood
