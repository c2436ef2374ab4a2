// Rank 0's side of a change of parameters: two phases, one change at a time.
//
//   prepare to all -> all that are present are ready in time -> commit to all
//                  -> one is not ready, or has not answered: abandon to all, nothing has happened
//
// Ranks that have left in good order submit nothing any more, and are not asked. A death ends the
// group, and any change with it. Used only in the control thread.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>

#include "transports/base/asio.h"
#include "transports/base/clock.h"
#include "transports/control/error_delivery.h"
#include "transports/control/oob_connections.h"
#include "transports/control/parameter_messages.h"

namespace ringwood {

class ParameterChange final {
 public:
  // How long the ranks have to get ready, with the usual heartbeat. Meanwhile nobody waits, unless
  // it submits more than the time of a usual change allows.
  static constexpr std::chrono::seconds kPatience{1};

  // No handler is empty. All references must outlive this.
  ParameterChange(asio::io_context& io, OobConnections& connections, const ErrorDelivery& delivery,
                  const Control::Handlers& handlers, Duration patience);

  // Begins it, after the change that is under way. Of several that wait, the last counts.
  void propose(Proposal proposal);
  // False: no rank sends this.
  bool on_reply(int rank, const ChangeReply& reply);
  // A rank has left in good order.
  void on_goodbye();
  // This rank is about to leave.
  void stop();

 private:
  bool under_way() const { return !present_.parameters.empty(); }
  void begin(Proposal proposal);
  void conclude_when_complete();
  void commit();
  void abandon(const std::string& why);
  void end();
  std::string missing() const;

  OobConnections& connections_;
  const ErrorDelivery& delivery_;
  const Control::Handlers& handlers_;
  const Duration patience_;
  asio::steady_timer timer_;
  uint32_t epoch_ = 0;  // of the change under way, or of the last one
  Proposal present_;    // without parameters: none is under way
  std::optional<Proposal> next_;
  std::set<int> ready_;
  uint64_t from_ = 0;  // the greatest of the numbers that the ready ranks have named
  bool stopped_ = false;
};

}  // namespace ringwood
