#include "collectives/recorder/traces_at_sigterm.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <utility>
#include <vector>

#include "transports/base/clock.h"
#include "transports/base/fork_guard.h"
#include "transports/base/log.h"
#include "transports/base/result.h"
#include "transports/base/thread.h"

namespace ringwood {
namespace {

struct OfProcess {
  std::mutex mutex;
  std::vector<std::weak_ptr<GroupTrace>> traces;
  bool tried = false;
};

// Never destroyed: the thread may run while the process ends.
OfProcess& of_process() {
  static auto* const all = new OfProcess;
  return *all;
}

// For the handler, which may only use what is safe there.
std::atomic<int> bell{-1}, owner{0};

void end_by_signal() {
  (void)std::signal(SIGTERM, SIG_DFL);
  (void)::kill(::getpid(), SIGTERM);
}

extern "C" void ringwood_on_sigterm(int) {
  const int error = errno;
  const uint64_t once = 1;
  if (::getpid() != owner.load() || ::write(bell.load(), &once, sizeof once) < 0) end_by_signal();
  errno = error;
}

void write_all() noexcept try {
  OfProcess& all = of_process();
  std::vector<std::shared_ptr<GroupTrace>> traces;
  {
    const std::lock_guard lock(all.mutex);
    for (const auto& one : all.traces)
      if (auto trace = one.lock()) traces.push_back(std::move(trace));
  }
  const Deadline patience = Deadline::after(kTermPatience);
  for (const auto& trace : traces) trace->write_soon("the process was ended by SIGTERM");
  for (const auto& trace : traces) (void)trace->wait(patience);
} catch (...) {
  log(LogLevel::warn, "trace", "RINGWOOD_TRACE_DIR: " + caught_error().message());
}

// To be called once, with the lock.
void watch() {
  struct sigaction before;
  if (::sigaction(SIGTERM, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) return;
  const int fd = open_guarded([] { return ::eventfd(0, EFD_CLOEXEC); });
  if (fd < 0) return;
  bell = fd;
  owner = ::getpid();
  start_thread("rw-sigterm", [fd] {
    uint64_t rung = 0;
    while (::read(fd, &rung, sizeof rung) < 0 && errno == EINTR) {
    }
    write_all();
    end_by_signal();
  }).detach();
  struct sigaction ours = {};
  ours.sa_handler = ringwood_on_sigterm;
  ours.sa_flags = SA_RESTART;
  (void)::sigaction(SIGTERM, &ours, nullptr);
}

}  // namespace

void write_at_sigterm(const std::weak_ptr<GroupTrace>& trace) noexcept try {
  OfProcess& all = of_process();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.traces, [](const auto& one) { return one.expired(); });
  all.traces.push_back(trace);
  if (!std::exchange(all.tried, true)) watch();
} catch (...) {
  log(LogLevel::warn, "trace", "no trace at SIGTERM: " + caught_error().message());
}

}  // namespace ringwood
