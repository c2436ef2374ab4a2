// The messages of a link that are on their way, by how far they are. Not thread safe.
//
//   PostedMessages    not yet wholly cut into pieces, in their order
//   ZeroCopyMessages  wholly cut into pieces that the RDMA device reads from the user's memory, and
//                     not known to have landed; the user must not have the memory back before
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transports/link_parts.h"
#include "transports/verbs/ring/piece.h"

namespace ringwood::verbs {

class PostedMessages final {
 public:
  struct Message {
    const std::byte* data;
    size_t bytes, done;
    bool user_data;
    std::shared_ptr<const void> hold;  // kept until it is sent
    size_t left() const { return bytes - done; }
  };

  void push(const Message& message) { messages_.push(message); }
  bool empty() const { return messages_.empty(); }
  Message& first() { return messages_.front(); }
  // All of the first message is in pieces. Returns its number, counted from 0.
  uint64_t pop() {
    messages_.pop();
    return begun_++;
  }
  // The number of messages that are wholly in pieces.
  uint64_t begun() const { return begun_; }

 private:
  Fifo<Message> messages_;
  uint64_t begun_ = 0;
};

class ZeroCopyMessages final {
 public:
  // A piece of a message was made, with this number, counted from the first piece of all.
  void add_piece(uint64_t number) {
    if (pieces_++ == 0) acknowledged_ = number;
  }
  // The last piece was copied after all, so it is not zero-copy any more. `end`: the end of all
  // pieces.
  void drop_piece(uint64_t end) {
    if (--pieces_ == 0) end_before(end);
  }
  // The last piece of a message was made; the message ends at this position.
  void add_message(uint64_t number, uint64_t end, std::shared_ptr<const void> hold) {
    messages_.push({number, end, std::move(hold)});
  }
  bool empty() const { return messages_.empty(); }
  // The number of the first message that has not landed. Precondition: not empty.
  uint64_t first() const { return messages_.front().number; }
  // True if a device may be reading memory of messages that are not sent.
  bool reading() const { return pieces_ > 0; }

  // Ends the messages that have landed, in order. `pieces`: those that are kept; the first has the
  // number `first`, and they end at `end`.
  template <class Landed>
  void acknowledge(Fifo<Piece>& pieces, uint64_t first, uint64_t end, Landed&& landed) {
    if (pieces_ == 0) return;
    for (; acknowledged_ < first + pieces.size(); ++acknowledged_) {
      Piece& piece = pieces[acknowledged_ - first];
      if (!piece.user_data) continue;
      if (!landed(piece)) return end_before(piece.position);
      end_registration(piece);
      --pieces_;
    }
    end_before(end);
  }

 private:
  struct Message {
    uint64_t number, end;  // of the message: its number, and its position
    std::shared_ptr<const void> hold;
  };
  // All zero-copy messages before this position have landed.
  void end_before(uint64_t position) {
    for (; !messages_.empty() && messages_.front().end <= position; messages_.pop())
      messages_.front().hold.reset();
  }

  mutable Fifo<Message> messages_;  // front() is not const
  uint64_t acknowledged_ = 0;       // pieces, counted from the first of all
  size_t pieces_ = 0;               // zero-copy and not acknowledged
};

}  // namespace ringwood::verbs
