#include "transports/shm/lane_ends.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "transports/clock.h"

namespace ringwood::shm {
namespace {

// Large messages are published in pieces, so that both ends copy at the same time.
constexpr size_t kPieceBytes = size_t{128} << 10;
// What a ring may be used ahead without asking whether it is empty.
constexpr uint64_t kWarmBytes = uint64_t{16} << 10;
// A peer that writes an answer needs microseconds; one that was stopped meanwhile may need for
// ever.
constexpr auto kAnswerPatience = std::chrono::milliseconds(100);

uint64_t line_up(uint64_t bytes) { return (bytes + kLine - 1) & ~uint64_t{kLine - 1}; }

}  // namespace

void AwaitedEdges::settle(uint64_t number, bool placed) {
  std::erase_if(all_, [&](const Awaited& one) {
    if (one.number != number) return false;
    if (placed && one.edge.bytes > 0) std::memcpy(one.edge.own, one.edge.shadow, one.edge.bytes);
    return true;
  });
}

// ---- the sender

bool Sender::post(const void* data, size_t bytes, uint64_t answer) {
  queue_.push({static_cast<const std::byte*>(data), bytes, 0, answer, 0, 0, {}});
  return advance();
}

bool Sender::post_placed(size_t bytes) {
  queue_.push({nullptr, bytes, 0, 0, 0, 0, {}});
  return advance();
}

bool Sender::advance() {
  bool believable = true;
  while (next_ < queue_.size()) {
    Message& message = queue_[next_];
    if (!put(message, believable)) break;
    if (message.done == message.bytes) ++next_;
  }
  return believable && retire();
}

// In order: a message that has left may be behind one that is still lent.
bool Sender::retire() {
  while (next_ > 0) {
    if (queue_.front().ticket > returned_) {
      const uint64_t returned = lane_.reader.returned.load(std::memory_order_acquire);
      if (returned < returned_ || returned > lent_) return false;
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

bool Sender::slot_free(bool& believable) {
  if (slots_written_ - slots_read_ < kSlots) return true;
  const uint64_t read = lane_.reader.slots_read.load(std::memory_order_acquire);
  believable = read >= slots_read_ && read <= slots_written_;
  if (!believable || read == slots_read_) return false;
  slots_read_ = read;
  return true;
}

void Sender::announce(Notice notice) {
  Slot& slot = lane_.slots[slots_written_ % kSlots];
  std::memcpy(slot.payload, &notice, sizeof notice);
  slot.stamp.store(++slots_written_, std::memory_order_release);
  fetch_to_write(&lane_.slots[slots_written_ % kSlots]);
  bench_.alarm.wake();
}

// One move of one message; true if anything moved.
bool Sender::put(Message& message, bool& believable) {
  if (message.done > 0) return put_piece(message, believable);
  if (!slot_free(believable)) return false;
  if (message.data == nullptr) {
    announce({static_cast<uint64_t>(Way::placed), 0, 0});
    message.done = message.bytes;
    return true;
  }
  if (message.bytes <= kSmallBytes) {
    AbortGate::Pass pass(bench_.gate);
    if (!pass) return false;
    put_small(message);
    return true;
  }
  if (message.bytes >= lend_from_ && arena_ &&
      lane_.reader.maps.load(std::memory_order_relaxed) != 0 && lend(message))
    return true;
  return put_piece(message, believable);
}

// False: it is in no memory that the peer sees, or must not be read any more.
bool Sender::lend(Message& message) {
  AbortGate::Pass pass(bench_.gate);
  if (!pass) return false;
  if (const auto offset = arena_->offset_of(message.data, message.bytes)) {
    message.at = *offset;
  } else {
    Adopted* adopted = Adopted::current();
    auto lent = adopted ? adopted->lend(message.data, message.bytes) : std::nullopt;
    if (!lent) return false;
    message.at = lent->offset;
    message.hold = std::move(lent->hold);
    for (const Adopted::Edge& edge : lent->edges)
      if (message.answer) bench_.edges.await(message.answer - 1, edge);
  }
  message.ticket = ++lent_;
  message.done = message.bytes;
  announce({static_cast<uint64_t>(Way::lent), message.at, message.answer});
  return true;
}

void Sender::put_small(Message& message) {
  Slot& slot = lane_.slots[slots_written_ % kSlots];
  std::memcpy(slot.payload, message.data, message.bytes);
  slot.stamp.store(++slots_written_, std::memory_order_release);
  fetch_to_write(&lane_.slots[slots_written_ % kSlots]);
  message.done = message.bytes;
  bench_.alarm.wake();
}

bool Sender::look_at_tail() {
  const uint64_t tail = lane_.reader.tail.load(std::memory_order_acquire);
  if (tail < seen_tail_ || tail > head_ || tail % kLine != 0) return false;
  seen_tail_ = tail;
  tail_ = std::max(tail_, tail);
  return true;
}

// A ring that was read empty is used from its beginning again: what both ends have in their caches,
// and pages that were touched before, are worth more than a ring's length ahead.
bool Sender::rewind(size_t bytes) {
  const uint64_t at = head_ & (ring_bytes_ - 1);
  if (at == 0 || at + bytes <= kWarmBytes) return true;
  if (!look_at_tail()) return false;
  if (tail_ == head_) tail_ = head_ += ring_bytes_ - at;
  return true;
}

bool Sender::put_piece(Message& message, bool& believable) {
  const bool first = message.done == 0;
  if (first) believable = rewind(message.bytes);
  if (believable && head_ - tail_ == ring_bytes_) believable = look_at_tail();
  if (!believable || head_ - tail_ == ring_bytes_) return false;
  AbortGate::Pass pass(bench_.gate);
  if (!pass) return false;
  const uint64_t at = head_ & (ring_bytes_ - 1);
  const uint64_t room = std::min(ring_bytes_ - (head_ - tail_), ring_bytes_ - at);
  const size_t bytes =
      std::min({message.bytes - message.done, static_cast<size_t>(room), kPieceBytes});
  copy_across(ring_ + at, message.data + message.done, bytes);
  const uint64_t start = head_;
  message.done += bytes;
  head_ += line_up(bytes);  // only the end of a message is no multiple of a line
  if (first) {
    announce({static_cast<uint64_t>(Way::staged), head_, start});
  } else {
    lane_.writer.head.store(head_, std::memory_order_release);
    bench_.alarm.wake();
  }
  return true;
}

void Sender::close() {
  lane_.writer.closed.store(1, std::memory_order_release);
  bench_.alarm.wake();
}

void Sender::revoke(std::atomic<uint32_t>& answering) noexcept {
  lane_.revocation.revoked.store(1, std::memory_order_seq_cst);
  full_fence();
  const auto until = Clock::now() + kAnswerPatience;
  while (answering.load(std::memory_order_acquire) != 0 && Clock::now() < until)
    std::this_thread::yield();
  if (answering.load(std::memory_order_acquire) == 0) return;
  for (size_t i = 0; arena_ && i < next_; ++i)
    if (queue_[i].answer && queue_[i].ticket) arena_->quarantine(arena_->at(queue_[i].at));
}

// ---- the receiver

bool Receiver::advance() {
  bool believable = true;
  while (believable && !queue_.empty() && queue_.front().data != nullptr) {
    if (!copy_first(believable)) break;
  }
  return believable;
}

bool Receiver::copy_first(bool& believable) {
  Message& message = queue_.front();
  if (!open(message, believable)) return false;
  if (way_ == Way::placed) {
    AbortGate::Pass pass(bench_.gate);
    if (!pass) return false;
    bench_.edges.arrived(finished_, true);
    return take(message.bytes);
  }
  const std::span<const std::byte> piece = arrived(believable);
  if (piece.empty()) return false;
  AbortGate::Pass pass(bench_.gate);
  if (!pass) return false;
  const size_t bytes = std::min(piece.size(), kPieceBytes);
  std::memcpy(message.data + message.done, piece.data(), bytes);
  return take(bytes);
}

// Reads the notice of a message, once.
bool Receiver::open(Message& message, bool& believable) {
  if (opened_) return true;
  const Slot& slot = lane_.slots[slots_ % kSlots];
  if (slot.stamp.load(std::memory_order_acquire) != slots_ + 1) return false;
  way_ = Way::staged;
  answer_ = 0;
  if (message.bytes > kSmallBytes) {
    Notice notice;
    std::memcpy(&notice, slot.payload, sizeof notice);
    way_ = static_cast<Way>(notice.way);
    if (way_ == Way::staged) {
      // `head` may have told of this message's later pieces already.
      const uint64_t start = notice.more;
      believable = start >= read_ && start - read_ < ring_bytes_ && start % kLine == 0 &&
                   notice.at > start && notice.at - start <= ring_bytes_ && notice.at % kLine == 0;
      if (believable) {
        read_ = start;
        head_ = std::max(head_, notice.at);
      }
    } else if (way_ == Way::lent) {
      lent_ = arena_ ? arena_->at(notice.at, message.bytes) : nullptr;
      believable = lent_ != nullptr;
      answer_ = notice.more;
    } else {
      believable = way_ == Way::placed && message.data != nullptr;
    }
  }
  opened_ = believable;
  return believable;
}

std::span<const std::byte> Receiver::arrived(bool& believable) {
  Message& message = queue_.front();
  if (!open(message, believable)) return {};
  const size_t rest = message.bytes - message.done;
  if (message.bytes <= kSmallBytes)
    return {lane_.slots[slots_ % kSlots].payload + message.done, rest};
  if (way_ == Way::placed) return {};
  if (way_ == Way::lent) return {lent_ + message.done, rest};
  if (head_ <= read_) {
    const uint64_t head = lane_.writer.head.load(std::memory_order_acquire);
    if (head <= head_) return {};  // of a first piece, only the notice tells
    believable = head - read_floor() <= ring_bytes_ && head % kLine == 0;
    if (!believable) return {};
    head_ = head;
  }
  const uint64_t at = read_ & (ring_bytes_ - 1);
  return {ring_ + at, std::min({rest, static_cast<size_t>(head_ - read_),
                                static_cast<size_t>(ring_bytes_ - at)})};
}

bool Receiver::take(size_t bytes) {
  Message& message = queue_.front();
  message.done += bytes;
  const bool last = message.done == message.bytes;
  if (message.bytes > kSmallBytes && way_ == Way::staged) {
    read_ = last ? line_up(read_ + bytes) : read_ + bytes;
    const bool needed = read_floor() - reported_ >= ring_bytes_ / 8;
    if (needed || last) {
      reported_ = read_floor();
      lane_.reader.tail.store(reported_, std::memory_order_release);
    }
    if (needed) bench_.alarm.wake();
  }
  if (!last) return true;
  if (way_ == Way::lent && message.bytes > kSmallBytes) {
    full_fence();  // what was read, was read before it could be taken back
    taken_back_ = lane_.revocation.revoked.load(std::memory_order_acquire) != 0;
    if (taken_back_) return false;
    lane_.reader.returned.store(++returned_, std::memory_order_release);
    bench_.alarm.wake();
  }
  if (++slots_ % kSlotReport == 0) {
    lane_.reader.slots_read.store(slots_, std::memory_order_release);
    bench_.alarm.wake();
  }
  opened_ = false;
  bench_.edges.arrived(finished_, false);
  queue_.pop();
  ++finished_;
  return true;
}

std::byte* Receiver::answer_place(uint64_t number) {
  bool believable = true;
  if (queue_.empty() || queue_.front().done != 0 || !open(queue_.front(), believable))
    return nullptr;
  if (way_ != Way::lent || queue_.front().bytes <= kSmallBytes) return nullptr;
  return answer_ == number + 1 ? lent_ : nullptr;
}

}  // namespace ringwood::shm
