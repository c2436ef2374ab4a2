// A listening socket that admits only holders of the key. Handshakes run concurrently, so that a
// peer that is silent or slow delays no other.
//
//   1. Strangers cost a bounded amount: at most kMaxPending unfinished handshakes, fewer if this
//      process may open few files. Who is kept, who is dropped and who has to wait is decided by
//      Admission (admission/admission.h); the newcomer of whom nobody is dropped waits in the
//      kernel's queue.
//   2. Nobody is dropped before what he has sent was read.
//   3. The dialler speaks first. Over TCP the kernel keeps one that says nothing to itself for a
//      second (TCP_DEFER_ACCEPT); after that it comes in silent.
//   4. A Unix socket admits only processes of this user; others are told so and cut off at once.
//   5. No connection survives an exec, or a fork of this process.
//
// Everything happens in the thread that runs the io_context; destroy it in that thread or when that
// has ended. Handlers that are queued by then find the connection closed, and do nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "transports/base/asio.h"
#include "transports/base/clock.h"
#include "transports/bootstrap/admission/admission.h"
#include "transports/bootstrap/handshake.h"

namespace ringwood {

class KeyedAcceptor final {
 public:
  static constexpr size_t kMaxPending = 1024;

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

  // What each handler does: `work`, then what Admission says, then it waits for what comes next.
  void turn(const std::function<void()>& work);
  void act();
  void wait_again();
  void carry_out(const Admission::Action& action);
  void watch_door();
  void accept_some();
  bool drop_for_newcomer();
  bool has_room() const { return !events_.has_room || events_.has_room(); }
  void rest(const std::string& why) noexcept;
  void begin(int fd);
  void watch(const PendingPtr& one);
  void read(const PendingPtr& one);
  void take(const PendingPtr& one);
  bool send_reply(const PendingPtr& one);
  void finish(const PendingPtr& one);
  void refuse(const PendingPtr& one, const std::string& why);
  void forget(const PendingPtr& one);

  asio::io_context& io_;
  const Identity& me_;
  const Events events_;
  asio::posix::stream_descriptor door_;
  asio::steady_timer timer_;
  bool watching_ = false;            // the door
  Clock::time_point rests_until_{};  // accepts nobody before
  Admission admission_;
  std::map<Admission::Id, PendingPtr> pending_;
};

}  // namespace ringwood
