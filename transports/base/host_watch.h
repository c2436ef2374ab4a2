// Tells a host that is gone from a peer that does not read.
//
// A peer that computes for minutes, is stopped, or stands in a debugger reads nothing, and the
// windows of the connections to it close. But its kernel still acknowledges data and answers the
// probes of a closed window and of an idle connection. So a host counts as gone when something that
// has to be answered was sent and nothing at all has come for host_patience(). A closed window says
// nothing, which is why data connections have no TCP_USER_TIMEOUT: it ends a connection whose
// window was closed for that long, even if all probes are answered.
#pragma once

#include <cstdint>

#include "transports/base/clock.h"

namespace ringwood {

// 12 heartbeats and a margin: with a heartbeat of a quarter of a second, the last but one of the
// retransmissions at 0.2, 0.6, 1.4 and 3.0 s still counts, so that a cable may be out during all
// before it.
inline Duration host_patience(std::chrono::milliseconds heartbeat) {
  return 12 * heartbeat + std::chrono::milliseconds(250);
}

// Probes an idle connection from now on: after `idle`, then every second, so that firewalls and
// address translators keep it in their tables. A host that is gone ends the connection when it has
// not answered for `patience`, and not before.
void keep_alive(int fd, Duration idle, Duration patience);
// For connections that carry data: the tables of the cloud providers forget after minutes.
inline constexpr Duration kDataIdle = std::chrono::seconds(15);
// For connections to a store: a host that has vanished is noticed in about 10 s.
inline constexpr Duration kStoreIdle = std::chrono::seconds(5);
inline constexpr Duration kStorePatience = std::chrono::seconds(5);

// One connection, checked by the thread that waits for something from it. Not thread safe.
class HostWatch {
 public:
  explicit HostWatch(Duration patience = Duration::max()) : patience_(patience) {}
  // True if data or probes have been sent, or sent again, several times, and nothing has come for
  // `patience` since that was noticed. Asks the kernel a few times per `patience`, however often it
  // is called.
  bool gone(int fd, Clock::time_point now);

 private:
  Duration patience_;
  Clock::time_point looked_{}, since_ = Clock::time_point::max();
  uint32_t came_ = 0, went_ = 0;  // segments in, and data segments out, when any had last come
};

}  // namespace ringwood
