// Eager slots: the shortest path for a small message between two ranks that map the same memory.
//
// An EagerChannel is both directions between this rank and one peer. Each direction has two slots;
// message v is in slot v mod 2. A message is a head (kHeadBytes) and at most kEagerSlotBytes of
// data. Its size is what the reader expects, never what it reads. Head and data may be written one
// after the other.
//
// Contract: both ranks write a message, read the other's, then call done(), again and again. So a
// rank that sees message v + 1 of its peer knows that the peer is done with its own message v, and
// two slots need no acknowledgement.
//
// The lines of a slot:
// 1. The head with its stamp, room for kInlineBytes of data, and the core of the writer.
// 2. Data of up to kStampedBytes, spread over lines that each carry a stamp of their own, so that
//    all of them are transferred at once: one line transfer is the latency of the message. (The
//    idea is that of NCCL's LL128 protocol, with stores that need not be atomic as a line.)
// 3. Larger data, contiguous, complete before the stamp that announces it; and a stamp for data
//    that came after its head.
//
// Thread safety: one thread, except closed() and end(). Header only: a call costs more than the
// message.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "transports/cache_line.h"
#include "transports/link_parts.h"

namespace ringwood {

// Among more ranks of a host there are no eager slots: they would stay unused.
inline constexpr uint32_t kMaxEagerRanks = 16;
inline constexpr size_t kHeadBytes = 32;
inline constexpr size_t kInlineBytes = 16;
inline constexpr size_t kEagerSlotBytes = 16 << 10;
// Data bytes of a stamped line: a multiple of 16, so that no element is cut.
inline constexpr size_t kStampedLineBytes = 48;
inline constexpr size_t kStampedLines = 8;
inline constexpr size_t kStampedBytes = kStampedLineBytes * kStampedLines;

// All zero: a slot that was never used.
struct alignas(128) EagerSlot {
  struct alignas(64) Head {
    std::byte bytes[kHeadBytes];
    std::byte data[kInlineBytes];
    std::atomic<uint64_t> stamp;  // 2 (v + 1), plus 1 if contiguous data came with it
    std::atomic<int32_t> core;    // runs_on()
  };
  struct alignas(64) Line {
    std::byte bytes[kStampedLineBytes];
    std::atomic<uint64_t> stamp;  // v + 1
  };
  Head head;
  Line lines[kStampedLines];
  std::byte data[kEagerSlotBytes];
  alignas(64) std::atomic<uint64_t> late;  // v + 1: contiguous data has followed the head
};
static_assert(sizeof(EagerSlot::Head) == 64 && sizeof(EagerSlot::Line) == 64);

// One direction. All zero before its first use.
struct EagerDirection {
  EagerSlot slots[2];
};

// Copies the usual sizes inline; returns false, without effect, for any other size.
inline bool copy_usual(std::byte* to, const void* from, size_t bytes) {
  switch (bytes) {
    case 4: std::memcpy(to, from, 4); return true;
    case 8: std::memcpy(to, from, 8); return true;
    case 16: std::memcpy(to, from, 16); return true;
    case kStampedLineBytes: std::memcpy(to, from, kStampedLineBytes); return true;
    default: return false;
  }
}

class alignas(kCacheLine) EagerChannel final {
 public:
  // `peer_closed`: a LinkEnd.
  EagerChannel(EagerDirection& outgoing, EagerDirection& arriving, Alarm& alarm,
               const std::atomic<uint32_t>& peer_closed)
      : outgoing_(outgoing.slots),
        arriving_(arriving.slots),
        alarm_(alarm),
        peer_closed_(peer_closed) {}

  // Sets the core that writes from now on, for the peer to see; an opaque number.
  void runs_on(int32_t core) { core_ = core; }
  // Writes head and data at once; `data` may be null if `bytes` is 0.
  void write(const void* head, const void* data, size_t bytes) {
    EagerSlot& slot = *writing_;
    const bool spread = is_stamped(bytes) || bytes == 0;
    if (!spread) copy(bytes <= kInlineBytes ? slot.head.data : slot.data, data, bytes);
    std::memcpy(slot.head.bytes, head, kHeadBytes);
    slot.head.core.store(core_, std::memory_order_relaxed);
    slot.head.stamp.store(2 * (number_ + 1) + (spread ? 0 : 1), std::memory_order_release);
    if (spread) write_lines(slot, data, bytes);
    alarm_.wake();
  }
  // Writes the data of a message whose head was written without it.
  void write_data(const void* data, size_t bytes) {
    EagerSlot& slot = *writing_;
    if (is_stamped(bytes)) {
      write_lines(slot, data, bytes);
    } else {
      copy_across(slot.data, data, bytes);
      slot.late.store(number_ + 1, std::memory_order_release);
    }
    alarm_.wake();
  }

