// Positions in a link's stream of bytes, without an RDMA device: which have arrived, and the short
// form in which they are sent.
//
// 1. Every message begins at a multiple of 64.
// 2. A position is counted from the beginning of the link; modulo the ring's size it is the place
//    in the ring.
// 3. An immediate has 32 bits: the highest is its kind, the others are the position in units of 64
//    bytes, modulo 2^31.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace ringwood::verbs {

inline constexpr uint64_t kUnit = 64;
inline uint64_t round_up(uint64_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

struct Immediate {
  bool credit = false;  // else data
  uint64_t position = 0;
};
inline uint32_t pack(const Immediate& immediate) {
  return uint32_t(immediate.credit) << 31 | (uint32_t(immediate.position / kUnit) & 0x7fffffff);
}
// The position nearest to `near` that packs to `packed`.
inline Immediate unpack(uint32_t packed, uint64_t near) {
  const uint64_t here = near / kUnit;
  const uint32_t ahead = (packed - uint32_t(here)) & 0x7fffffff;
  const bool behind = ahead >= uint32_t{1} << 30;
  const uint64_t units = here + ahead - (behind ? uint64_t{1} << 31 : 0);
  return {(packed >> 31) != 0, units * kUnit};
}

// Pieces arrive in any order, and after a replay twice.
class Arrivals {
 public:
  explicit Arrivals(uint64_t ring) : ring_(ring) {}
  // Everything before this position has arrived.
  uint64_t end() const { return end_; }
  // True if a sender may write to [from, from + bytes) now, given what was consumed.
  bool allowed(uint64_t from, uint64_t bytes, uint64_t consumed) const {
    return from % kUnit == 0 && bytes > 0 && bytes <= ring_ && from + ring_ >= end_ &&
           round_up(from + bytes) <= consumed + ring_;
  }
  // Precondition: allowed.
  void add(uint64_t from, uint64_t bytes) {
    const uint64_t to = round_up(from + bytes);
    if (to <= end_) return;
    early_.push_back({from, to});
    for (bool found = true; found;) {
      found = false;
      for (size_t i = 0; i < early_.size(); ++i) {
        if (early_[i].from > end_) continue;
        end_ = std::max(end_, early_[i].to);
        early_[i] = early_.back();
        early_.pop_back();
        found = true;
        break;
      }
    }
  }

 private:
  struct Interval {
    uint64_t from, to;
  };
  const uint64_t ring_;
  uint64_t end_ = 0;
  std::vector<Interval> early_;  // beyond a gap
};

}  // namespace ringwood::verbs
