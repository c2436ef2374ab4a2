// A rank's end of the control connections: it connects, runs the control thread, and dispatches the
// incoming messages.
//
// The connections form a star with rank 0 in the middle (OobRoot) and the other ranks around it
// (OobPeer). Everything but the constructor, the destructor, fail(), propose() and leave() happens
// in the control thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "transports/base/asio.h"
#include "transports/control/error_delivery.h"
#include "transports/control/goodbyes.h"
#include "transports/control/heartbeats.h"
#include "transports/control/oob_connections.h"
#include "transports/control/oob_side.h"
#include "transports/control/status/status_endpoint.h"
#include "transports/control/status/trace_relay.h"

namespace ringwood {

class OobEndpoint final {
 public:
  // Connects. Throws Error.
  OobEndpoint(const Group& group, Control::Handlers handlers);
  ~OobEndpoint();
  // May be called by any thread, as Control's.
  void fail(Error error);
  void propose(Proposal proposal);
  void leave() noexcept;

 private:
  void connect(const Group& group);
  void open_status(const Group& group);
  void add(int rank, int fd);
  void run();
  bool on_message(int rank, const Message& message);
  bool on_trace(int rank, const Message& message);
  bool on_goodbye(int rank);
  void on_ended(int rank, const std::string& why);
  void on_heartbeat();
  void say_goodbye();

  const int rank_;
  const std::chrono::milliseconds heartbeat_;
  const Control::Handlers handlers_;  // none is empty
  asio::io_context io_{1};
  OobConnections connections_;
  ErrorDelivery delivery_;
  Heartbeats heartbeats_;
  Goodbyes goodbyes_;
  const std::unique_ptr<OobSide> side_;
  TraceRelay traces_;
  std::unique_ptr<StatusEndpoint> status_;  // null: nobody may watch
  std::atomic<bool> leave_called_{false};
  std::thread thread_;
};

}  // namespace ringwood
