#include "transports/control/error_delivery.h"

#include "transports/control/explain_error.h"

namespace ringwood {

bool ErrorDelivery::is_loss_of(int rank) const {
  return first_ && is_loss(*first_) && first_->peer == rank;
}

void ErrorDelivery::explain_loss(const Error& death) {
  first_->code = death.code;
  first_->cause = death.cause;
}

void ErrorDelivery::call_at(Clock::time_point time, std::function<void()> then) {
  timer_.expires_at(time);
  timer_.async_wait([this, then = std::move(then)](asio::error_code error) {
    if (!error && !delivered_) then();
  });
}

void ErrorDelivery::deliver(const Error& group_error) {
  if (delivered_) return;
  delivered_ = true;
  timer_.cancel();
  failed_(group_error);
}

void ErrorDelivery::deliver_own(Error error, const OobConnections& connections) {
  const bool departed =
      error.peer >= 0 && error.peer < connections.size() && connections.left(error.peer);
  if (is_loss(error) && departed) error.cause = left_text(error.peer);
  deliver(error);
}

}  // namespace ringwood
