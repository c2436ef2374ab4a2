// What one peer has sent or announced before a receive matched it: the unexpected messages of the
// matching layer (point_to_point.h), in the order of their arrival.
//
// Bounded, whatever the peer does: 2 x kEagerRoom of data, as charged, and kMaxAnnounced
// announcements. Thread safety: the engine's driver only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

namespace ringwood {

struct EarlyMessage {
  uint64_t tag = 0;
  size_t bytes = 0;
  bool announced = false;
  uint32_t id = 0;                    // announced
  std::unique_ptr<std::byte[]> data;  // eager
};

class EarlyMessages final {
 public:
  // Memory for the data of an eager message; null: beyond the bound. Nothing else may be added
  // before the data, if there is any, has arrived().
  std::byte* keep(uint64_t tag, size_t bytes);
  // Records an announcement. False: beyond the bound.
  bool announce(uint64_t tag, size_t bytes, uint32_t id);
  // The data of the last message has arrived. Returns its tag.
  uint64_t arrived();
  // Takes the first message of a tag; none while its data is still arriving.
  std::optional<EarlyMessage> take(uint64_t tag);
  void clear() { messages_.clear(); }

 private:
  std::deque<EarlyMessage> messages_;
  uint64_t kept_ = 0;      // bytes of eager messages, as charged
  size_t announced_ = 0;   // announced messages
  bool arriving_ = false;  // the data of the last one
};

}  // namespace ringwood
