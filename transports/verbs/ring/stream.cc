#include "transports/verbs/ring/stream.h"

#include <algorithm>
#include <cstring>

namespace ringwood::verbs {

bool Outgoing::credit(uint64_t position) {
  if (position > end_) return false;
  credit_ = std::max(credit_, position);  // paths overtake each other
  return true;
}

Piece* Outgoing::next() {
  if (messages_.empty() || pieces_.size() >= most_) return nullptr;
  const uint64_t oldest = pieces_.empty() ? end_ : pieces_.front().position;
  const uint64_t room = ring_bytes_ - (end_ - oldest);
  const uint64_t straight = ring_bytes_ - end_ % ring_bytes_;
  const uint64_t limit = std::min<uint64_t>({room, straight, piece_bytes_});
  // A short piece only where the message or the ring ends: many small ones would cost more.
  const Message& first = messages_.front();
  if (limit < std::min<uint64_t>({first.bytes - first.done, straight, piece_bytes_}))
    return nullptr;
  Piece piece{.position = end_};
  if (first.lent) {
    lend_part(piece, limit);
  } else {
    piece.bytes = copy_messages(limit);
  }
  if (piece.bytes == 0) return nullptr;
  pieces_.push(piece);
  end_ += round_up(piece.bytes);
  return &pieces_[pieces_.size() - 1];
}

uint32_t Outgoing::copy_messages(uint64_t limit) {
  uint64_t filled = 0, used = 0;
  while (!messages_.empty() && !messages_.front().lent && filled < limit) {
    Message& message = messages_.front();
    const size_t part = std::min<uint64_t>(message.bytes - message.done, limit - filled);
    std::memcpy(ring_ + (end_ + filled) % ring_bytes_, message.data + message.done, part);
    message.done += part;
    used = filled + part;
    filled = round_up(used);
    if (message.done < message.bytes) break;
    messages_.pop();
    ++begun_;
  }
  return static_cast<uint32_t>(used);
}

void Outgoing::lend_part(Piece& piece, uint64_t limit) {
  if (lent_pieces_ == 0) settled_ = forgotten_ + pieces_.size();
  Message& message = messages_.front();
  piece.bytes = static_cast<uint32_t>(std::min<uint64_t>(message.bytes - message.done, limit));
  piece.lent = message.data + message.done;
  ++lent_pieces_;
  message.done += piece.bytes;
  if (message.done < message.bytes) return;
  lent_.push({begun_++, end_ + round_up(piece.bytes), std::move(message.hold)});
  messages_.pop();
}

void Outgoing::push(const void* data, size_t bytes, bool lent, std::shared_ptr<const void> hold) {
  messages_.push({static_cast<const std::byte*>(data), bytes, 0, lent, std::move(hold)});
}

// Its place in the ring was kept free.
void Outgoing::copy(Piece& piece) {
  std::memcpy(place(piece), piece.lent, piece.bytes);
  piece.lent = nullptr;
  if (--lent_pieces_ == 0) end_lent(end_);
}

void Outgoing::end_registration(Piece& piece) noexcept {
  if (piece.registration) Registrations::end(piece.registration);
  piece.registration = nullptr;
}

void Outgoing::end_registrations() noexcept {
  for (size_t i = 0; i < pieces_.size(); ++i) end_registration(pieces_[i]);
}

// Everything that was lent before has landed.
void Outgoing::end_lent(uint64_t position) {
  for (; !lent_.empty() && lent_.front().end <= position; lent_.pop()) lent_.front().hold.reset();
}

bool Incoming::arrive(uint64_t position, uint64_t bytes) {
  if (!allowed(position, bytes)) return false;
  arrivals_.add(position, bytes);
  ends_.push(round_up(position + bytes));
  return true;
}

bool Incoming::take(uint64_t position, std::span<const std::byte> piece) {
  if (position % kUnit != 0 || piece.empty()) return false;
  // Its place may hold newer data.
  if (round_up(position + piece.size()) <= arrivals_.end()) return true;
  if (!allowed(position, piece.size()) || position < arrivals_.end()) return false;
  std::memcpy(ring_ + position % ring_bytes_, piece.data(), piece.size());
  return arrive(position, piece.size());
}

// Of the first receive, that has arrived and lies in a row.
size_t Incoming::available() const {
  const Receive& receive = receives_.front();
  const uint64_t at = start_ + receive.done;
  if (arrivals_.end() <= at) return 0;
  return std::min<uint64_t>(
      {arrivals_.end() - at, receive.bytes - receive.done, ring_bytes_ - at % ring_bytes_});
}

void Incoming::advance(size_t bytes) {
  Receive& receive = receives_.front();
  receive.done += bytes;
  if (receive.done == receive.bytes) {
    start_ += round_up(receive.bytes);
    receives_.pop();
    ++received_;
  }
  for (; !ends_.empty() && ends_.front() <= consumed(); ends_.pop()) ++read_pieces_;
}

void Incoming::store() {
  while (!receives_.empty() && receives_.front().data) {
    const size_t bytes = available();
    if (bytes == 0) return;
    const Receive& receive = receives_.front();
    std::memcpy(receive.data + receive.done, ring_ + (start_ + receive.done) % ring_bytes_, bytes);
    advance(bytes);
  }
}

std::span<const std::byte> Incoming::shown() const {
  if (receives_.empty() || receives_.front().data) return {};
  const size_t bytes = available();
  return {ring_ + (start_ + receives_.front().done) % ring_bytes_, bytes};
}

void Incoming::consume(size_t bytes) { advance(bytes); }

bool Incoming::credit_due() const {
  if (repeat_) return true;
  return consumed() - credited_ >= ring_bytes_ / 8 || read_pieces_ >= most_ / 8;
}

}  // namespace ringwood::verbs
