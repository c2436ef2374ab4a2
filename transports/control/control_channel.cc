#include "transports/control/control_channel.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <chrono>

#include "transports/bootstrap/sockets.h"

namespace ringwood {
namespace {

// A stopped peer gets no heartbeats after a while; from then on the kernels probe each other.
constexpr Duration kIdle = std::chrono::seconds(1);
// One late or lost answer of a busy host is not a loss: another is asked for after a second.
constexpr Duration kMinIdlePatience = std::chrono::milliseconds(2250);

}  // namespace

ControlChannel::ControlChannel(asio::io_context& io, int fd, Duration patience, Events events)
    : socket_(io), patience_(patience), events_(std::move(events)), host_(patience) {
  const int family = local_address(fd).family();
  socket_.assign(asio::generic::stream_protocol(family, family == AF_UNIX ? 0 : IPPROTO_TCP), fd);
  const Duration idle = std::max(patience, kMinIdlePatience);
  unsigned ms = static_cast<unsigned>(std::chrono::ceil<std::chrono::milliseconds>(idle).count());
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
  keep_alive(fd, kIdle, idle);
}

ControlChannel::~ControlChannel() { close(); }

void ControlChannel::start() { read_next(); }

void ControlChannel::look(Clock::time_point now) {
  if (open_ && host_.gone(socket_.native_handle(), now)) end(explain(asio::error::timed_out));
}

void ControlChannel::close() {
  if (!open_) return;
  open_ = false;
  asio::error_code error;
  int fd = socket_.release(error);
  if (!error) close_connection(fd);
}

void ControlChannel::end(const std::string& why) {
  if (!open_) return;
  close();
  events_.ended(why);
}

std::string ControlChannel::explain(asio::error_code error) const {
  auto is_unreachable = [](const asio::error_code& e) {
    return e == asio::error::timed_out || e == asio::error::host_unreachable ||
           e == asio::error::network_unreachable;
  };
  // The kernel reports the cause to one call only; the next one reads a plain end of stream.
  if (error == asio::error::eof && is_unreachable(write_error_)) error = write_error_;
  if (error == asio::error::eof) return "died: its connection closed without a goodbye";
  if (is_unreachable(error)) {
    return fmt::format(
        "is lost: its host has acknowledged nothing for {:.1f} s ({}); is it up, and the network "
        "whole?",
        seconds_in(patience_), error.message());
  }
  return fmt::format("died: its connection ended without a goodbye ({})", error.message());
}

void ControlChannel::read_next() {
  socket_.async_read_some(asio::buffer(in_), [this](asio::error_code error, size_t bytes) {
    if (!open_) return;
    if (error) return end(explain(error));
    reader_.append({in_.data(), bytes});
    parse();
    if (open_) read_next();
  });
}

// Handles all that has come before any timer is looked at: what is already here is not late.
void ControlChannel::parse() {
  Message message;
  std::string why;
  while (open_) {
    switch (reader_.next(message, why)) {
      case MessageReader::Found::nothing: return;
      case MessageReader::Found::malformed:
        return end("was cut off: it sent " + why + ", which is not a valid message");
      case MessageReader::Found::message: break;
    }
    if (events_.message(message)) continue;
    return end(fmt::format(
        "was cut off: it sent a message of type {} and {} bytes, which is not valid here",
        static_cast<int>(message.type), message.body.size()));
  }
}

void ControlChannel::send(MessageType type, std::string_view body) {
  if (!open_) return;
  out_.push_back(frame(type, body));
  if (out_.size() == 1) write_next();
}

void ControlChannel::write_next() {
  asio::async_write(socket_, asio::buffer(out_.front()), [this](asio::error_code error, size_t) {
    if (!open_) return;
    if (error) {
      write_error_ = error;  // the reader meets the end too, after the peer's last messages
      return;
    }
    out_.pop_front();
    if (!out_.empty()) write_next();
  });
}

}  // namespace ringwood
