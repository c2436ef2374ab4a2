// One control connection: sends and receives whole messages. Used only in the thread of its
// io_context, and lives as long as that runs.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <string>

#include "transports/base/asio.h"
#include "transports/base/clock.h"
#include "transports/base/host_watch.h"
#include "transports/control/control_messages.h"

namespace ringwood {

class ControlChannel final {
 public:
  struct Events {
    // Returns false if the message is not valid here; the channel then ends as malformed.
    std::function<bool(const Message&)> message;
    // Called once, unless close() comes first. `why`: what happened to the peer ("died: ...").
    std::function<void(const std::string& why)> ended;
  };
  // Takes over `fd`. The peer's host is given up when it has acknowledged nothing of what was sent
  // for `patience`, as look() sees. The kernel gives up an idle connection, which it probes every
  // second, and what look() does not see: after so long, and 2.25 s at least. The sender must
  // therefore not fill the window of a peer that does not read.
  ControlChannel(asio::io_context& io, int fd, Duration patience, Events events);
  ~ControlChannel();

  void start();
  void send(MessageType type, std::string_view body = {});
  // To be called several times in `patience`.
  void look(Clock::time_point now);
  bool open() const { return open_; }
  // No event follows.
  void close();

 private:
  void read_next();
  void parse();
  void write_next();
  void end(const std::string& why);
  std::string explain(asio::error_code error) const;

  asio::generic::stream_protocol::socket socket_;
  const Duration patience_;
  Events events_;
  MessageReader reader_;
  std::array<char, 4096> in_;
  std::deque<std::string> out_;  // the first is being written
  asio::error_code write_error_;
  bool open_ = true;
  HostWatch host_;
};

}  // namespace ringwood
