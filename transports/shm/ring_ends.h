// The two sides of a direction's ring (shared_region.h): who writes it and who reads it.
//
// Positions count bytes since the beginning; the ring's size is a power of two. A message begins
// and ends at multiples of a line. Each side is used by one thread at a time. Nothing that the peer
// has written is believed: where it is impossible, the link is dead.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transports/link_parts.h"
#include "transports/shm/shared_region.h"

namespace ringwood::shm {

// Large messages are published in pieces, so that both ends copy at the same time.
inline constexpr size_t kPieceBytes = size_t{128} << 10;

inline uint64_t line_up(uint64_t bytes) { return (bytes + kLine - 1) & ~uint64_t{kLine - 1}; }

class RingWriter final {
 public:
  RingWriter(Direction& direction, std::byte* ring, uint64_t bytes)
      : direction_(direction), ring_(ring), bytes_(bytes) {}

  // A message begins. A ring that was read empty is used from its beginning again: what both ends
  // have in their caches, and pages that were touched before, are worth more than a ring's length
  // ahead. False: the peer's word is not to be believed.
  bool start(size_t bytes) {
    const uint64_t at = head_ & (bytes_ - 1);
    if (at == 0 || at + bytes <= kWarmBytes) return true;
    if (!look_at_tail()) return false;
    if (tail_ == head_) tail_ = head_ += bytes_ - at;
    return true;
  }
  // Nothing can be written now, or the peer's word is not to be believed.
  bool full(bool& believable) {
    if (head_ - tail_ < bytes_) return false;
    believable = look_at_tail();
    return !believable || head_ - tail_ == bytes_;
  }
  // Copies the next piece of a message, so much of it as there is room for; returns that. The peer
  // sees it after publish(), or when it is told head(). Precondition: not full.
  size_t put(const std::byte* data, size_t bytes) {
    const uint64_t at = head_ & (bytes_ - 1);
    const uint64_t room = std::min(bytes_ - (head_ - tail_), bytes_ - at);
    const size_t piece = std::min({bytes, static_cast<size_t>(room), kPieceBytes});
    copy_across(ring_ + at, data, piece);
    head_ += line_up(piece);  // only the end of a message is no multiple of a line
    return piece;
  }
  void publish() { direction_.writer.head.store(head_, std::memory_order_release); }
  // Where the next piece goes.
  uint64_t head() const { return head_; }

 private:
  // What a ring may be used ahead without asking whether it is empty.
  static constexpr uint64_t kWarmBytes = uint64_t{16} << 10;

  bool look_at_tail() {
    const uint64_t tail = direction_.reader.tail.load(std::memory_order_acquire);
    if (tail < seen_tail_ || tail > head_ || tail % kLine != 0) return false;
    seen_tail_ = tail;
    tail_ = std::max(tail_, tail);
    return true;
  }

  Direction& direction_;
  std::byte* const ring_;
  const uint64_t bytes_;
  uint64_t head_ = 0, tail_ = 0;  // our own, and what the peer has read or was skipped
  uint64_t seen_tail_ = 0;        // the peer's as last seen and believed
};

class RingReader final {
 public:
  RingReader(Direction& direction, const std::byte* ring, uint64_t bytes)
      : direction_(direction), ring_(ring), bytes_(bytes) {}

  // A message begins at `start`, and its first piece reaches to `head`. False: impossible.
  bool start(uint64_t start, uint64_t head) {
    // The direction's `head` may have told of this message's later pieces already.
    const bool believable = start >= read_ && start - read_ < bytes_ && start % kLine == 0 &&
                            head > start && head - start <= bytes_ && head % kLine == 0;
    if (!believable) return false;
    read_ = start;
    head_ = std::max(head_, head);
    return true;
  }
  // What has come, in one piece, of a message of which `rest` bytes are not read.
  std::span<const std::byte> arrived(size_t rest, bool& believable) {
    if (head_ <= read_) {
      const uint64_t head = direction_.writer.head.load(std::memory_order_acquire);
      if (head <= head_) return {};  // of a first piece, only the notice tells
      believable = head - floor() <= bytes_ && head % kLine == 0;
      if (!believable) return {};
      head_ = head;
    }
    const uint64_t at = read_ & (bytes_ - 1);
    return {ring_ + at,
            std::min({rest, static_cast<size_t>(head_ - read_), static_cast<size_t>(bytes_ - at)})};
  }
  // `bytes` of what has come are read, the message's last ones among them. True: the peer may be
  // waiting for the room, and is to be woken. Not at every message's end: so that nobody who waits
  // for a full ring is forgotten, what has been read since the last time is counted over messages.
  bool take(size_t bytes, bool last) {
    read_ = last ? line_up(read_ + bytes) : read_ + bytes;
    const bool needed = floor() - woken_at_ >= bytes_ / 8;
    if (needed || last) direction_.reader.tail.store(floor(), std::memory_order_release);
    if (needed) woken_at_ = floor();
    return needed;
  }

 private:
  uint64_t floor() const { return read_ & ~uint64_t{kLine - 1}; }

  Direction& direction_;
  const std::byte* const ring_;
  const uint64_t bytes_;
  uint64_t head_ = 0;      // the peer's as last seen
  uint64_t read_ = 0;      // ours
  uint64_t woken_at_ = 0;  // ours when the peer was to be woken last
};

}  // namespace ringwood::shm
