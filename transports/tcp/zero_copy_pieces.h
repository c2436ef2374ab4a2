// Pieces that were sent from the user's memory (zero_copy.h). Each is finished when the kernel has
// released what the last call took of it. Not thread safe.
#pragma once

#include <cstdint>

#include "transports/link_parts.h"
#include "transports/tcp/zero_copy.h"

namespace ringwood::tcp {

class ZeroCopyPieces final {
 public:
  // Sends zero-copy from now on, if the kernel can, until it reports that it copies.
  void start(int fd) { zero_copy_.start(fd); }
  bool on() const { return zero_copy_.on(); }
  // The kernel has released all memory.
  bool idle() const { return zero_copy_.idle(); }

  // A zero-copy call has just sent bytes of the current piece.
  void note_call() { call_ = zero_copy_.call_made(); }
  // All of that piece is sent. True: it is finished when the kernel releases it; false: now.
  bool keep(uint64_t message) {
    if (call_ == 0) return false;
    pieces_.push({message, call_});
    call_ = 0;
    return true;
  }
  // There are pieces that the kernel has not released.
  bool any() const { return !pieces_.empty(); }
  // Collects those that the kernel has released. True if there were any.
  bool take_back(int fd, Fifo<uint64_t>& finished) {
    const uint64_t calls = zero_copy_.collect(fd);
    bool any = false;
    for (; !pieces_.empty() && pieces_.front().call <= calls; pieces_.pop()) {
      finished.push(pieces_.front().message);
      any = true;
    }
    return any;
  }

 private:
  struct Piece {
    uint64_t message, call;  // finished with that call
  };
  ZeroCopy zero_copy_;
  Fifo<Piece> pieces_;  // sent but not released
  uint64_t call_ = 0;   // the last zero-copy call for the piece being sent; 0: none
};

}  // namespace ringwood::tcp
