#include "transports/bootstrap/keyed_acceptor.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transports/base/descriptors.h"
#include "transports/bootstrap/handshake_steps.h"
#include "transports/bootstrap/sockets.h"

namespace ringwood {
namespace {

constexpr Duration kAfterFailedAccept = std::chrono::milliseconds(50);
constexpr int kAtOnce = 16;  // accepted before those who are inside have their turn
constexpr int kSilentSeconds = 1;
constexpr size_t kMinPending = 8;
constexpr const char* kNoRoom = "there are too many already";

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
  const SocketAddress there = remote_address(fd);
  if (there.bytes == 0) return "an unknown peer";
  return there.family() == AF_UNIX ? "a process of this host" : to_string(there.numeric());
}

// What Admission calls one: a process of this host, an address, or the network of an IPv6 address,
// of whose addresses one host can have as many as it likes.
std::string source_of(int fd) {
  const SocketAddress there = remote_address(fd);
  if (there.family() == AF_UNIX) {
    ucred peer{};
    socklen_t bytes = sizeof(peer);
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
    return std::to_string(peer.pid);
  }
  if (there.family() != AF_INET6) return there.numeric().host;
  in6_addr v6;
  std::memcpy(&v6, &reinterpret_cast<const sockaddr_in6*>(there.get())->sin6_addr, sizeof(v6));
  const auto* first = reinterpret_cast<const char*>(&v6);
  return std::string(first, IN6_IS_ADDR_V4MAPPED(&v6) ? sizeof(v6) : sizeof(v6) / 2);
}

// A few listeners have not more than half of what this process may open.
size_t places() {
  try {
    make_room_for_descriptors(KeyedAcceptor::kMaxPending, "the handshakes at a port");
    return KeyedAcceptor::kMaxPending;
  } catch (const Error&) {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMinPending;
    return std::clamp<size_t>(limit.rlim_cur / 8, kMinPending, KeyedAcceptor::kMaxPending);
  }
}

}  // namespace

// One connection whose handshake is not finished.
struct KeyedAcceptor::Pending {
  Pending(asio::io_context& io, int fd, const Identity& me) : socket(io, fd), steps(me) {}
  ~Pending() { close(); }
  void close() { close_connection(release()); }
  // -1: it has none any more, and handlers that were queued have nothing to do.
  int release() { return socket.is_open() ? socket.release() : -1; }
  asio::posix::stream_descriptor socket;
  AcceptSteps steps;
  Bytes in, out;      // `in`: of the message that is wanted, what has come
  bool said = false;  // its hello is complete, so that Admission has its say
  bool watched = false;
  Admission::Id id = 0;
};

KeyedAcceptor::KeyedAcceptor(asio::io_context& io, int fd, const Identity& me, Events events)
    : io_(io),
      me_(me),
      events_(std::move(events)),
      door_(io, fd),
      timer_(io),
      admission_(places()) {
  // Without effect on a Unix socket.
  setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &kSilentSeconds, sizeof(kSilentSeconds));
  watch_door();
}

KeyedAcceptor::~KeyedAcceptor() {
  for (const auto& [id, one] : pending_) one->close();
  close_connection(door_.release());
}

// Whatever it was that failed (this process has no memory, say): who comes later is still let in.
void KeyedAcceptor::turn(const std::function<void()>& work) {
  const auto guarded = [this](const auto& part) {
    try {
      part();
    } catch (const std::exception& failure) {
      rest(failure.what());
    }
  };
  guarded(work);
  guarded([this] { act(); });
  wait_again();
}

void KeyedAcceptor::act() {
  while (const auto action = admission_.next(Clock::now())) carry_out(*action);
}

void KeyedAcceptor::wait_again() {
  const auto now = Clock::now();
  if (!watching_ && now >= rests_until_ && (!admission_.full() || admission_.in_the_way(now)))
    watch_door();
  auto when = admission_.next_change(now);
  if (!watching_ && now < rests_until_) when = std::min(when, rests_until_);
  if (when == Clock::time_point::max() || when == timer_.expiry()) return;
  timer_.expires_at(when);
  timer_.async_wait([this](asio::error_code error) {
    if (!error) turn([] {});
  });
}

void KeyedAcceptor::carry_out(const Admission::Action& action) {
  const PendingPtr one = pending_.at(action.id);
  if (action.kind == Admission::Action::Kind::drop) {
    read(one);
    if (one->socket.is_open()) refuse(one, action.why);
  } else if (send_reply(one)) {
    watch(one);
  }
}

