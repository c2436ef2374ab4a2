#include "transports/shm/process_ends.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "transports/base/error.h"
#include "transports/base/log.h"

namespace ringwood::shm {

ProcessEnds::ProcessEnds(WaitSet& wait_set, size_t members)
    : wait_set_(wait_set), watched_(members) {
  int ends[2] = {-1, -1};
  writing_end_ = OwnedFd(
      open_guarded([&] { return ::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0 ? ends[1] : -1; }));
  if (!writing_end_) throw Error(ErrorCode::system, system_message("pipe2"));
  reading_end_ = OwnedFd(ends[0]);
  close_on_fork(reading_end_.get());
  epoll_ = OwnedFd(open_guarded([] { return ::epoll_create1(EPOLL_CLOEXEC); }));
  if (!epoll_) throw Error(ErrorCode::system, system_message("epoll_create1"));
  wait_set_.add(epoll_.get(), EPOLLIN);
}

ProcessEnds::~ProcessEnds() { wait_set_.remove(epoll_.get()); }

// The kernel reports a hang-up whatever it is asked for.
void ProcessEnds::watch(int member, OwnedFd reading_end) {
  epoll_event event{};
  event.data.u32 = static_cast<uint32_t>(member);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, reading_end.get(), &event) != 0) {
    log(LogLevel::warn, "shm",
        fmt::format("{}: the end of a peer's process is noticed by the control connection alone",
                    system_message("epoll_ctl")));
    return;
  }
  watched_[static_cast<size_t>(member)] = std::move(reading_end);
}

// To close its descriptor does not take a pipe out of the set, because others hold it, too.
int ProcessEnds::next() noexcept {
  epoll_event event;
  if (::epoll_wait(epoll_.get(), &event, 1, 0) <= 0) return -1;
  OwnedFd ended = std::move(watched_[event.data.u32]);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, ended.get(), nullptr);
  return static_cast<int>(event.data.u32);
}

}  // namespace ringwood::shm
