// What tells a host that is gone from a peer that does not read.
//
// A peer that computes for minutes, is stopped, or stands in a debugger reads nothing, and the
// windows of the connections to it close; but its kernel goes on answering: it acknowledges data,
// the probes of a closed window, and those of an idle connection. So a host is gone when something
// that has to be answered was sent and nothing at all has come for host_patience(). A closed window
// says nothing, and that is why data connections have no TCP_USER_TIMEOUT: it ends a connection
// whose window was closed for so long, however faithfully the probes are answered.
#pragma once

#include <cstdint>

#include "transports/base/clock.h"

namespace ringwood {

// 12 heartbeats; and the margin lets the last but one of the retransmissions at 0.2, 0.6, 1.4 and
// 3.0 s count, where a heartbeat is a quarter of a second: a cable may be out for all of them.
inline Duration host_patience(std::chrono::milliseconds heartbeat) {
  return 12 * heartbeat + std::chrono::milliseconds(250);
}

// An idle connection is probed from now on: after `idle`, then every second, so that the tables of
// firewalls and address translators keep it, and so that a host that is gone ends it when it has
// not answered for `patience`, but not before.
void keep_alive(int fd, Duration idle, Duration patience);
// Of connections that carry data: the tables of the cloud providers forget after minutes.
inline constexpr Duration kDataIdle = std::chrono::seconds(15);
// Of connections to a store: a host that has vanished is noticed in about 10 s.
inline constexpr Duration kStoreIdle = std::chrono::seconds(5);
inline constexpr Duration kStorePatience = std::chrono::seconds(5);

// One connection, looked at now and then by who waits for something from it. Not thread safe.
class HostWatch {
 public:
  explicit HostWatch(Duration patience = Duration::max()) : patience_(patience) {}
  // True when data or probes have been sent, or sent again, several times, and nothing has come for
  // `patience` since that was noticed. Asks the kernel a few times per `patience`, however often it
  // is called.
  bool gone(int fd, Clock::time_point now);

 private:
  Duration patience_;
  Clock::time_point looked_{}, since_ = Clock::time_point::max();
  uint32_t came_ = 0, went_ = 0;  // segments, and those with data, when any had last come
};

}  // namespace ringwood
