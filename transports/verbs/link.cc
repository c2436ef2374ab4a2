#include "transports/verbs/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "transports/adopt.h"
#include "transports/fork_guard.h"
#include "transports/log.h"

namespace ringwood::verbs {
namespace {

// Somebody who never sleeps looks at the wire all the same, now and then.
constexpr unsigned kPollsPerLook = 1024;
// A rank that leaves stays until what it has sent is acknowledged.
constexpr Duration kDrain = std::chrono::seconds(2);
// Below, the copy (5 us for so much) costs less than the wait for an acknowledgement at the end: in
// the laboratory all-reduces of 32 to 128 KiB took 1.2 to 1.9 times as long when all was lent.
constexpr size_t kLendFrom = 128 << 10;

}  // namespace

VerbsLink::~VerbsLink() {
  if (forked_since(process_)) {  // the queues belong to the parent
    for (End& end : ends_) {
      (void)end.path.release();
      (void)end.fresh.release();
    }
    return;
  }
  if (in_use_ && !gate_.aborted() && !fault_) drain();
  ends_.clear();
  out_.end_registrations();
  for (Lane& lane : lanes_)
    if (lane.queue) lane.rail->channel().destroy_queue(lane.queue);
}

Status VerbsLink::why(size_t bytes) const {
  if (fault_) return fault_.status();
  return gate_.aborted() || bytes > 0 ? fault_.aborted() : fault_.empty_message();
}

// Only poll() sends, so that messages that were posted together are written together.
Status VerbsLink::post_send(const void* data, size_t bytes) {
  if (unusable(bytes)) return why(bytes);
  if (bytes < kLendFrom || !arena_ || !lend(data, bytes)) out_.post(data, bytes);
  return {};
}

// False: it is in no memory that a device knows.
bool VerbsLink::lend(const void* data, size_t bytes) {
  if (arena_->offset_of(data, bytes)) {
    out_.lend(data, bytes);
    return true;
  }
  Adopted* const adopted = Adopted::current();
  if (!adopted) return false;
  AbortGate::Pass pass(gate_);
  if (!pass) return false;
  auto lent = adopted->lend(data, bytes);
  if (!lent) return false;
  out_.lend(arena_->at(lent->offset), bytes, std::move(lent->hold));
  return true;
}

// A device may go on reading what was lent, which does no harm by itself, but the peer must not
// take for a message what its user writes there from now on.
void VerbsLink::abort() noexcept {
  gate_.abort();
  if (!lending_.load(std::memory_order_acquire) || forked_since(process_)) return;
  for (End& end : ends_) end.path->stop();
}

Status VerbsLink::post_recv(void* data, size_t bytes) {
  if (unusable(bytes)) return why(bytes);
  in_.post(static_cast<std::byte*>(data), bytes);
  return {};
}

Status VerbsLink::post_incoming(size_t bytes) {
  if (unusable(bytes)) return why(bytes);
  in_.post(nullptr, bytes);
  return {};
}

std::span<const std::byte> VerbsLink::incoming() {
  if (unusable(1)) return {};
  return in_.shown();
}

void VerbsLink::consume(size_t bytes) {
  bytes = std::min(bytes, incoming().size());
  if (bytes > 0) in_.consume(bytes);
}

Status VerbsLink::poll(Completions& completions) {
  Status status = move();
  completions = {out_.sent() - probes_, in_.received() - probes_};
  return status;
}

Status VerbsLink::move() {
  if (unusable(1)) return why(1);
  read_queues();
  const unsigned look = look_ ? look_->load(std::memory_order_acquire) : looked_ + 1;
  const bool looking = look != looked_ || ++polls_ % kPollsPerLook == 0;
  looked_ = look;
  if (on_wire_ || looking) read_wire();
  watch_paths();
  if (looking) reopen_paths();
  if (looking && !on_wire_) wire_.trim();
  {
    AbortGate::Pass pass(gate_);
    if (!pass) return why(1);
    in_.store();
    write_pieces();
    lending_.store(out_.lending(), std::memory_order_release);
  }
  give_credit();
  for (End& end : ends_)
    if (!end.path->renew_receives(false)) fail_path(end, system_message("ibv_post_recv"));
  if (wire_.queued() > 0) wire_.flush();
  if (fault_) return fault_.status();
  if (wire_.closed()) return peer_is_gone();
  if (looking && in_use_ && !(out_.idle() && in_.idle()) && watch_.gone(wire_.fd(), Clock::now()))
    return fault_.fail(ErrorCode::peer_lost,
                       "connection timed out: the peer's host acknowledges nothing");
  return {};
}

// It has written everything before it closed, so what is not here by now will not come.
Status VerbsLink::peer_is_gone() {
  read_queues();
  {
    AbortGate::Pass pass(gate_);
    if (!pass) return why(1);
    in_.store();
    end_lending();
  }
  const bool wanting = !out_.idle() || (!in_.idle() && !in_.readable());
  if (fault_ || !wanting) return fault_.status();
  if (wire_.failure() == 0)
    return fault_.fail(ErrorCode::peer_lost, "the peer closed the connection");
  return fault_.fail(ErrorCode::peer_lost,
                     system_message("the peer's connection", wire_.failure()));
}

// Acknowledgements that were lost do not come again, but the peer's last word was what it had read.
void VerbsLink::end_lending() {
  if (!out_.lending()) return;
  for (End& end : ends_) end.path->close();
  out_.forget([&](const Piece& piece) { return landed(piece) || out_.read(piece); });
}

bool VerbsLink::all_quiet() {
  return wire_.queued() == 0 && again_ == 0 &&
         std::all_of(ends_.begin(), ends_.end(), [](const End& end) {
           return !end.carrying || (end.path->state() == Path::State::alive && end.path->quiet());
         });
}

// What the peer has not acknowledged would be lost with the queue pairs.
void VerbsLink::drain() noexcept {
  try {
    wire_.queue({.type = FrameType::credit, .position = in_.credit()});
    for (End& end : ends_) {
      if (end.path->can_send() && !end.path->quiet())
        end.path->write({.immediate = pack({true, in_.credit()}), .signalled = true});
    }
    const Deadline deadline = Deadline::after(kDrain);
    while (!all_quiet() && !wire_.closed() && !fault_ && !deadline.passed()) {
      read_wire();
      if (!move()) return;
      std::this_thread::yield();
    }
  } catch (const std::exception& error) {
    log(LogLevel::warn, "verbs", fmt::format("link to rank {}: {}", peer_, error.what()));
  }
}

}  // namespace ringwood::verbs
