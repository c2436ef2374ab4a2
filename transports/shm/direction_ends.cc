#include "transports/shm/direction_ends.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "transports/base/clock.h"

namespace ringwood::shm {
namespace {

// A peer that is writing a put needs microseconds; one that was stopped meanwhile may need for
// ever.
constexpr auto kPutPatience = std::chrono::milliseconds(100);

}  // namespace

void AwaitedEdges::resolve(uint64_t number, bool placed) {
  std::erase_if(all_, [&](const Awaited& one) {
    if (one.number != number) return false;
    if (placed && one.edge.bytes > 0) std::memcpy(one.edge.own, one.edge.shadow, one.edge.bytes);
    return true;
  });
}

// ---- the sender

bool Sender::post(const void* data, size_t bytes, uint64_t put) {
  queue_.push({static_cast<const std::byte*>(data), bytes, 0, put, 0, 0, {}});
  return advance();
}

bool Sender::post_placed(size_t bytes) {
  queue_.push({nullptr, bytes, 0, 0, 0, 0, {}});
  return advance();
}

bool Sender::advance(size_t most) {
  bool plausible = true;
  moved_ = 0;
  more_ = false;
  while (next_ < queue_.size()) {
    if (moved_ >= most) [[unlikely]] {
      more_ = true;
      break;
    }
    Message& message = queue_[next_];
    if (!move_once(message, plausible)) break;
    if (message.done == message.bytes) ++next_;
  }
  return plausible && retire();
}

// In order: a message that has been sent may be behind one that is still exposed.
bool Sender::retire() {
  while (next_ > 0) {
    if (queue_.front().ticket > returned_) {
      const uint64_t returned = direction_.reader.returned.load(std::memory_order_acquire);
      if (returned < returned_ || returned > exposed_) return false;
      returned_ = returned;
      if (queue_.front().ticket > returned_) return true;
    }
    queue_.front().hold.reset();
    queue_.pop();
    --next_;
    ++finished_;
  }
  return true;
}

void Sender::announce(Notice notice) {
  slots_.write(&notice, sizeof notice);
  context_.alarm.wake();
}

// Advances one message by one move; true if anything moved.
bool Sender::move_once(Message& message, bool& plausible) {
  if (message.done > 0) return stage_piece(message, plausible);
  if (!slots_.free(plausible)) return false;
  if (message.data == nullptr) {
    announce({static_cast<uint64_t>(Way::placed), 0, 0});
    message.done = message.bytes;
    return true;
  }
  if (message.bytes <= kSmallBytes) {
    AbortGate::Access access(context_.gate);
    if (!access) return false;
    slots_.write(message.data, message.bytes);
    message.done = message.bytes;
    context_.alarm.wake();
    return true;
  }
  if (message.bytes >= zero_copy_from_ && arena_ &&
      direction_.reader.maps.load(std::memory_order_relaxed) != 0 && expose(message))
    return true;
  return stage_piece(message, plausible);
}

// False: the message is in no memory that the peer maps, or must not be read any more.
bool Sender::expose(Message& message) {
  AbortGate::Access access(context_.gate);
  if (!access) return false;
  if (const auto offset = arena_->offset_of(message.data, message.bytes)) {
    message.at = *offset;
  } else {
    RemappedMemory* remapped = RemappedMemory::current();
    auto exposed = remapped ? remapped->expose(message.data, message.bytes) : std::nullopt;
    if (!exposed) return false;
    message.at = exposed->offset;
    message.hold = std::move(exposed->hold);
    for (const RemappedMemory::Edge& edge : exposed->edges)
      if (message.put) context_.edges.await(message.put - 1, edge);
  }
  message.ticket = ++exposed_;
  message.done = message.bytes;
  announce({static_cast<uint64_t>(Way::zero_copy), message.at, message.put});
  return true;
}

bool Sender::stage_piece(Message& message, bool& plausible) {
  const bool first = message.done == 0;
  if (first) plausible = ring_.start(message.bytes);
  if (!plausible || ring_.full(plausible)) return false;
  AbortGate::Access access(context_.gate);
  if (!access) return false;
  const uint64_t start = ring_.head();
  const size_t piece = ring_.write(message.data + message.done, message.bytes - message.done);
  message.done += piece;
  moved_ += piece;
  if (first) {
    announce({static_cast<uint64_t>(Way::staged), ring_.head(), start});
  } else {
    ring_.publish();
    context_.alarm.wake();
  }
  return true;
}

void Sender::close() {
  direction_.writer.closed.store(kLinkClosed, std::memory_order_release);
  context_.alarm.wake();
}

void Sender::revoke(std::atomic<uint32_t>& putting) noexcept {
  direction_.revocation.revoked.store(1, std::memory_order_seq_cst);
  full_fence();
  const auto until = Clock::now() + kPutPatience;
  while (putting.load(std::memory_order_acquire) != 0 && Clock::now() < until)
    std::this_thread::yield();
  if (putting.load(std::memory_order_acquire) == 0) return;
  for (size_t i = 0; arena_ && i < next_; ++i)
    if (queue_[i].put && queue_[i].ticket) arena_->quarantine(arena_->at(queue_[i].at));
}

// ---- the receiver

bool Receiver::advance(size_t most) {
  bool plausible = true;
  moved_ = 0;
  more_ = false;
  while (plausible && !queue_.empty() && queue_.front().data != nullptr) {
    if (moved_ >= most) [[unlikely]] {
      more_ = true;
      break;
    }
    if (!copy_first(plausible)) break;
  }
  return plausible;
}

bool Receiver::copy_first(bool& plausible) {
  Message& message = queue_.front();
  if (!open(message, plausible)) return false;
  if (way_ == Way::placed) {
    AbortGate::Access access(context_.gate);
    if (!access) return false;
    context_.edges.arrived(finished_, true);
    return take(message.bytes);
  }
  const std::span<const std::byte> piece = arrived(plausible);
  if (piece.empty()) return false;
  AbortGate::Access access(context_.gate);
  if (!access) return false;
  const size_t bytes = std::min(piece.size(), kShmPiece);
  std::memcpy(message.data + message.done, piece.data(), bytes);
  moved_ += bytes;
  return take(bytes);
}

// Reads the notice of a message, once.
bool Receiver::open(Message& message, bool& plausible) {
  if (opened_) return true;
  const Slot& slot = direction_.slots[slots_ % kSlots];
  if (slot.stamp.load(std::memory_order_acquire) != slots_ + 1) return false;
  way_ = Way::staged;
  put_ = 0;
  if (message.bytes > kSmallBytes) {
    Notice notice;
    std::memcpy(&notice, slot.payload, sizeof notice);
    way_ = static_cast<Way>(notice.way);
    if (way_ == Way::staged) {
      plausible = ring_.start(notice.more, notice.at);
    } else if (way_ == Way::zero_copy) {
      exposed_ = arena_ ? arena_->at(notice.at, message.bytes) : nullptr;
      plausible = exposed_ != nullptr;
      put_ = notice.more;
    } else {
      plausible = way_ == Way::placed && message.data != nullptr;
    }
  }
  opened_ = plausible;
  return plausible;
}

std::span<const std::byte> Receiver::arrived(bool& plausible) {
  Message& message = queue_.front();
  if (!open(message, plausible)) return {};
  const size_t rest = message.bytes - message.done;
  if (message.bytes <= kSmallBytes)
    return {direction_.slots[slots_ % kSlots].payload + message.done, rest};
  if (way_ == Way::placed) return {};
  if (way_ == Way::zero_copy) return {exposed_ + message.done, rest};
  return ring_.arrived(rest, plausible);
}

bool Receiver::take(size_t bytes) {
  Message& message = queue_.front();
  message.done += bytes;
  const bool last = message.done == message.bytes;
  if (message.bytes > kSmallBytes && way_ == Way::staged) {
    if (ring_.take(bytes, last)) context_.alarm.wake();
  }
  if (!last) return true;
  if (way_ == Way::zero_copy && message.bytes > kSmallBytes) {
    full_fence();  // all reads come before the check of the revocation
    taken_back_ = direction_.revocation.revoked.load(std::memory_order_acquire) != 0;
    if (taken_back_) return false;
    direction_.reader.returned.store(++returned_, std::memory_order_release);
    context_.alarm.wake();
  }
  if (++slots_ % kSlotReport == 0) {
    direction_.reader.slots_read.store(slots_, std::memory_order_release);
    context_.alarm.wake();
  }
  opened_ = false;
  context_.edges.arrived(finished_, false);
  queue_.pop();
  ++finished_;
  return true;
}

std::byte* Receiver::put_place(uint64_t number) {
  bool plausible = true;
  if (queue_.empty() || queue_.front().done != 0 || !open(queue_.front(), plausible))
    return nullptr;
  if (way_ != Way::zero_copy || queue_.front().bytes <= kSmallBytes) return nullptr;
  return put_ == number + 1 ? exposed_ : nullptr;
}

}  // namespace ringwood::shm
