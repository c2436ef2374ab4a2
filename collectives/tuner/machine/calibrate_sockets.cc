#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "collectives/tuner/machine/calibrate.h"
#include "transports/base/owned_fd.h"

namespace ringwood {
namespace {

constexpr size_t kSmallest = 64, kLargest = 128 << 10;
constexpr double kMaxBuffered = 64 << 20;

// Both ends of a connection over loopback, or two empty descriptors.
std::pair<OwnedFd, OwnedFd> connected() {
  const OwnedFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  OwnedFd here(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!listener || !here || ::bind(listener.get(), any, length) != 0 ||
      ::listen(listener.get(), 1) != 0 || ::getsockname(listener.get(), any, &length) != 0 ||
      ::connect(here.get(), any, length) != 0)
    return {};
  OwnedFd there(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const int on = 1;
  ::setsockopt(here.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return {std::move(here), std::move(there)};
}

// Seconds of the best of several messages of this size, the work of both ends together; 0: none was
// finished. Never blocks: what does not fit into the socket at once is not measured.
double best_message(int here, int there, size_t bytes, int times, const Deadline& deadline) {
  // Each message is read from another place, as in the sending of large buffers.
  std::vector<char> all(kLargest * 8, 0);
  double best = 0;
  for (int i = 0; i < times && !deadline.passed(); ++i) {
    char* const data = all.data() + kLargest * (static_cast<size_t>(i) % 8);
    const auto begin = Clock::now();
    if (::send(here, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) != static_cast<ssize_t>(bytes))
      return best;
    for (size_t got = 0; got < bytes;) {
      const ssize_t some = ::recv(there, data + got, bytes - got, MSG_DONTWAIT);
      if (some <= 0 && deadline.passed()) return best;
      got += static_cast<size_t>(std::max<ssize_t>(some, 0));
    }
    const double seconds = seconds_since(begin);
    best = best == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

// Bytes that a connection takes while nobody reads: what the kernel keeps, at both ends, of buffers
// whose sizes it decides itself (transports/tcp/ sets none).
double buffered(int here, const Deadline& deadline) {
  const std::vector<char> data(kLargest, 0);
  double bytes = 0;
  while (!deadline.passed() && bytes < kMaxBuffered) {
    const ssize_t some = ::send(here, data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (some <= 0) break;
    bytes += static_cast<double>(some);
  }
  return bytes;
}

}  // namespace

void measure_sockets(MachineModel& machine, Duration budget) {
  const auto [here, there] = connected();
  if (!here || !there) return;
  const Deadline deadline = Deadline::after(budget);
  const double small = best_message(here.get(), there.get(), kSmallest, 200, deadline);
  const double large = best_message(here.get(), there.get(), kLargest, 60, deadline);
  if (const double bytes = buffered(here.get(), Deadline::after(budget)); bytes > 0)
    machine.net.eager = bytes;
  if (small <= 0 || large <= small) return;
  machine.net.post = small / 2;
  machine.net.copied = 2 * kLargest / (large - small);
}

}  // namespace ringwood
