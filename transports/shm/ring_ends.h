// The two ends of a direction's ring (shared_region.h): its writer and its reader.
//
// 1. Positions count bytes since the beginning; the size of the ring is a power of two.
// 2. A message begins and ends at a multiple of a line.
// 3. Each end is used by one thread at a time.
// 4. Positions written by the peer are checked; an impossible one makes the link dead (`plausible`
//    false).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transports/base/options.h"
#include "transports/link_parts.h"
#include "transports/shm/shared_region.h"

namespace ringwood::shm {

inline uint64_t line_up(uint64_t bytes) { return (bytes + kLine - 1) & ~uint64_t{kLine - 1}; }

class RingWriter final {
 public:
  RingWriter(Direction& direction, std::byte* ring, uint64_t bytes)
      : direction_(direction), ring_(ring), bytes_(bytes) {}

  // Begins a message. A ring that has been read empty is used from its beginning again: lines in
  // both caches and pages already touched are worth more than using the rest of the ring. False:
  // the peer's position is impossible.
  bool start(size_t bytes) {
    const uint64_t at = head_ & (bytes_ - 1);
    if (at == 0 || at + bytes <= kWarmBytes) return true;
    if (!look_at_tail()) return false;
    if (tail_ == head_) tail_ = head_ += bytes_ - at;
    return true;
  }
  // True: nothing can be written now, or the peer's position is impossible.
  bool full(bool& plausible) {
    if (head_ - tail_ < bytes_) return false;
    plausible = look_at_tail();
    return !plausible || head_ - tail_ == bytes_;
  }
  // Copies the next piece of a message, as much as there is room for, and returns its size. The
  // peer sees it after publish(), or when head() is announced to it. Precondition: not full.
  size_t write(const std::byte* data, size_t bytes) {
    const uint64_t at = head_ & (bytes_ - 1);
    const uint64_t room = std::min(bytes_ - (head_ - tail_), bytes_ - at);
    const size_t piece = std::min({bytes, static_cast<size_t>(room), kShmPiece});
    copy_across(ring_ + at, data, piece);
    head_ += line_up(piece);  // only the end of a message is not a multiple of a line
    return piece;
  }
  void publish() { direction_.writer.head.store(head_, std::memory_order_release); }
  // Where the next piece goes.
  uint64_t head() const { return head_; }

 private:
  // So much of the ring is used before start() checks whether it is empty.
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
  uint64_t head_ = 0, tail_ = 0;  // ours, and up to where the peer has read or skipped
  uint64_t seen_tail_ = 0;        // the peer's as last seen and believed
};

class RingReader final {
 public:
  RingReader(Direction& direction, const std::byte* ring, uint64_t bytes)
      : direction_(direction), ring_(ring), bytes_(bytes) {}

  // Begins a message at `start` whose first piece reaches to `head`. False: impossible.
  bool start(uint64_t start, uint64_t head) {
    // The direction's `head` may already include later pieces of this message.
    const bool plausible = start >= read_ && start - read_ < bytes_ && start % kLine == 0 &&
                           head > start && head - start <= bytes_ && head % kLine == 0;
    if (!plausible) return false;
    read_ = start;
    head_ = std::max(head_, head);
    return true;
  }
  // The contiguous bytes that have arrived, of a message of which `rest` bytes are not read.
  std::span<const std::byte> arrived(size_t rest, bool& plausible) {
    if (head_ <= read_) {
      const uint64_t head = direction_.writer.head.load(std::memory_order_acquire);
      if (head <= head_) return {};  // a first piece is announced by the notice only
      plausible = head - floor() <= bytes_ && head % kLine == 0;
      if (!plausible) return {};
      head_ = head;
    }
    const uint64_t at = read_ & (bytes_ - 1);
    return {ring_ + at,
            std::min({rest, static_cast<size_t>(head_ - read_), static_cast<size_t>(bytes_ - at)})};
  }
  // Releases `bytes` that have been read. True: the peer may be waiting for the room and must be
  // woken. That is not so at the end of every message; bytes are counted across messages, so that a
  // peer that waits for a full ring is always woken in the end.
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
  uint64_t head_ = 0;      // the peer's, as last seen
  uint64_t read_ = 0;      // ours
  uint64_t woken_at_ = 0;  // read_ when the peer was last to be woken
};

}  // namespace ringwood::shm
