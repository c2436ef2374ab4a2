#include "transports/control_star.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "transports/host_watch.h"
#include "transports/log.h"
#include "transports/net.h"
#include "transports/pairs.h"
#include "transports/sockets.h"
#include "transports/thread.h"

namespace ringwood {
namespace {

constexpr int kSilentPeriods = 6;
// Idle connections are probed every second: one answer that is late on a busy host is no loss.
constexpr Duration kLeastPatience = std::chrono::milliseconds(2250);
// For what a peer does, once goodbye is said; the thread that says it may have to wait for a core.
constexpr std::chrono::milliseconds kGoodbyeTime{200}, kStarvedTime{10'000};
// A peer that says nothing reads nothing, and gets no more heartbeats than this: the kernel's room
// at its end is for what matters, and if it were ever full, the kernel would take its host for
// lost.
constexpr int kMostUnanswered = 32;

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

Greeting greeting_of(int rank) { return {Purpose::control, 0, rank, 0}; }

// Rank 0 waits for all before it names those who are missing.
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

}  // namespace

ControlStar::ControlStar(const Group& group, Control::Handlers handlers)
    : rank_(group.rank()),
      size_(group.size()),
      heartbeat_(group.options ? group.options->heartbeat : Options{}.heartbeat),
      handlers_(std::move(handlers)),
      members_(group.size()) {
  if (is_root()) {
    std::vector<int> fds = take_all(group);
    for (int rank = 1; rank < size_; ++rank) add_member(rank, fds[rank]);
  } else {
    auto fd = dial(addresses_of(group, 0), group.identity, greeting_of(rank_), group.deadline);
    if (!fd.ok()) throw fd.error();
    add_member(0, *fd);
  }
  send_to_present(MessageType::introduce, encode(Introduction{getpid(), host_name()}));
  asio::post(io_, [this] { tick(); });
  thread_ = start_thread("ringwood-ctrl", [this] { run(); });
}

void ControlStar::add_member(int rank, int fd) {
  ControlChannel::Events events;
  events.message = [this, rank](const Message& message) { return on_message(rank, message); };
  events.ended = [this, rank](const std::string& why) { on_ended(rank, why); };
  members_[rank].channel = std::make_unique<ControlChannel>(
      io_, fd, std::max(host_patience(heartbeat_), kLeastPatience), std::move(events));
  members_[rank].channel->start();
}

ControlStar::~ControlStar() {
  leave();
  io_.stop();
  thread_.join();
}

void ControlStar::run() {
  for (;;) {
    try {
      io_.run();
      return;
    } catch (const std::exception& error) {
      log(LogLevel::error, "control", fmt::format("a handler threw: {}", error.what()));
    }
  }
}

std::string ControlStar::name(int rank) const {
  const Introduction& who = members_[rank].who;
  if (who.pid == 0) return fmt::format("rank {}", rank);
  return fmt::format("rank {} ({}, pid {})", rank, who.host, who.pid);
}

Standings ControlStar::own_standings() const {
  return handlers_.standing ? handlers_.standing() : Standings{};
}

void ControlStar::send_to_present(MessageType type, std::string_view body) {
  for (Member& member : members_) {
    if (member.present()) member.channel->send(type, body);
  }
}

// ---- heartbeats --------------------------------------------------------------------------------

void ControlStar::tick() {
  auto now = Clock::now();
  // Time in which this process itself stood still says nothing about the others.
  auto own_pause = now - ticked_ - heartbeat_;
  if (own_pause > heartbeat_) {
    for (Member& member : members_) member.heard += own_pause;
  }
  ticked_ = now;
  ticked_at_ = own_standings();
  for (Standing& standing : ticked_at_) standing.text.clear();
  std::string body = encode(ticked_at_);
  for (int rank = 0; rank < size_; ++rank) {
    Member& member = members_[rank];
    if (!member.present()) continue;
    if (member.unanswered < kMostUnanswered) {
      member.channel->send(MessageType::heartbeat, body);
      ++member.unanswered;
    }
    watch(rank, now);
  }
  ticks_.expires_at(now + heartbeat_);
  ticks_.async_wait([this](asio::error_code error) {
    if (!error) tick();
  });
}

void ControlStar::watch(int rank, Clock::time_point now) {
  Member& member = members_[rank];
  // Before its first word a rank is still waiting for others to come.
  if (member.warned || member.who.pid == 0 || delivered_) return;
  if (now - member.heard < kSilentPeriods * heartbeat_) return;
  member.warned = true;
  log(LogLevel::warn, "control",
      fmt::format("{} has been silent for {:.1f} s; stopped or starved?", name(rank),
                  seconds(now - member.heard)));
}

void ControlStar::note_heard(int rank) {
  Member& member = members_[rank];
  auto now = Clock::now();
  if (member.warned) {
    log(LogLevel::warn, "control",
        fmt::format("{} answers again after {:.1f} s", name(rank), seconds(now - member.heard)));
    member.warned = false;
  }
  member.heard = now;
  member.unanswered = 0;
}

// ---- what the others say -----------------------------------------------------------------------

bool ControlStar::on_message(int rank, const Message& message) {
  Member& member = members_[rank];
  note_heard(rank);
  Standings standings;
  switch (message.type) {
    case MessageType::introduce: return decode(message.body, member.who);
    case MessageType::heartbeat:
      if (!decode(message.body, standings)) return false;
      if (!member.counted) member.standings = std::move(standings);
      if (is_root()) compare_channels(rank);
      return true;
    case MessageType::goodbye: return message.body.empty() && on_goodbye(rank);
    case MessageType::seen:
      member.goodbye_seen = true;
      check_goodbyes();
      return message.body.empty();
    default: return is_root() ? on_message_of_point(rank, message) : on_message_of_root(message);
  }
}

bool ControlStar::on_message_of_point(int rank, const Message& message) {
  Standings standings;
  Error error;
  if (message.type == MessageType::standing && decode(message.body, standings)) {
    count(rank, standings);
    return true;
  }
  if (message.type == MessageType::failure && decode(message.body, error)) {
    freeze(std::move(error));
    return true;
  }
  return false;
}

bool ControlStar::on_message_of_root(const Message& message) {
  Error error;
  int rank = -1;
  if (message.type == MessageType::query && message.body.empty()) {
    members_[0].channel->send(MessageType::standing, encode(own_standings()));
    return true;
  }
  if (message.type == MessageType::left && decode_rank(message.body, size_, rank)) {
    if (handlers_.left) handlers_.left(rank);
    return true;
  }
  if (message.type == MessageType::verdict && decode(message.body, error)) {
    deliver(error);
    return true;
  }
  return false;
}

bool ControlStar::on_goodbye(int rank) {
  Member& member = members_[rank];
  if (member.left) return false;
  member.left = true;
  member.channel->send(MessageType::seen);
  if (is_root()) send_to_present(MessageType::left, encode_rank(rank));
  if (handlers_.left) handlers_.left(rank);
  check_goodbyes();
  conclude_when_complete();
  return true;
}

void ControlStar::on_ended(int rank, const std::string& why) {
  Member& member = members_[rank];
  check_goodbyes();
  if (member.left || leaving_ || delivered_) return;
  member.died = true;
  Error error(ErrorCode::peer_lost, fmt::format("{} {}", name(rank), why));
  const Standings own = own_standings();
  if (std::ranges::any_of(own, &Standing::inside))
    error.cause += fmt::format("; rank {} was {}", rank_, place_of(own));
  error.rank = rank_;
  error.host = host_name();
  error.peer = rank;
  on_death(rank, std::move(error));
}

// ---- leaving -----------------------------------------------------------------------------------

void ControlStar::say_goodbye() {
  if (leaving_) return;
  settle_before_leaving();
  leaving_ = true;
  send_to_present(MessageType::goodbye);
  check_goodbyes();
  std::lock_guard lock(mutex_);
  goodbyes_said_ = true;
  goodbyes_done_.notify_all();
}

// Closing while the other side still sends would reset the connection under our goodbye, so that it
// was seen is awaited.
void ControlStar::check_goodbyes() {
  if (!leaving_) return;
  for (const Member& member : members_) {
    if (member.present() && !member.goodbye_seen) return;
  }
  std::lock_guard lock(mutex_);
  goodbyes_complete_ = true;
  goodbyes_done_.notify_all();
}

void ControlStar::leave() noexcept {
  if (leave_called_.exchange(true)) return;
  try {
    asio::post(io_, [this] { say_goodbye(); });
    if (io_.get_executor().running_in_this_thread()) return;  // called by a handler
    std::unique_lock lock(mutex_);
    goodbyes_done_.wait_for(lock, kStarvedTime, [this] { return goodbyes_said_; });
    goodbyes_done_.wait_for(lock, kGoodbyeTime, [this] { return goodbyes_complete_; });
  } catch (const std::exception& error) {
    log(LogLevel::error, "control", fmt::format("cannot say goodbye: {}", error.what()));
  }
}

}  // namespace ringwood
