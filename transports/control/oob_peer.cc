#include "transports/control/oob_peer.h"

#include <fmt/core.h>

#include <utility>

#include "transports/control/explain_error.h"

namespace ringwood {
namespace {

constexpr int kRoot = 0;
constexpr std::chrono::milliseconds kRootPatience{300};
// Heartbeats between two questions about the clock, and how many follow at once at first.
constexpr int kClockPeriods = 4, kClockBurst = 16;
// A timer that fires this late belongs to a process that was itself kept from running.
constexpr std::chrono::milliseconds kStarved{100};

}  // namespace

OobPeer::OobPeer(asio::io_context& io, int rank, OobConnections& connections,
                 const Heartbeats& heartbeats, ErrorDelivery& delivery,
                 const Control::Handlers& handlers)
    : connections_(connections),
      heartbeats_(heartbeats),
      delivery_(delivery),
      handlers_(handlers),
      reports_(io, rank, connections, heartbeats, handlers.report) {}

bool OobPeer::on_message(int, const Message& message) {
  OpStatuses op_statuses;
  Error error;
  LeftRank left;
  if (message.type == MessageType::heartbeat) return decode(message.body, op_statuses);
  if (message.type == MessageType::query && message.body.empty()) {
    connections_.send(kRoot, MessageType::op_status, encode(handlers_.op_status()));
    return true;
  }
  if (message.type == MessageType::left && decode(message.body, left) &&
      left.rank < connections_.size()) {
    handlers_.left(left.rank);
    return true;
  }
  ClockQuestion answer;
  if (message.type == MessageType::clock && decode(message.body, answer)) {
    on_clock(answer);
    return true;
  }
  if (message.type == MessageType::group_error && decode(message.body, error) &&
      is_of_group(error, connections_.size())) {
    delivery_.deliver(error);
    return true;
  }
  return on_change(message) || on_report(message);
}

bool OobPeer::on_report(const Message& message) {
  ReportPage page;
  if (message.type == MessageType::report_request && message.body.empty()) {
    reports_.on_request();
    return true;
  }
  return message.type == MessageType::report_page && decode(message.body, page) &&
         reports_.on_page(page);
}

// A root that does not answer is not asked again, so that its buffers never fill.
void OobPeer::on_heartbeat() {
  if (asked_ns_ == 0 && heartbeats_sent_++ % kClockPeriods == 0) ask_clock();
}

void OobPeer::ask_clock() {
  if (leaving_ || delivery_.begun() || !connections_.present(kRoot)) return;
  asked_ns_ = Clock::now().time_since_epoch().count();
  connections_.send(kRoot, MessageType::clock, encode(ClockQuestion{asked_ns_}));
}

void OobPeer::on_clock(const ClockQuestion& answer) {
  const ClockSample sample = sample_of(answer, Clock::now().time_since_epoch().count());
  const bool mine = answer.asked_ns == std::exchange(asked_ns_, 0) && answer.asked_ns != 0;
  if (mine && sample.uncertainty_ns >= 0) handlers_.clock(sample);
  if (mine && ++answers_ < kClockBurst) ask_clock();
}

bool OobPeer::on_change(const Message& message) {
  PrepareChange prepare;
  CommitChange commit;
  AbandonChange abandon;
  if (message.type == MessageType::prepare_change && decode(message.body, prepare)) {
    if (prepare.epoch <= prepared_) return false;
    prepared_ = prepare.epoch;
    const auto first = handlers_.prepare(prepare.epoch, prepare.parameters);
    const ChangeReply reply{prepare.epoch, first.has_value(), first.value_or(0)};
    connections_.send(kRoot, MessageType::change_reply, encode(reply));
    return true;
  }
  if (message.type == MessageType::commit_change && decode(message.body, commit))
    return handlers_.commit(commit.epoch, commit.from);
  if (message.type == MessageType::abandon_change && decode(message.body, abandon)) {
    handlers_.abandon(abandon.epoch);
    return true;
  }
  return false;
}

// Before its goodbye the root has said how a change ends.
void OobPeer::on_goodbye(int rank) {
  handlers_.left(rank);
  if (delivery_.pending()) delivery_.deliver_own(delivery_.first(), connections_);
}

void OobPeer::on_death(int rank, Error death) {
  if (!delivery_.begun()) return delivery_.deliver(death);
  if (delivery_.is_loss_of(rank)) {
    delivery_.explain_loss(death);
  } else if (is_loss(delivery_.first())) {
    // The end of another peer is most often a consequence: that peer heard of the root's end a
    // little earlier.
    death.cause += fmt::format("; before it was known: {}", delivery_.first().message());
    return delivery_.deliver(death);
  }
  delivery_.deliver(delivery_.first());
}

void OobPeer::report(Error error) {
  if (delivery_.begun()) return;
  if (leaving_ || !connections_.present(kRoot))
    return delivery_.deliver_own(std::move(error), connections_);
  connections_.send(kRoot, MessageType::failure, encode(error));
  delivery_.begin(std::move(error));
  await_group_error();
}

void OobPeer::report(const PathReport& path) {
  if (!delivery_.begun() && connections_.present(kRoot))
    connections_.send(kRoot, MessageType::path_report, encode(path));
}

// Gives the root its time; time in which this process could not run does not count.
void OobPeer::await_group_error() {
  const auto until = Clock::now() + heartbeats_.patience(kRootPatience);
  delivery_.call_at(until, [this, until] {
    if (Clock::now() - until > kStarved) return await_group_error();
    delivery_.deliver_own(delivery_.first(), connections_);
  });
}

void OobPeer::on_leaving() {
  leaving_ = true;
  if (delivery_.pending()) delivery_.deliver_own(delivery_.first(), connections_);
}

}  // namespace ringwood
