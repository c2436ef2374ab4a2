// Moves both directions of a link's stream between its rings and its paths. Posted messages are
// written over the path that is free, or over the fallback connection when no path carries; arrived
// bytes are handed to the receives; and the peer is told what was read (credit).
//
// Large messages in memory that an RDMA device has registered are sent zero-copy: the device reads
// them in place. Their pieces have the same positions in the peer's ring as if they had been
// copied. Until a piece is acknowledged it may be read again, for another path or for the fallback
// connection.
//
// Thread safety: reads_user_memory() and fallback() from any thread; all else from the link's user.
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
  ~DataPath();  // to be called after the queue pairs are gone
  DataPath(const DataPath&) = delete;
  DataPath& operator=(const DataPath&) = delete;

  Outgoing& outgoing() { return out_; }
  Incoming& incoming() { return in_; }
  // Sets where the peer's ring is; to be called before the first write.
  void lead_to(uint64_t peer_ring) { peer_ring_ = peer_ring; }

  // Stores what has arrived and writes what there is room for. False after abort().
  bool move();
  // Sends the peer a credit for what was read, if it is worth a message; with a completion from the
  // device if `signalled`.
  void give_credit(bool signalled);
  // To be called when the peer will write and acknowledge nothing more: takes what has come. False
  // after abort().
  bool take_the_rest();

  // Input from a path, and from the fallback connection (false: invalid).
  void arrived(uint32_t immediate, uint32_t bytes);
  bool take(const Frame& frame, std::span<const std::byte> payload);
  // Both ends have closed the path: writes again what is not known to have landed.
  void replay(const PathSlot& slot);
  // All pieces that had to be written again are on their way.
  bool replayed() const { return again_ == 0; }

  // True if a device may be reading the user's memory.
  bool reads_user_memory() const { return reading_user_memory_.load(std::memory_order_acquire); }
  // True if a piece has travelled over the fallback connection.
  bool fallback() const { return fallback_; }

 private:
  void write_pieces();
  bool can_write();
  bool write(Piece& piece);
  bool write_to_fallback(Piece& piece);
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
