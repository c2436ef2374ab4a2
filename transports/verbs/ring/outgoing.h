// The sender's half of a link's stream, without an RDMA device. Copies messages into the ring, or
// leaves them in place for zero-copy; cuts them into pieces to write; and keeps each piece until
// the peer has read it, so that it can be written again. Not thread safe.
//
// Invariants
//   1. A piece has the same position in both rings, whether it is copied or zero-copy.
//   2. A place of the ring is used again only after the peer has given it back (credit), and after
//      the last write of the piece that had it is known to have landed, if that may not be its
//      first.
//   3. A zero-copy message is sent when all of it and everything before it is known to have landed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transports/verbs/ring/messages.h"
#include "transports/verbs/ring/ring.h"

namespace ringwood::verbs {

class Outgoing final {
 public:
  Outgoing(const Ring& ring, uint32_t piece_bytes, size_t most_pieces)
      : ring_(ring), piece_bytes_(piece_bytes), most_(most_pieces) {}

  void post(const void* data, size_t bytes) {
    posted_.push({static_cast<const std::byte*>(data), bytes, 0, false, {}});
  }
  // To be read in place. It is sent when all of it is known to have landed; until then it may be
  // written again, and `hold` is kept.
  void post_zero_copy(const void* data, size_t bytes, std::shared_ptr<const void> hold = {}) {
    posted_.push({static_cast<const std::byte*>(data), bytes, 0, true, std::move(hold)});
  }
  bool idle() const { return posted_.empty() && zero_copy_.empty(); }
  uint64_t sent() const { return zero_copy_.empty() ? posted_.begun() : zero_copy_.first(); }
  uint64_t credit() const { return credit_; }

  // The peer has read everything before `position`. False: it cannot have.
  bool credit(uint64_t position);
  bool read(const Piece& piece) const { return piece.end() <= credit_; }
  // Makes the next piece of the messages; null if there is nothing, or no room. The caller writes
  // it, and sets its path and number. Reads the user's memory: hold an Access.
  Piece* next();
  const std::byte* at(const Piece& piece) const {
    return piece.user_data ? piece.user_data : ring_.at(piece.position);
  }
  // Copies a zero-copy piece that cannot be written from where it is. Reads the user's memory too.
  void copy(Piece& piece);
  // True if a device may be reading memory of messages that are not sent.
  bool reads_user_memory() const { return zero_copy_.reading(); }

  Fifo<Piece>& pieces() { return pieces_; }
  // Ends the zero-copy messages whose pieces have all `landed(piece)`. Then forgets the first
  // pieces that are read; a piece that was written again, or that was zero-copy, must have landed
  // as well.
  template <class Landed>
  void forget(Landed&& landed) {
    zero_copy_.acknowledge(pieces_, forgotten_, end_, landed);
    while (!pieces_.empty()) {
      const Piece& piece = pieces_.front();
      if (!read(piece)) return;
      if ((piece.replayed || piece.user_data) && !landed(piece)) return;
      pieces_.pop();
      ++forgotten_;
    }
  }
  // To be called when no device reads anything any more.
  void end_registrations() noexcept;

 private:
  uint32_t copy_messages(uint64_t limit);
  void post_zero_copy_part(Piece& piece, uint64_t limit);

  const Ring ring_;
  const uint32_t piece_bytes_;
  const size_t most_;
  PostedMessages posted_;
  ZeroCopyMessages zero_copy_;
  Fifo<Piece> pieces_;
  uint64_t end_ = 0, credit_ = 0;
  uint64_t forgotten_ = 0;  // pieces, since the first of all
};

}  // namespace ringwood::verbs
