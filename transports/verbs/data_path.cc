#include "transports/verbs/data_path.h"

#include <fmt/format.h>

#include "transports/base/options.h"

namespace ringwood::verbs {
namespace {

// On the fallback connection, beyond the kernel's buffers.
constexpr size_t kMaxQueuedBytes = 256 << 10;

static_assert(kMaxVerbsPiece <= Registrations::kMaxBytes);

}  // namespace

DataPath::DataPath(LinkState& link, PathSet& paths, const Rings& rings, size_t number)
    : link_(link),
      paths_(paths),
      ring_bytes_(rings.ring_bytes),
      out_(rings.outgoing(number), static_cast<uint32_t>(verbs_piece_bytes(rings.ring_bytes)),
           kMaxPieces),
      in_(rings.incoming(number), kMaxPieces) {}

DataPath::~DataPath() {
  if (!link_.inherited()) out_.end_registrations();
}

bool DataPath::move() {
  AbortGate::Access access(link_.gate);
  if (!access) return false;
  in_.store();
  write_pieces();
  reading_user_memory_.store(out_.reads_user_memory(), std::memory_order_release);
  return true;
}

// ---- arriving ----------------------------------------------------------------------------------

void DataPath::arrived(uint32_t immediate, uint32_t bytes) {
  const bool credit = unpack(immediate, 0).credit;
  const uint64_t position = unpack(immediate, credit ? out_.credit() : in_.arrived()).position;
  const bool right = credit ? out_.credit(position) : in_.arrive(position, bytes);
  if (!right)
    link_.fault.set(ErrorCode::internal,
                    fmt::format("the peer announced a {} of {} bytes at {}, where none can be",
                                credit ? "credit" : "piece", bytes, position));
}

bool DataPath::take(const Frame& frame, std::span<const std::byte> payload) {
  if (frame.type == FrameType::credit) return out_.credit(frame.position);
  fallback_ = true;
  return in_.take(frame.position, payload);
}

// Lost acknowledgements do not come again, but the peer's last frame was its credit.
bool DataPath::take_the_rest() {
  AbortGate::Access access(link_.gate);
  if (!access) return false;
  in_.store();
  if (!out_.reads_user_memory()) return true;
  paths_.close();
  out_.forget([&](const Piece& piece) { return landed(piece) || out_.read(piece); });
  return true;
}

void DataPath::give_credit(bool signalled) {
  FallbackConnection& fallback = link_.fallback;
  if (!in_.credit_due() || fallback.closed()) return;
  if (paths_.none_left()) {
    fallback.queue({.type = FrameType::credit, .position = in_.credit()});
    in_.credit_sent();
    return;
  }
  PathSlot* const slot = paths_.choose();
  if (!slot) return;
  paths_.renew_receives(true);  // the peer may use the credit at once
  if (!slot->path->can_send()) return;
  if (slot->path->write({.immediate = pack({true, in_.credit()}), .signalled = signalled}) == 0)
    return paths_.fail(*slot, system_message("ibv_post_send"));
  in_.credit_sent();
}

// ---- writing -----------------------------------------------------------------------------------

bool DataPath::landed(const Piece& piece) const {
  return piece.landed ||
         (piece.path >= 0 && paths_.slots()[piece.path].path->writes().completed(piece.number));
}

void DataPath::write_pieces() {
  out_.forget([&](const Piece& piece) { return landed(piece); });
  for (size_t i = 0; again_ > 0 && i < out_.pieces().size() && can_write(); ++i) {
    Piece& piece = out_.pieces()[i];
    if (piece.path >= 0) continue;
    if (!write(piece)) return;
    --again_;
  }
  while (again_ == 0 && can_write()) {
    Piece* piece = out_.next();
    if (!piece) return;
    if (write(*piece)) continue;
    ++again_;
    return;
  }
}

bool DataPath::can_write() {
  if (!paths_.none_left()) return paths_.choose() != nullptr;
  return link_.fallback.queued() < kMaxQueuedBytes && !link_.fallback.closed();
}

bool DataPath::write(Piece& piece) {
  if (paths_.none_left()) return write_to_fallback(piece);
  PathSlot* const slot = paths_.choose();
  if (!slot) return false;
  const uint32_t own = own_key(piece, *slot->rail->rail);
  const uint64_t number = slot->path->write({.from = out_.at(piece),
                                             .bytes = piece.bytes,
                                             .to = peer_ring_ + piece.position % ring_bytes_,
                                             .key = slot->rail->key,
                                             .immediate = pack({false, piece.position}),
                                             .own_key = own,
                                             .signalled = piece.replayed || piece.user_data});
  if (number == 0) {
    end_registration(piece);
    paths_.fail(*slot, system_message("ibv_post_send"));
    return false;
  }
  piece.path = static_cast<int>(slot->index);
  piece.number = number;
  paths_.took_turn(*slot);
  return true;
}

bool DataPath::write_to_fallback(Piece& piece) {
  fallback_ = true;
  link_.fallback.queue({.type = FrameType::data, .position = piece.position},
                       {out_.at(piece), piece.bytes});
  piece.path = static_cast<int>(paths_.slots().size());
  piece.landed = true;  // it is delivered in order with all that follows
  return true;
}

// The key with which the device reads the piece. Copies the piece if that needs a registration and
// there is none.
uint32_t DataPath::own_key(Piece& piece, Rail& rail) {
  if (piece.user_data) {
    Registrations* const registrations = rail.memory().registrations();
    piece.registration = registrations ? registrations->use(piece.user_data, piece.bytes) : nullptr;
    if (piece.registration) return piece.registration->key;
    out_.copy(piece);
  }
  return rail.memory().rings()->lkey;
}

void DataPath::replay(const PathSlot& slot) {
  in_.repeat_credit();
  for (size_t i = 0; i < out_.pieces().size(); ++i) {
    Piece& piece = out_.pieces()[i];
    if (piece.landed || piece.path != static_cast<int>(slot.index)) continue;
    if (slot.path->writes().completed(piece.number) || out_.read(piece)) {
      piece.landed = true;
    } else {
      end_registration(piece);
      piece.path = -1;
      piece.replayed = true;
      ++again_;
    }
  }
}

}  // namespace ringwood::verbs
