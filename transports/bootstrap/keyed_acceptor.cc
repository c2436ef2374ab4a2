#include "transports/bootstrap/keyed_acceptor.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "transports/bootstrap/handshake_steps.h"
#include "transports/bootstrap/sockets.h"

namespace ringwood {
namespace {

constexpr Duration kHandshakeTime = std::chrono::seconds(5);
constexpr Duration kGrace = std::chrono::milliseconds(100);
constexpr Duration kAfterFailedAccept = std::chrono::milliseconds(50);

using Protocol = asio::generic::stream_protocol;

Protocol protocol_of(int fd) {
  const int family = local_address(fd).family();
  return {family, family == AF_UNIX ? 0 : IPPROTO_TCP};
}

// Returns "" if the peer may try: over TCP any peer, over a Unix socket this user's. Another user's
// is told.
std::string foreign_user(int fd) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (local_address(fd).family() != AF_UNIX) return "";
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
    return system_message("SO_PEERCRED");
  if (peer.uid == geteuid()) return "";
  const Bytes refusal = refuse_user(geteuid(), peer.uid);
  (void)!send(fd, refusal.data(), refusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return fmt::format("process {} is of user {}, not of user {}", peer.pid, peer.uid, geteuid());
}

std::string peer_text(int fd) {
  SocketAddress there;
  there.bytes = sizeof(there.storage);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&there.storage), &there.bytes) != 0)
    return "an unknown peer";
  return there.family() == AF_UNIX ? "a process of this host" : to_string(there.numeric());
}

}  // namespace

// One connection whose handshake is not finished.
struct KeyedAcceptor::Pending {
  Pending(asio::io_context& io, int fd, const Identity& me)
      : socket(io, protocol_of(fd), fd), timer(io), steps(me) {}
  ~Pending() { close(); }
  void close() {
    over = true;
    timer.cancel();
    if (int fd = release(); fd >= 0) close_connection(fd);
  }
  // -1: it has none any more.
  int release() {
    if (!socket.is_open()) return -1;
    asio::error_code error;
    int fd = socket.release(error);
    return error ? -1 : fd;
  }
  // Its peer may know that already, and goes on: to refuse it now would leave a connection that one
  // side believes in.
  bool is_welcome() const { return steps.wanted() == 0 && steps.result().ok(); }
  Protocol::socket socket;
  asio::steady_timer timer;
  AcceptSteps steps;
  Bytes in, out;
  Clock::time_point since = Clock::now();
  bool over = false;  // handlers that were already queued have nothing to do
};

KeyedAcceptor::KeyedAcceptor(asio::io_context& io, int fd, const Identity& me, Events events)
    : io_(io), me_(me), events_(std::move(events)), door_(io, fd), pause_(io) {
  accept_next();
}

KeyedAcceptor::~KeyedAcceptor() {
  for (const PendingPtr& one : pending_) one->close();
  close_connection(door_.release());
}

void KeyedAcceptor::accept_next() {
  door_.async_wait(asio::posix::stream_descriptor::wait_read, [this](asio::error_code error) {
    if (error == asio::error::operation_aborted) return;
    try {
      accept_all();
    } catch (const std::exception& failure) {
      // The kernel or this process has no memory for another connection. Whatever it was: who
      // comes later is still let in.
      pause_until(Clock::now() + kAfterFailedAccept);
      events_.refused(failure.what());
    }
  });
}

void KeyedAcceptor::accept_all() {
  while (make_room()) {
    int fd = accept_connection(door_.native_handle());
    if (fd >= 0) {
      begin(fd);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return accept_next();
    } else if (errno != EINTR && errno != ECONNABORTED) {
      // Most likely out of descriptors: connections that end will free some.
      events_.refused(system_message("accept"));
      return pause_until(Clock::now() + kAfterFailedAccept);
    }
  }
}

// False: accepting goes on when this pause is over.
bool KeyedAcceptor::make_room() {
  if (pending_.size() < kMaxPending) return true;
  const auto first =
      std::ranges::find_if(pending_, [](const PendingPtr& one) { return !one->is_welcome(); });
  if (first == pending_.end()) return true;
  const PendingPtr oldest = *first;
  if (auto ripe = oldest->since + kGrace; Clock::now() < ripe) {
    pause_until(ripe);
    return false;
  }
  refuse(oldest, "it was the oldest of too many unfinished handshakes");
  return true;
}

void KeyedAcceptor::pause_until(Clock::time_point when) {
  paused_ = true;
  pause_.expires_at(when);
  pause_.async_wait([this](asio::error_code error) {
    if (!error) resume();
  });
}

void KeyedAcceptor::resume() {
  if (!std::exchange(paused_, false)) return;
  pause_.cancel();
  accept_next();
}

void KeyedAcceptor::begin(int fd) {
  std::string why = foreign_user(fd);
  if (why.empty() && events_.has_room && !events_.has_room()) why = "there are too many already";
  if (!why.empty()) {
    events_.refused(fmt::format("{}: {}", peer_text(fd), why));
    return close_connection(fd);
  }
  PendingPtr one;
  try {
    one = std::make_shared<Pending>(io_, fd, me_);
  } catch (...) {
    close_connection(fd);
    throw;
  }
  pending_.push_back(one);
  one->timer.expires_after(kHandshakeTime);
  one->timer.async_wait([this, one](asio::error_code error) {
    if (!error && !one->over && !one->is_welcome())
      refuse(one, "it did not finish the handshake in 5 s");
  });
  read_next(one);
}

void KeyedAcceptor::read_next(const PendingPtr& one) {
  one->in.resize(one->steps.wanted());
  asio::async_read(one->socket, asio::buffer(one->in), [this, one](asio::error_code error, size_t) {
    if (one->over) return;
    if (error) return refuse(one, "it closed the connection during the handshake");
    answer(one);
  });
}

void KeyedAcceptor::answer(const PendingPtr& one) {
  one->out = one->steps.take(one->in);
  asio::async_write(one->socket, asio::buffer(one->out),
                    [this, one](asio::error_code error, size_t) {
                      if (one->over) return;
                      if (error)
                        return refuse(one, "it closed the connection during the handshake");
                      if (one->steps.wanted() > 0) return read_next(one);
                      finish(one);
                    });
}

void KeyedAcceptor::finish(const PendingPtr& one) {
  auto result = one->steps.result();
  if (!result.ok()) return refuse(one, result.error().cause);
  int fd = one->release();
  if (fd < 0) return refuse(one, "its descriptor cannot be taken over");
  drop(one);
  events_.welcome(*result, fd);
}

void KeyedAcceptor::refuse(const PendingPtr& one, const std::string& why) {
  events_.refused(fmt::format("{}: {}", peer_text(one->socket.native_handle()), why));
  drop(one);
}

void KeyedAcceptor::drop(const PendingPtr& one) {
  one->close();
  pending_.remove(one);
  resume();
}

}  // namespace ringwood
