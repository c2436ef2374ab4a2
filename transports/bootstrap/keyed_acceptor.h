// A listening socket that admits only holders of the key. Handshakes run concurrently, so that a
// peer that is silent or slow delays no other.
//
//   1. Strangers cost a bounded amount: at most kMaxPending handshakes, 5 s each. When there are
//      more, the oldest is dropped, but none younger than 100 ms: a crowd must not push out a peer
//      whose reply is on its way, nor one that has proved the key. Further connections wait in the
//      kernel's queue.
//   2. A Unix socket admits only processes of this user; others are told so and cut off at once.
//   3. No connection survives an exec, or a fork of this process.
//
// Everything happens in the thread that runs the io_context; destroy it in that thread or when that
// has ended. Handlers that are queued by then find the connection closed, and do nothing.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>

#include "transports/base/asio.h"
#include "transports/base/clock.h"
#include "transports/bootstrap/handshake.h"

namespace ringwood {

class KeyedAcceptor final {
 public:
  static constexpr size_t kMaxPending = 64;

  struct Events {
    // Takes over the descriptor, which is non-blocking and registered with close_on_fork.
    std::function<void(const Greeting&, int fd)> welcome;
    // A connection is refused ("from where: why", as strangers/refusals.h reads it), or cannot be
    // accepted ("why").
    std::function<void(const std::string& why)> refused;
    // True if there is room for one more connection; null: always.
    std::function<bool()> has_room;
  };

  // Takes over `fd`, which listens; `me` must outlive this.
  KeyedAcceptor(asio::io_context& io, int fd, const Identity& me, Events events);
  ~KeyedAcceptor();
  KeyedAcceptor(const KeyedAcceptor&) = delete;
  KeyedAcceptor& operator=(const KeyedAcceptor&) = delete;

 private:
  struct Pending;
  using PendingPtr = std::shared_ptr<Pending>;

  void accept_next();
  void accept_all();
  bool make_room();
  void pause_until(Clock::time_point when);
  void resume();
  void begin(int fd);
  void read_next(const PendingPtr& one);
  void answer(const PendingPtr& one);
  void finish(const PendingPtr& one);
  void refuse(const PendingPtr& one, const std::string& why);
  void drop(const PendingPtr& one);

  asio::io_context& io_;
  const Identity& me_;
  const Events events_;
  asio::posix::stream_descriptor door_;
  asio::steady_timer pause_;
  bool paused_ = false;
  std::list<PendingPtr> pending_;  // oldest first
};

}  // namespace ringwood
