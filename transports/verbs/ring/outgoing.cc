#include "transports/verbs/ring/outgoing.h"

#include <algorithm>
#include <cstring>

namespace ringwood::verbs {

bool Outgoing::credit(uint64_t position) {
  if (position > end_) return false;
  credit_ = std::max(credit_, position);  // paths overtake each other
  return true;
}

Piece* Outgoing::next() {
  if (posted_.empty() || pieces_.size() >= most_) return nullptr;
  const uint64_t oldest = pieces_.empty() ? end_ : pieces_.front().position;
  const uint64_t room = ring_.bytes - (end_ - oldest);
  const uint64_t straight = ring_.straight(end_);
  const uint64_t limit = std::min<uint64_t>({room, straight, piece_bytes_});
  // A short piece only where the message or the ring ends: many small ones would cost more.
  const PostedMessages::Message& first = posted_.first();
  if (limit < std::min<uint64_t>({first.left(), straight, piece_bytes_})) return nullptr;
  Piece piece{.position = end_};
  if (first.user_data) {
    post_zero_copy_part(piece, limit);
  } else {
    piece.bytes = copy_messages(limit);
  }
  if (piece.bytes == 0) return nullptr;
  pieces_.push(piece);
  end_ = piece.end();
  return &pieces_[pieces_.size() - 1];
}

uint32_t Outgoing::copy_messages(uint64_t limit) {
  uint64_t filled = 0, used = 0;
  while (!posted_.empty() && !posted_.first().user_data && filled < limit) {
    PostedMessages::Message& message = posted_.first();
    const size_t part = std::min<uint64_t>(message.left(), limit - filled);
    std::memcpy(ring_.at(end_ + filled), message.data + message.done, part);
    message.done += part;
    used = filled + part;
    filled = round_up(used);
    if (message.left() > 0) break;
    posted_.pop();
  }
  return static_cast<uint32_t>(used);
}

void Outgoing::post_zero_copy_part(Piece& piece, uint64_t limit) {
  zero_copy_.add_piece(forgotten_ + pieces_.size());
  PostedMessages::Message& message = posted_.first();
  piece.bytes = static_cast<uint32_t>(std::min<uint64_t>(message.left(), limit));
  piece.user_data = message.data + message.done;
  message.done += piece.bytes;
  if (message.left() > 0) return;
  std::shared_ptr<const void> hold = std::move(message.hold);
  zero_copy_.add_message(posted_.pop(), piece.end(), std::move(hold));
}

// Its place in the ring was kept free.
void Outgoing::copy(Piece& piece) {
  std::memcpy(ring_.at(piece.position), piece.user_data, piece.bytes);
  piece.user_data = nullptr;
  zero_copy_.drop_piece(end_);
}

void Outgoing::end_registrations() noexcept {
  for (size_t i = 0; i < pieces_.size(); ++i) end_registration(pieces_[i]);
}

}  // namespace ringwood::verbs
