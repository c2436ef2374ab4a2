#include "transports/control/oob_endpoint.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "transports/base/hash.h"
#include "transports/base/host.h"
#include "transports/base/host_watch.h"
#include "transports/base/log.h"
#include "transports/base/thread.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/sockets.h"
#include "transports/control/oob_peer.h"
#include "transports/control/oob_root.h"
#include "transports/pairs.h"

namespace ringwood {
namespace {

Greeting greeting_of(int rank) { return {Purpose::control, 0, rank, 0}; }

// Rank 0 waits for all ranks before it names the missing ones.
std::vector<int> take_all(const Group& group) {
  std::vector<int> fds(group.size(), -1), missing;
  for (int rank = 1; rank < group.size(); ++rank) {
    auto fd = group.listener->take(greeting_of(rank), group.deadline);
    if (fd.ok()) {
      fds[rank] = *fd;
    } else {
      missing.push_back(rank);
    }
  }
  if (missing.empty()) return fds;
  for (int fd : fds) close_connection(fd);
  Error error(ErrorCode::timeout,
              fmt::format("{} did not open a control connection to rank 0 at {}; do they run, and "
                          "does a firewall let them through?",
                          list_ranks(missing), to_string(group.listener->addresses())));
  error.rank = group.rank();
  error.host = host_name();
  error.peer = missing.front();
  throw error;
}

Control::Handlers without_empty(Control::Handlers handlers) {
  if (!handlers.op_status) handlers.op_status = [] { return OpStatuses{}; };
  if (!handlers.failed) handlers.failed = [](const Error&) {};
  if (!handlers.left) handlers.left = [](int) {};
  if (!handlers.prepare) handlers.prepare = [](auto...) { return std::nullopt; };
  if (!handlers.commit) handlers.commit = [](auto...) { return false; };
  if (!handlers.abandon) handlers.abandon = [](auto...) {};
  if (!handlers.paths) handlers.paths = [] { return std::vector<PathReport>{}; };
  if (!handlers.next_change) handlers.next_change = [] { return Proposal{}; };
  if (!handlers.reported) handlers.reported = [](auto&) {};
  if (!handlers.report) handlers.report = [] { return std::string(); };
  if (!handlers.trace)
    handlers.trace = [](const auto& done) {
      done(Error(ErrorCode::unsupported, "it records nothing"));
    };
  if (!handlers.clock) handlers.clock = [](auto&) {};
  return handlers;
}

std::unique_ptr<OobSide> make_side(int rank, asio::io_context& io, OobConnections& connections,
                                   const Heartbeats& heartbeats, ErrorDelivery& delivery,
                                   const Control::Handlers& handlers) {
  if (rank == 0) return std::make_unique<OobRoot>(io, connections, heartbeats, delivery, handlers);
  return std::make_unique<OobPeer>(io, rank, connections, heartbeats, delivery, handlers);
}

}  // namespace

OobEndpoint::OobEndpoint(const Group& group, Control::Handlers handlers)
    : rank_(group.rank()),
      heartbeat_(group.options ? group.options->heartbeat : Options{}.heartbeat),
      handlers_(without_empty(std::move(handlers))),
      connections_(group.size()),
      delivery_(io_, handlers_.failed),
      heartbeats_(io_, connections_, delivery_, heartbeat_, handlers_.op_status,
                  [this] { on_heartbeat(); }),
      goodbyes_(connections_),
      side_(make_side(rank_, io_, connections_, heartbeats_, delivery_, handlers_)),
      traces_(io_, rank_, connections_, heartbeats_, handlers_.trace) {
  connect(group);
  connections_.send_to_present(MessageType::introduce, encode(Introduction{getpid(), host_name()}));
  heartbeats_.start();
  open_status(group);
  thread_ = start_thread("ringwood-ctrl", [this] { run(); });
}

void OobEndpoint::connect(const Group& group) {
  if (rank_ == 0) {
    std::vector<int> fds = take_all(group);
    for (int rank = 1; rank < group.size(); ++rank) add(rank, fds[rank]);
    return;
  }
  auto fd = dial(addresses_of(group, 0), group.identity, greeting_of(rank_), group.deadline);
  if (!fd.ok()) throw fd.error();
  add(0, *fd);
}

// Without it the group lacks nothing, so it goes on.
void OobEndpoint::open_status(const Group& group) {
  if (!group.options || !group.options->status) return;
  const auto& session = group.identity.session;
  const uint64_t id = fnv1a_64({reinterpret_cast<const char*>(session.data()), session.size()});
  try {
    status_ = std::make_unique<StatusEndpoint>(
        io_, StatusName{.user = geteuid(), .pid = getpid(), .group = id, .rank = rank_},
        StatusEndpoint::Answers{[this](const ReportQuery& query, ReportReply reply) {
                                  side_->ask_reports(query, std::move(reply));
                                },
                                [this](const TraceQuery& query, TraceReply reply) {
                                  traces_.ask(query, std::move(reply));
                                }});
  } catch (const Error& error) {
    log(LogLevel::info, "control", "`ringwood top` cannot see this rank: " + error.cause);
  }
}

void OobEndpoint::add(int rank, int fd) {
  ControlChannel::Events events;
  events.message = [this, rank](const Message& message) { return on_message(rank, message); };
  events.ended = [this, rank](const std::string& why) { on_ended(rank, why); };
  connections_.add(rank, std::make_unique<ControlChannel>(io_, fd, host_patience(heartbeat_),
                                                          std::move(events)));
}

OobEndpoint::~OobEndpoint() {
  leave();
  io_.stop();
  thread_.join();
}

void OobEndpoint::run() {
  for (;;) {
    try {
      io_.run();
      return;
    } catch (const std::exception& error) {
      log(LogLevel::error, "control", fmt::format("a handler threw: {}", error.what()));
    }
  }
}

void OobEndpoint::on_heartbeat() {
  if (delivery_.begun() || goodbyes_.said()) return;
  side_->on_heartbeat();
  for (const PathReport& path : handlers_.paths()) side_->report(path);
  if (rank_ == 0) side_->propose(handlers_.next_change());
}

bool OobEndpoint::on_message(int rank, const Message& message) {
  heartbeats_.note_heard(rank);
  Introduction who;
  switch (message.type) {
    case MessageType::introduce:
      if (!decode(message.body, who)) return false;
      connections_.introduce(rank, std::move(who));
      return true;
    case MessageType::goodbye: return message.body.empty() && on_goodbye(rank);
    case MessageType::seen:
      goodbyes_.note_seen(rank);
      goodbyes_.check();
      return message.body.empty();
    case MessageType::trace_query:
    case MessageType::trace_piece: return on_trace(rank, message);
    default: return side_->on_message(rank, message);
  }
}

bool OobEndpoint::on_trace(int rank, const Message& message) {
  TraceQuery query;
  TracePiece piece;
  if (message.type == MessageType::trace_query)
    return decode(message.body, query) && traces_.on_query(rank, query);
  return decode(message.body, piece) && traces_.on_piece(rank, piece);
}

bool OobEndpoint::on_goodbye(int rank) {
  if (connections_.left(rank)) return false;
  connections_.set_left(rank);
  connections_.send(rank, MessageType::seen);
  side_->on_goodbye(rank);
  goodbyes_.check();
  return true;
}

void OobEndpoint::on_ended(int rank, const std::string& why) {
  goodbyes_.check();
  if (connections_.left(rank) || goodbyes_.said() || delivery_.delivered()) return;
  connections_.set_died(rank);
  Error death(ErrorCode::peer_lost, fmt::format("{} {}", connections_.name(rank), why));
  const OpStatuses own = handlers_.op_status();
  if (std::ranges::any_of(own, &OpStatus::inside))
    death.cause += fmt::format("; rank {} was {}", rank_, place_of(own));
  death.rank = rank_;
  death.host = host_name();
  death.peer = rank;
  side_->on_death(rank, std::move(death));
}

void OobEndpoint::fail(Error error) {
  asio::post(io_, [this, error = std::move(error)] { side_->report(error); });
}

void OobEndpoint::propose(Proposal proposal) {
  asio::post(io_, [this, proposal = std::move(proposal)] { side_->propose(proposal); });
}

void OobEndpoint::say_goodbye() {
  if (status_) status_->close();
  side_->on_leaving();
  goodbyes_.say();
}

void OobEndpoint::leave() noexcept {
  if (leave_called_.exchange(true)) return;
  try {
    asio::post(io_, [this] { say_goodbye(); });
    if (io_.get_executor().running_in_this_thread()) return;  // called by a handler
    goodbyes_.wait();
  } catch (const std::exception& error) {
    log(LogLevel::error, "control", fmt::format("cannot say goodbye: {}", error.what()));
  }
}

}  // namespace ringwood