void KeyedAcceptor::watch_door() {
  watching_ = true;
  door_.async_wait(asio::posix::stream_descriptor::wait_read, [this](asio::error_code error) {
    if (error == asio::error::operation_aborted) return;
    watching_ = false;
    turn([this] { accept_some(); });
  });
}

void KeyedAcceptor::accept_some() {
  for (int i = 0; i < kAtOnce; ++i) {
    while (admission_.full())
      if (!drop_for_newcomer()) return;
    const int fd = accept_connection(door_.native_handle());
    const int error = errno;
    if (fd >= 0) {
      begin(fd);
      act();
    } else if (error == EAGAIN || error == EWOULDBLOCK) {
      return;
    } else if (error != EINTR && error != ECONNABORTED && !drop_for_newcomer()) {
      // Most likely out of descriptors: connections that end will free some.
      return rest(system_message("accept", error));
    }
  }
}

// False: nobody may be dropped now.
bool KeyedAcceptor::drop_for_newcomer() {
  const auto drop = admission_.in_the_way(Clock::now());
  if (!drop) return false;
  const PendingPtr one = pending_.at(drop->id);
  const bool had_said = one->said;
  read(one);
  if (one->socket.is_open() && one->said == had_said) refuse(one, drop->why);
  return true;
}

void KeyedAcceptor::rest(const std::string& why) noexcept {
  rests_until_ = Clock::now() + kAfterFailedAccept;
  try {
    events_.refused(why);
  } catch (const std::exception&) {
  }
}

void KeyedAcceptor::begin(int fd) {
  std::string why = foreign_user(fd);
  if (why.empty() && !has_room()) why = kNoRoom;
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
  one->id = admission_.came(source_of(fd), Clock::now());
  pending_.emplace(one->id, one);
  read(one);
  if (one->socket.is_open() && !one->said) watch(one);
}

void KeyedAcceptor::watch(const PendingPtr& one) {
  if (std::exchange(one->watched, true)) return;
  one->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this, one](asio::error_code error) {
                           one->watched = false;
                           if (error || !one->socket.is_open()) return;
                           turn([&] {
                             read(one);
                             if (one->socket.is_open() && one->out.empty()) watch(one);
                           });
                         });
}

// Takes what has come, up to the message that is wanted now; nothing while a reply waits.
void KeyedAcceptor::read(const PendingPtr& one) {
  while (one->socket.is_open() && one->out.empty()) {
    const size_t have = one->in.size(), wanted = one->steps.wanted();
    one->in.resize(wanted);
    const ssize_t got =
        recv(one->socket.native_handle(), one->in.data() + have, wanted - have, MSG_DONTWAIT);
    const int error = errno;
    one->in.resize(have + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error == EINTR) continue;
    if (got < 0 && (error == EAGAIN || error == EWOULDBLOCK)) return;
    if (got <= 0) return refuse(one, "it closed the connection during the handshake");
    if (one->in.size() == wanted) take(one);
  }
}

// The reply to a hello waits for its turn, unless it is a refusal.
void KeyedAcceptor::take(const PendingPtr& one) {
  one->out = one->steps.take(one->in);
  one->in.clear();
  if (one->steps.wanted() > 0) {
    if (one->out.empty()) return;  // the rest of the hello is to come
    one->said = true;
    return admission_.spoke(one->id);
  }
  // Others may have come in since it was accepted; its dialler tries again.
  if (one->steps.result().ok() && !has_room()) return refuse(one, kNoRoom);
  if (send_reply(one)) finish(one);
}

// False: it was refused. The few bytes of a handshake fit what the kernel keeps of a connection.
bool KeyedAcceptor::send_reply(const PendingPtr& one) {
  const Bytes out = std::exchange(one->out, {});
  const ssize_t sent =
      send(one->socket.native_handle(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(out.size())) return true;
  refuse(one, "it closed the connection during the handshake");
  return false;
}

void KeyedAcceptor::finish(const PendingPtr& one) {
  auto result = one->steps.result();
  if (!result.ok()) return refuse(one, result.error().cause);
  const int fd = one->release();
  forget(one);
  events_.welcome(*result, fd);
}

void KeyedAcceptor::refuse(const PendingPtr& one, const std::string& why) {
  const std::string who = peer_text(one->socket.native_handle());
  one->close();
  forget(one);
  events_.refused(fmt::format("{}: {}", who, why));
}

void KeyedAcceptor::forget(const PendingPtr& one) {
  pending_.erase(one->id);
  admission_.left(one->id);
}

}  // namespace ringwood
