// The writer of a direction's slots (shared_region.h): every message takes the next one. Used by
// one thread at a time; the peer's counter is checked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transports/link_parts.h"
#include "transports/shm/shared_region.h"

namespace ringwood::shm {

class SlotWriter final {
 public:
  explicit SlotWriter(Direction& direction) : direction_(direction) {}

  // The next slot is free: the peer has read its last content.
  bool free(bool& plausible) {
    if (written_ - read_ < kSlots) return true;
    const uint64_t read = direction_.reader.slots_read.load(std::memory_order_acquire);
    plausible = read >= read_ && read <= written_;
    if (!plausible || read == read_) return false;
    read_ = read;
    return true;
  }
  // Writes the next slot and publishes it. Preconditions: it is free, and the payload fits.
  void write(const void* payload, size_t bytes) {
    Slot& slot = direction_.slots[written_ % kSlots];
    std::memcpy(slot.payload, payload, bytes);
    slot.stamp.store(++written_, std::memory_order_release);
    fetch_to_write(&direction_.slots[written_ % kSlots]);
  }

 private:
  Direction& direction_;
  uint64_t written_ = 0, read_ = 0;  // ours, and the peer's as last seen
};

}  // namespace ringwood::shm
