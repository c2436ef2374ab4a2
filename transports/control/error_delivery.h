// Delivers the group error to this rank, once: GroupError (collectives/runtime/group_error.h)
// reports a first error here and is told the group's, which explain_error() has made of it at the
// root.
//
// It has three stages: the first error (frozen by the root, or reported to it by a peer), a time in
// which more is learnt about it, and the group error. A rank that first hears of the error from the
// root delivers at once. Used only in the control thread.
#pragma once

#include <functional>
#include <optional>

#include "transports/base/asio.h"
#include "transports/base/clock.h"
#include "transports/base/error.h"
#include "transports/control/oob_connections.h"

namespace ringwood {

class ErrorDelivery final {
 public:
  using Failed = std::function<void(const Error&)>;
  // `failed` is called with the group error. It is not empty, and outlives this.
  ErrorDelivery(asio::io_context& io, const Failed& failed) : failed_(failed), timer_(io) {}

  // An error has begun; any later one is ignored.
  bool begun() const { return first_ || delivered_; }
  // Begun, and not delivered.
  bool pending() const { return first_ && !delivered_; }
  bool delivered() const { return delivered_; }
  // Precondition: !begun().
  void begin(Error error) { first_ = std::move(error); }
  // Precondition: pending().
  const Error& first() const { return *first_; }
  // The first error is the loss of that rank.
  bool is_loss_of(int rank) const;
  // Adds what became of the lost rank. Precondition: the first error is that loss.
  void explain_loss(const Error& death);

  // Calls `then` at that time, unless the group error is delivered before; replaces an earlier
  // call.
  void call_at(Clock::time_point time, std::function<void()> then);
  // Only the first call has an effect.
  void deliver(const Error& group_error);
  // For a rank without a root: adds what this rank knows about the error's peer, and delivers.
  void deliver_own(Error error, const OobConnections& connections);

 private:
  const Failed& failed_;
  asio::steady_timer timer_;
  std::optional<Error> first_;
  bool delivered_ = false;
};

}  // namespace ringwood
