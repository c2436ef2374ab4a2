// A range of the ring that was or will be written in one go. The bytes of a zero-copy piece are in
// the user's memory instead, and its place in the ring stays empty.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transports/verbs/rail/registrations.h"
#include "transports/verbs/ring/window.h"

namespace ringwood::verbs {

struct Piece {
  uint64_t position = 0;
  uint32_t bytes = 0;
  int path = -1;
  uint64_t number = 0;    // of the write on that path
  bool replayed = false;  // if so, a credit alone does not show that the last write has landed
  bool landed = false;    // sent over the fallback connection, or known otherwise
  const std::byte* user_data = nullptr;
  Registration* registration = nullptr;  // in use for the write of a zero-copy piece

  uint64_t end() const { return round_up(position + bytes); }
};

// To be called when the RDMA device does not read it any more.
inline void end_registration(Piece& piece) noexcept {
  if (piece.registration) Registrations::end(piece.registration);
  piece.registration = nullptr;
}

}  // namespace ringwood::verbs
