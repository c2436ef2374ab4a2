// One direction each of a link over its two rings, without a device: what is posted, where it lies,
// what may be sent, what has been read. Not thread safe.
//
//   Outgoing  copies messages into the ring and cuts pieces to write; keeps each until the peer has
//             read it, so that it can be written again.
//   Incoming  hands what has arrived to the receives, and says what the peer may write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transports/link_parts.h"
#include "transports/verbs/window.h"

namespace ringwood::verbs {

// A stretch of the ring that was or will be written in one go.
struct Piece {
  uint64_t position = 0;
  uint32_t bytes = 0;
  int path = -1;
  uint64_t number = 0;    // of the write on that path
  bool replayed = false;  // so the credit alone does not tell that the last write has landed
  bool landed = false;    // over the wire, or known otherwise
};

class Outgoing {
 public:
  Outgoing(std::byte* ring, uint64_t ring_bytes, uint32_t piece_bytes, size_t most_pieces)
      : ring_(ring), ring_bytes_(ring_bytes), piece_bytes_(piece_bytes), most_(most_pieces) {}

  void post(const void* data, size_t bytes) {
    messages_.push({static_cast<const std::byte*>(data), bytes, 0});
  }
  bool idle() const { return messages_.empty(); }
  uint64_t sent() const { return sent_; }
  uint64_t end() const { return end_; }
  uint64_t credit() const { return credit_; }

  // The peer has read everything before. False: it cannot have.
  bool credit(uint64_t position);
  // Fills the next piece from the messages; null when there is nothing, or no room. The caller
  // writes it, and sets path and number. The user's memory is read here: hold a Pass.
  Piece* next();
  const std::byte* at(const Piece& piece) const { return ring_ + piece.position % ring_bytes_; }

  Fifo<Piece>& pieces() { return pieces_; }
  // Forgets the first pieces, as far as they are read and `landed(piece)`.
  template <class Landed>
  void forget(Landed&& landed) {
    while (!pieces_.empty()) {
      const Piece& piece = pieces_.front();
      if (round_up(piece.position + piece.bytes) > credit_) return;
      if (piece.replayed && !landed(piece)) return;
      pieces_.pop();
    }
  }

 private:
  struct Message {
    const std::byte* data;
    size_t bytes, done;
  };
  std::byte* const ring_;
  const uint64_t ring_bytes_;
  const uint32_t piece_bytes_;
  const size_t most_;
  Fifo<Message> messages_;
  Fifo<Piece> pieces_;
  uint64_t end_ = 0, credit_ = 0, sent_ = 0;
};

class Incoming {
 public:
  Incoming(std::byte* ring, uint64_t ring_bytes, size_t most_pieces)
      : ring_(ring), ring_bytes_(ring_bytes), most_(most_pieces), arrivals_(ring_bytes) {}

  // `data` null: to be shown.
  void post(std::byte* data, size_t bytes) { receives_.push({data, bytes, 0}); }
  bool idle() const { return receives_.empty(); }
  uint64_t received() const { return received_; }
  uint64_t arrived() const { return arrivals_.end(); }

  // A piece was written. False: it may not be there.
  bool arrive(uint64_t position, uint64_t bytes);
  // A piece that came over the wire, perhaps late and for the second time (reopen.h).
  bool take(uint64_t position, std::span<const std::byte> piece);
  bool allowed(uint64_t position, uint64_t bytes) const {
    return arrivals_.allowed(position, bytes, consumed()) &&
           position % ring_bytes_ + bytes <= ring_bytes_;
  }

  // Copies to the receives that are stored. The user's memory is written here: hold a Pass.
  void store();
  std::span<const std::byte> shown() const;
  void consume(size_t bytes);  // of what is shown
  // Whether the first receive has bytes that it can take.
  bool readable() const { return !receives_.empty() && available() > 0; }

  // What to tell the peer, if it is worth a message (an eighth of what may be on its way).
  bool credit_due() const;
  uint64_t credit() {
    credited_ = consumed();
    read_pieces_ = 0;
    return credited_;
  }
  void repeat_credit() { repeat_ = true; }
  void credit_sent() { repeat_ = false; }

 private:
  struct Receive {
    std::byte* data;
    size_t bytes, done;
  };
  uint64_t consumed() const {
    return start_ + (receives_.empty() ? 0 : receives_.front().done / kUnit * kUnit);
  }
  size_t available() const;
  void advance(size_t bytes);

  std::byte* const ring_;
  const uint64_t ring_bytes_;
  const size_t most_;
  Arrivals arrivals_;
  mutable Fifo<Receive> receives_;  // front() is not const
  Fifo<uint64_t> ends_;             // of pieces that arrived and are not read
  uint64_t start_ = 0;              // of the first receive's message
  uint64_t credited_ = 0, received_ = 0;
  size_t read_pieces_ = 0;
  bool repeat_ = false;
};

}  // namespace ringwood::verbs
