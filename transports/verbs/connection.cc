#include "transports/verbs/connection.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <thread>

#include "transports/base/log.h"
#include "transports/base/wait_set.h"

namespace ringwood::verbs {
namespace {

// A thread that never sleeps reads the fallback connection every so many polls.
constexpr unsigned kPollsPerLook = 1024;
// A rank that leaves waits at most this long for the acknowledgement of what it has sent.
constexpr Duration kDrain = std::chrono::seconds(2);

void note(WriteTraffic& traffic, const Carried& carried, bool armed) {
  traffic.carry(carried.part);
  if (traffic.due(carried.open)) traffic.look(carried.open, carried.landed, armed, Clock::now());
}

}  // namespace

Connection::Connection(const Group& group, int peer, OwnedFd fallback, const Rings& rings,
                       size_t number)
    : link_(group, peer, std::move(fallback)),
      paths_(link_, *this),
      data_(link_, paths_, rings, number),
      reopener_(link_, paths_, rings.scrap()) {}

// Destroys the queue pairs before the registrations that they may be reading from, and those before
// the rails.
Connection::~Connection() { paths_.slots().clear(); }

void Connection::use(WaitSet& wait_set, std::chrono::milliseconds heartbeat,
                     std::shared_ptr<const std::atomic<unsigned>> look) {
  keep_alive(link_.fallback.fd(), kDataIdle, host_patience(heartbeat));
  host_ = HostWatch(host_patience(heartbeat));
  wait_set.add(link_.fallback.fd(), EPOLLIN | EPOLLOUT);
  look_ = std::move(look);
  in_use_ = true;
}

// ---- moving ------------------------------------------------------------------------------------

bool Connection::time_to_look() {
  const unsigned look = look_ ? look_->load(std::memory_order_acquire) : looked_ + 1;
  armed_ = look != looked_;
  const bool now = armed_ || ++polls_ % kPollsPerLook == 0;
  looked_ = look;
  return now;
}

Status Connection::move() {
  if (link_.over()) return link_.why(1);
  FallbackConnection& fallback = link_.fallback;
  paths_.read();
  const bool looking = time_to_look();
  if (paths_.none_left() || looking) read_fallback();
  paths_.watch();
  if (looking && in_use_) reopener_.look();
  if (looking && !paths_.none_left()) fallback.trim();
  if (!data_.move()) return link_.why(1);
  data_.give_credit(!in_use_);  // without a completion the path would not count as quiet yet
  paths_.renew_receives(false);
  if (in_use_) note(traffic_, paths_.carried(), armed_);
  if (fallback.queued() > 0) fallback.flush();
  if (link_.fault) return link_.fault.status();
  if (fallback.closed()) return peer_is_gone();
  if (looking && in_use_ && host_is_gone())
    return link_.fault.fail(ErrorCode::peer_lost,
                            "connection timed out: the peer's host acknowledges nothing");
  return {};
}

void Connection::lost(PathSlot& slot) {
  reopener_.lost(slot);
  data_.incoming().repeat_credit();  // the last one may have been lost
}

// ---- the fallback connection -------------------------------------------------------------------

void Connection::read_fallback() {
  link_.fallback.receive([&](const Frame& frame, std::span<const std::byte> payload) {
    if (!take(frame, payload))
      link_.fault.set(ErrorCode::internal,
                      "the peer sent an invalid frame over the fallback connection");
    return true;
  });
}

bool Connection::take(const Frame& frame, std::span<const std::byte> payload) {
  switch (frame.type) {
    case FrameType::path_down: return paths_.take_path_down(frame.path);
    case FrameType::result: result_ = frame.path == 1; return true;
    case FrameType::credit:
    case FrameType::data: return data_.take(frame, payload);
    default: return in_use_ && reopener_.take(frame, payload);
  }
}

bool Connection::host_is_gone() {
  const bool waiting = !data_.outgoing().idle() || !data_.incoming().idle();
  return waiting && host_.gone(link_.fallback.fd(), Clock::now());
}

// The peer has written everything before it closed, so what is not here by now will not come.
Status Connection::peer_is_gone() {
  paths_.read();
  if (!data_.take_the_rest()) return link_.why(1);
  Incoming& in = data_.incoming();
  const bool wanting = !data_.outgoing().idle() || (!in.idle() && !in.readable());
  if (link_.fault || !wanting) return link_.fault.status();
  if (link_.fallback.failure() == 0)
    return link_.fault.fail(ErrorCode::peer_lost, "the peer closed the connection");
  return link_.fault.fail(ErrorCode::peer_lost,
                          system_message("the peer's connection", link_.fallback.failure()));
}

// ---- the end -----------------------------------------------------------------------------------

void Connection::abort() noexcept {
  link_.gate.abort();
  if (data_.reads_user_memory() && !link_.inherited()) paths_.stop();
}

bool Connection::all_quiet() {
  const auto& slots = paths_.slots();
  return link_.fallback.queued() == 0 && data_.replayed() &&
         std::all_of(slots.begin(), slots.end(), [](const PathSlot& slot) {
           return !slot.carrying ||
                  (slot.path->state() == Path::State::alive && slot.path->quiet());
         });
}

void Connection::drain() noexcept {
  try {
    Incoming& in = data_.incoming();
    link_.fallback.queue({.type = FrameType::credit, .position = in.credit()});
    for (PathSlot& slot : paths_.slots()) {
      if (slot.path->can_send() && !slot.path->quiet())
        slot.path->write({.immediate = pack({true, in.credit()}), .signalled = true});
    }
    const Deadline deadline = Deadline::after(kDrain);
    while (!all_quiet() && !link_.fallback.closed() && !link_.fault && !deadline.passed()) {
      read_fallback();
      if (!move()) return;
      std::this_thread::yield();
    }
  } catch (const std::exception& error) {
    log(LogLevel::warn, "verbs", fmt::format("link to rank {}: {}", link_.peer, error.what()));
  }
}

}  // namespace ringwood::verbs
