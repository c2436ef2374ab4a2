// One direction each of a link over its two rings, without a device: what is posted, where it lies,
// what may be sent, what has been read. Not thread safe.
//
//   Outgoing  copies messages into the ring, or lends them where they lie, and cuts pieces to
//             write; keeps each until the peer has read it, so that it can be written again.
//   Incoming  hands what has arrived to the receives, and says what the peer may write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transports/link_parts.h"
#include "transports/verbs/rail/registrations.h"
#include "transports/verbs/ring/window.h"

namespace ringwood::verbs {

// A stretch of the ring that was or will be written in one go. What is lent lies in the user's
// memory instead, and the ring's place stays empty.
struct Piece {
  uint64_t position = 0;
  uint32_t bytes = 0;
  int path = -1;
  uint64_t number = 0;    // of the write on that path
  bool replayed = false;  // so the credit alone does not tell that the last write has landed
  bool landed = false;    // over the wire, or known otherwise
  const std::byte* lent = nullptr;
  Registration* registration = nullptr;  // in use for the write of what is lent
};

class Outgoing {
 public:
  Outgoing(std::byte* ring, uint64_t ring_bytes, uint32_t piece_bytes, size_t most_pieces)
      : ring_(ring), ring_bytes_(ring_bytes), piece_bytes_(piece_bytes), most_(most_pieces) {}

  void post(const void* data, size_t bytes) { push(data, bytes, false, {}); }
  // To be read where it lies. It is sent when all of it is known to have landed; until then it may
  // be written again. `hold` is kept as long.
  void lend(const void* data, size_t bytes, std::shared_ptr<const void> hold = {}) {
    push(data, bytes, true, std::move(hold));
  }
  bool idle() const { return messages_.empty() && lent_.empty(); }
  uint64_t sent() const { return lent_.empty() ? begun_ : lent_.front().number; }
  uint64_t end() const { return end_; }
  uint64_t credit() const { return credit_; }

  // The peer has read everything before. False: it cannot have.
  bool credit(uint64_t position);
  // Fills the next piece from the messages; null when there is nothing, or no room. The caller
  // writes it, and sets path and number. The user's memory is read here: hold a Pass.
  Piece* next();
  const std::byte* at(const Piece& piece) const { return piece.lent ? piece.lent : place(piece); }
  // Of what is lent and cannot be written from where it lies. Reads the user's memory as well.
  void copy(Piece& piece);
  // Whether a device may be reading memory of messages that are not sent.
  bool lending() const { return lent_pieces_ > 0; }

  Fifo<Piece>& pieces() { return pieces_; }
  // Ends the messages that were lent, as far as their pieces have `landed(piece)`, and forgets the
  // first pieces as far as they are read, and have landed where their first write may not have been
  // the last, or where what they were written from is not ours.
  template <class Landed>
  void forget(Landed&& landed) {
    settle(landed);
    while (!pieces_.empty()) {
      const Piece& piece = pieces_.front();
      if (round_up(piece.position + piece.bytes) > credit_) return;
      if ((piece.replayed || piece.lent) && !landed(piece)) return;
      pieces_.pop();
      ++forgotten_;
    }
  }
  // The device does not read it any more.
  static void end_registration(Piece& piece) noexcept;
  void end_registrations() noexcept;  // of all

 private:
  struct Message {
    const std::byte* data;
    size_t bytes, done;
    bool lent;
    std::shared_ptr<const void> hold;
  };
  struct Lent {
    uint64_t number, end;  // of the message, and its position
    std::shared_ptr<const void> hold;
  };
  void push(const void* data, size_t bytes, bool lent, std::shared_ptr<const void> hold);
  std::byte* place(const Piece& piece) const { return ring_ + piece.position % ring_bytes_; }
  uint32_t copy_messages(uint64_t limit);
  void lend_part(Piece& piece, uint64_t limit);
  void end_lent(uint64_t position);

  template <class Landed>
  void settle(Landed&& landed) {
    if (lent_pieces_ == 0) return;
    for (; settled_ < forgotten_ + pieces_.size(); ++settled_) {
      Piece& piece = pieces_[settled_ - forgotten_];
      if (!piece.lent) continue;
      if (!landed(piece)) return end_lent(piece.position);
      end_registration(piece);
      --lent_pieces_;
    }
    end_lent(end_);
  }

  std::byte* const ring_;
  const uint64_t ring_bytes_;
  const uint32_t piece_bytes_;
  const size_t most_;
  Fifo<Message> messages_;
  Fifo<Piece> pieces_;
  mutable Fifo<Lent> lent_;  // wholly in pieces, that have not all landed; front() is not const
  uint64_t end_ = 0, credit_ = 0;
  uint64_t begun_ = 0;                    // messages that are wholly in pieces
  uint64_t forgotten_ = 0, settled_ = 0;  // pieces, counted from the first of all
  size_t lent_pieces_ = 0;                // that are not settled
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
