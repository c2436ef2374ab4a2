// Who is alive: heartbeats to every rank that this one has a connection to, and a warning about
// one that is silent.
//
// A rank that is only stopped is never taken for dead here, however long it is silent: its kernel
// still acknowledges, and a host that does not ends the connection (control_channel.h). Used in the
// control thread only; start() before that runs.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "transports/base/asio.h"
#include "transports/base/clock.h"
#include "transports/control/oob_connections.h"
#include "transports/control/oob_error.h"

namespace ringwood {

class Heartbeats final {
 public:
  // A heartbeat says what `op_status` returns, which is not empty. After the group's group_error
  // nobody is warned about. All have to outlive this.
  Heartbeats(asio::io_context& io, OobConnections& connections, const OobError& error,
             std::chrono::milliseconds period, const std::function<OpStatuses()>& op_status);

  void start();
  // A message has come from that rank.
  void note_heard(int rank);
  // What this rank's last heartbeat said.
  const OpStatuses& said() const { return said_; }
  // Since the last message.
  double silent_s(int rank) const;

 private:
  struct Pulse {
    Clock::time_point heard = Clock::now();
    int unanswered = 0;  // heartbeats to it since
    bool warned = false;
  };

  void tick();
  void watch(int rank, Clock::time_point now);

  OobConnections& connections_;
  const OobError& error_;
  const std::chrono::milliseconds period_;
  const std::function<OpStatuses()>& op_status_;
  asio::steady_timer ticks_;
  std::vector<Pulse> pulses_;  // by rank
  Clock::time_point ticked_ = Clock::now();
  OpStatuses said_;
};

}  // namespace ringwood
