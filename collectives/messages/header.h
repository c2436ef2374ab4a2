// The message headers and the constants of the protocol that point_to_point.h describes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringwood {

// Above this size the receiver's grant is worth its round trip: no copy, and no memory held for
// messages without a receive.
inline constexpr size_t kEagerBytes = 16 << 10;
inline constexpr size_t kEagerRoom = 1 << 20, kEagerCharge = 64;
inline constexpr size_t kMaxAnnounced = 1 << 14;

struct MessageHeader {
  enum Kind : uint32_t { kEager = 1, kAnnounce, kGrant, kData };

  uint32_t kind = 0;
  uint32_t id = 0;
  uint64_t tag = 0;
  uint64_t bytes = 0;
  uint64_t taken = 0;  // of the receiver's eager messages, since the beginning, as charged
};
static_assert(sizeof(MessageHeader) == 32);

}  // namespace ringwood
