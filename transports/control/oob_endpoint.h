// A rank's end of the control connections: it connects, runs the control thread, and hands on what
// comes in to whose concern it is.
//
// The connections are a star, seen from its middle (OobRoot, rank 0) or from a point (OobPeer).
// Everything but the constructor, the destructor, fail() and leave() happens in the one thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "transports/base/asio.h"
#include "transports/control/goodbyes.h"
#include "transports/control/heartbeats.h"
#include "transports/control/oob_connections.h"
#include "transports/control/oob_error.h"
#include "transports/control/oob_side.h"

namespace ringwood {

class OobEndpoint final {
 public:
  // Connects; throws Error.
  OobEndpoint(const Group& group, Control::Handlers handlers);
  ~OobEndpoint();
  // Both: any thread, as Control's.
  void fail(Error error);
  void leave() noexcept;

 private:
  void connect(const Group& group);
  void add(int rank, int fd);
  void run();
  bool on_message(int rank, const Message& message);
  bool on_goodbye(int rank);
  void on_ended(int rank, const std::string& why);
  void say_goodbye();

  const int rank_;
  const std::chrono::milliseconds heartbeat_;
  const Control::Handlers handlers_;  // none is empty
  asio::io_context io_{1};
  OobConnections connections_;
  OobError error_;
  Heartbeats heartbeats_;
  Goodbyes goodbyes_;
  const std::unique_ptr<OobSide> side_;
  std::atomic<bool> leave_called_{false};
  std::thread thread_;
};

}  // namespace ringwood
