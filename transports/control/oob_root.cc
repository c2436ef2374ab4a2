#include "transports/control/oob_root.h"

#include <cmath>

namespace ringwood {
namespace {

constexpr std::chrono::milliseconds kQueryTime{60};
// A link often sees the end of its peer before the control connection does, which knows more. And
// data that a rank had sent before it left in good order may still be on its way: with it the
// others complete their earlier operations before the group error ends all of them.
constexpr std::chrono::milliseconds kDeathGrace{50};

}  // namespace

OobRoot::OobRoot(asio::io_context& io, OobConnections& connections, const Heartbeats& heartbeats,
                 ErrorDelivery& delivery, const Control::Handlers& handlers)
    : connections_(connections),
      heartbeats_(heartbeats),
      delivery_(delivery),
      handlers_(handlers),
      query_(connections.size()),
      change_(io, connections, delivery, handlers, heartbeats.patience(ParameterChange::kPatience)),
      reports_(io, connections, heartbeats, handlers.report) {}

bool OobRoot::on_message(int rank, const Message& message) {
  OpStatuses op_statuses;
  Error error;
  ChangeReply reply;
  PathReport path;
  ReportQuery report_query;
  ClockQuestion question;
  if (message.type == MessageType::heartbeat && decode(message.body, op_statuses)) {
    query_.note_heartbeat(rank, op_statuses);
    compare_channels(rank, op_statuses);
    return true;
  }
  if (message.type == MessageType::op_status && decode(message.body, op_statuses)) {
    count(rank, op_statuses);
    return true;
  }
  if (message.type == MessageType::failure && decode(message.body, error) &&
      is_of_group(error, connections_.size())) {
    freeze(std::move(error));
    return true;
  }
  if (message.type == MessageType::change_reply && decode(message.body, reply))
    return change_.on_reply(rank, reply);
  if (message.type == MessageType::path_report && decode(message.body, path))
    return on_path(rank, path);
  if (message.type == MessageType::report) return reports_.on_report(rank, message.body);
  if (message.type == MessageType::report_query && decode(message.body, report_query))
    return on_report_query(rank, report_query);
  if (message.type == MessageType::clock && decode(message.body, question)) {
    question.heard_ns = question.answered_ns = Clock::now().time_since_epoch().count();
    connections_.send(rank, MessageType::clock, encode(question));
    return true;
  }
  return false;
}

bool OobRoot::on_report_query(int rank, const ReportQuery& query) {
  reports_.ask(query.first, [this, rank](const ReportPage& page) {
    if (connections_.present(rank)) connections_.send(rank, MessageType::report_page, encode(page));
  });
  return true;
}

void OobRoot::ask_reports(const ReportQuery& query, ReportReply reply) {
  if (query.own)
    reply(reports_.own_page());
  else
    reports_.ask(query.first, std::move(reply));
}

bool OobRoot::on_path(int rank, const PathReport& path) {
  const auto rate = [](double value) { return std::isfinite(value) && value >= 0; };
  if (path.from != rank || path.to == rank || path.to >= connections_.size() || !rate(path.rate) ||
      !rate(path.expected))
    return false;
  if (!delivery_.begun()) handlers_.reported(path);
  return true;
}

void OobRoot::on_goodbye(int rank) {
  connections_.send_to_present(MessageType::left, encode(LeftRank{rank}));
  handlers_.left(rank);
  change_.on_goodbye();
  reports_.on_end();
  conclude_when_complete();
}

void OobRoot::on_death(int rank, Error death) {
  reports_.on_end();
  if (delivery_.is_loss_of(rank)) {
    delivery_.explain_loss(death);
    return conclude();
  }
  if (delivery_.begun()) return conclude_when_complete();
  freeze(std::move(death));
}

void OobRoot::report(Error error) {
  if (delivery_.begun()) return;
  if (leaving_) return delivery_.deliver_own(std::move(error), connections_);
  freeze(std::move(error));
}

// Fixes the first error. What remains to be learnt is what every rank was doing, or how a peer
// ended.
void OobRoot::freeze(Error error) {
  if (delivery_.begun()) return;
  const int peer = error.peer;
  const bool query = needs_status_query(error.code);
  const bool grace = is_loss(error) && peer > 0 && peer < connections_.size() &&
                     (connections_.present(peer) || connections_.left(peer));
  delivery_.begin(std::move(error));
  if (!query && !grace) return conclude();
  const Duration patience = heartbeats_.patience(query ? kQueryTime : kDeathGrace);
  delivery_.call_at(Clock::now() + patience, [this] { conclude(); });
  if (!query) return;
  connections_.send_to_present(MessageType::query);
  count(0, handlers_.op_status());
}

// No other rank can see this: each of the two waits on its channel for the other to begin. The
// channel of an operation never changes, so it does not matter that the two were asked at different
// times.
void OobRoot::compare_channels(int rank, const OpStatuses& theirs) {
  if (delivery_.begun() || leaving_) return;
  const int64_t sequence = on_other_channel(heartbeats_.said(), theirs);
  if (sequence >= 0) freeze(different_priorities(sequence, 0, rank));
}

void OobRoot::count(int rank, const OpStatuses& op_statuses) {
  query_.note_reply(rank, op_statuses);
  conclude_when_complete();
}

void OobRoot::conclude_when_complete() {
  if (!delivery_.pending() || !needs_status_query(delivery_.first().code)) return;
  if (query_.complete(connections_)) conclude();
}

// The root delivers the same bytes that it sends.
void OobRoot::conclude() {
  const std::string body =
      encode(explain_error(delivery_.first(), query_.rows(connections_, heartbeats_)));
  connections_.send_to_present(MessageType::group_error, body);
  Error group_error;
  decode(body, group_error);
  delivery_.deliver(group_error);
}

void OobRoot::on_leaving() {
  leaving_ = true;
  change_.stop();
  if (delivery_.pending()) conclude();
}

}  // namespace ringwood