  // Null until the head of the peer's message is here. `bytes` of data will be read next: their
  // lines are loaded together with the head's, so that two transfers take the time of one.
  const std::byte* head(size_t bytes) const {
    const EagerSlot& slot = *reading_;
    if (is_stamped(bytes))
      for (size_t line = 0; line * kStampedLineBytes < bytes; ++line)
        (void)slot.lines[line].stamp.load(std::memory_order_relaxed);
    const uint64_t stamp = slot.head.stamp.load(std::memory_order_acquire);
    return stamp / 2 == number_ + 1 ? slot.head.bytes : nullptr;
  }
  // The core that the peer has set. Requires head().
  int32_t core() const { return reading_->head.core.load(std::memory_order_relaxed); }
  // True if so many bytes are spread over stamped lines.
  static bool is_stamped(size_t bytes) { return bytes > kInlineBytes && bytes <= kStampedBytes; }
  // The message's data, valid until done(); empty until all of it is here. `room`: kStampedBytes,
  // or null unless is_stamped(). Requires head() and bytes > 0.
  std::span<const std::byte> data(size_t bytes, std::byte* room) const {
    const EagerSlot& slot = *reading_;
    if (is_stamped(bytes)) return read_lines(slot, bytes, room);
    if (slot.head.stamp.load(std::memory_order_relaxed) % 2 == 1)
      return {bytes <= kInlineBytes ? slot.head.data : slot.data, bytes};
    if (slot.late.load(std::memory_order_acquire) == number_ + 1) return {slot.data, bytes};
    return {};
  }
  // To be called when both messages were written and read. `bytes`: the probable size of the next
  // message; its lines are prefetched now.
  void done(size_t bytes) {
    ++number_;
    writing_ = outgoing_ + number_ % 2;
    reading_ = arriving_ + number_ % 2;
    fetch_to_write(&writing_->head);
    if (!is_stamped(bytes)) return;
    for (size_t line = 0; line * kStampedLineBytes < bytes; ++line)
      fetch_to_write(&writing_->lines[line]);
  }

  // The peer writes nothing more.
  bool closed() const { return end() != kLinkOpen; }
  LinkEnd end() const { return static_cast<LinkEnd>(peer_closed_.load(std::memory_order_acquire)); }

 private:
  static void copy(std::byte* to, const void* from, size_t bytes) {
    if (!copy_usual(to, from, bytes)) copy_across(to, from, bytes);
  }
  void write_lines(EagerSlot& slot, const void* data, size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    for (size_t at = 0, line = 0; at < bytes; at += kStampedLineBytes, ++line) {
      copy(slot.lines[line].bytes, from + at, std::min(bytes - at, kStampedLineBytes));
      slot.lines[line].stamp.store(number_ + 1, std::memory_order_release);
    }
  }
  std::span<const std::byte> read_lines(const EagerSlot& slot, size_t bytes,
                                        std::byte* room) const {
    for (size_t at = 0, line = 0; at < bytes; at += kStampedLineBytes, ++line) {
      if (slot.lines[line].stamp.load(std::memory_order_acquire) != number_ + 1) return {};
      copy(room + at, slot.lines[line].bytes, std::min(bytes - at, kStampedLineBytes));
    }
    return {room, bytes};
  }

  EagerSlot* const outgoing_;
  const EagerSlot* const arriving_;
  Alarm& alarm_;
  const std::atomic<uint32_t>& peer_closed_;
  uint64_t number_ = 0;
  int32_t core_ = 0;
  // The slots of the current message.
  EagerSlot* writing_ = outgoing_;
  const EagerSlot* reading_ = arriving_;
};

}  // namespace ringwood
