// Both directions of a link's stream between its rings and its paths: what is posted is written
// over the path that is free, or over the wire when no path carries; what has landed is handed to
// the receives; and the peer is told what was read.
//
// Large messages that lie in memory which a device knows are lent to it where they lie. Their
// pieces have the same places in the peer's ring as if they had been copied. Until a piece is
// acknowledged it may be read again, for another path or for the wire.
//
// Thread safety: reads_user_memory() and fallback() from any thread, the rest from the link's user.
#pragma once

#include <atomic>
#include <span>

#include "transports/verbs/path/path_set.h"
#include "transports/verbs/ring/incoming.h"
#include "transports/verbs/ring/outgoing.h"
#include "transports/verbs/rings.h"

namespace ringwood::verbs {

class DataPath final {
 public:
  DataPath(LinkState& link, PathSet& paths, const Rings& rings, size_t number);
  ~DataPath();  // after the queue pairs
  DataPath(const DataPath&) = delete;
  DataPath& operator=(const DataPath&) = delete;

  Outgoing& outgoing() { return out_; }
  Incoming& incoming() { return in_; }
  // Where the peer's ring is; before the first write.
  void lead_to(uint64_t peer_ring) { peer_ring_ = peer_ring; }

  // Stores what has arrived and writes what there is room for. False after abort().
  bool move();
  // Tells the peer what was read, if it is worth a message; with a word from the device if
  // `signalled`.
  void give_credit(bool signalled);
  // The peer will write and acknowledge nothing any more: takes what is here. False after abort().
  bool take_the_rest();

  // From a path, and from the wire: false if it cannot be meant.
  void arrived(uint32_t immediate, uint32_t bytes);
  bool take(const Frame& frame, std::span<const std::byte> payload);
  // Both ends have closed the path: what is not known to have landed is written again.
  void replay(const PathSlot& slot);
  // Everything that has to be written again is on its way.
  bool replayed() const { return again_ == 0; }

  // A device may be reading the user's memory.
  bool reads_user_memory() const { return reading_user_memory_.load(std::memory_order_acquire); }
  // A piece has travelled over the wire.
  bool fallback() const { return fallback_; }

 private:
  void write_pieces();
  bool can_write();
  bool write(Piece& piece);
  bool write_to_wire(Piece& piece);
  uint32_t own_key(Piece& piece, Rail& rail);
  bool landed(const Piece& piece) const;

  LinkState& link_;
  PathSet& paths_;
  const uint64_t ring_bytes_;
  Outgoing out_;
  Incoming in_;
  uint64_t peer_ring_ = 0;
  size_t again_ = 0;                              // pieces that have to be written again
  std::atomic<bool> reading_user_memory_{false};  // as of the last move()
  std::atomic<bool> fallback_{false};
};

}  // namespace ringwood::verbs
