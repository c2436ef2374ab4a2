// Sends heartbeats to every rank that this one is connected to, and warns about a rank that is
// silent.
//
// A rank that is only stopped is never taken for dead here, however long it is silent: its kernel
// still acknowledges. The connection to a host that does not is looked at with every heartbeat, and
// ends (control_channel.h). Used only in the control thread; start() before that runs.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "transports/base/asio.h"
#include "transports/base/clock.h"
#include "transports/control/error_delivery.h"
#include "transports/control/oob_connections.h"

namespace ringwood {

class Heartbeats final {
 public:
  // A heartbeat carries the result of `op_status`, and `sent` is called after it; neither is empty.
  // After the group error there are no more warnings. All references must outlive this.
  Heartbeats(asio::io_context& io, OobConnections& connections, const ErrorDelivery& delivery,
             std::chrono::milliseconds period, const std::function<OpStatuses()>& op_status,
             std::function<void()> sent);

  void start();
  // A message has come from that rank.
  void note_heard(int rank);
  // What this rank's last heartbeat carried.
  const OpStatuses& said() const { return said_; }
  // Seconds since that rank's last message.
  double silent_s(int rank) const;
  // How long an answer is waited for: `usual` with the usual heartbeat, and in proportion to the
  // heartbeat otherwise, because a rank that may be silent for longer may answer later.
  Duration patience(Duration usual) const;

 private:
  struct Pulse {
    Clock::time_point heard = Clock::now();
    int unanswered = 0;  // heartbeats sent to it since
    bool warned = false;
  };

  void tick();
  void watch(int rank, Clock::time_point now);

  OobConnections& connections_;
  const ErrorDelivery& delivery_;
  const std::chrono::milliseconds period_;
  const std::function<OpStatuses()>& op_status_;
  const std::function<void()> sent_;
  asio::steady_timer ticks_;
  std::vector<Pulse> pulses_;  // by rank
  Clock::time_point ticked_ = Clock::now();
  OpStatuses said_;
};

}  // namespace ringwood
