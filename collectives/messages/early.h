// What one peer has sent, or announced, before a receive here wanted it: the matching layer's
// unexpected messages (point_to_point.h), in the order of their coming.
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
  // Where the data of an eager message goes; null: beyond the bound. Nothing else may be added
  // before the data, if there is any, has arrived().
  std::byte* keep(uint64_t tag, size_t bytes);
  // False: beyond the bound.
  bool announce(uint64_t tag, size_t bytes, uint32_t id);
  // The data of the last one is there. Returns its tag.
  uint64_t arrived();
  // The first of a tag; none while that one's data is still arriving.
  std::optional<EarlyMessage> take(uint64_t tag);
  void clear() { messages_.clear(); }

 private:
  std::deque<EarlyMessage> messages_;
  uint64_t kept_ = 0;      // of them, as charged
  size_t announced_ = 0;   // of them
  bool arriving_ = false;  // the last one's data
};

}  // namespace ringwood
