// Pieces that were sent out of the user's memory (zero_copy.h): each is finished when the kernel
// has given back what the last call took of it. Not thread safe.
#pragma once

#include <cstdint>

#include "transports/link_parts.h"
#include "transports/tcp/zero_copy.h"

namespace ringwood::tcp {

class ZeroCopyPieces final {
 public:
  // Lends from now on, if the kernel can, until it says that it copies.
  void start(int fd) { zero_copy_.start(fd); }
  bool on() const { return zero_copy_.on(); }
  // The kernel has given all memory back.
  bool idle() const { return zero_copy_.idle(); }

  // A call has just lent bytes of the piece that is being sent.
  void note_call() { call_ = zero_copy_.call_made(); }
  // All of that piece is sent. True: it is finished when the kernel gives it back; false: now.
  bool keep(uint64_t message) {
    if (call_ == 0) return false;
    pieces_.push({message, call_});
    call_ = 0;
    return true;
  }
  // Pieces are kept.
  bool any() const { return !pieces_.empty(); }
  // Those that the kernel has given back. True if there were any.
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
  Fifo<Piece> pieces_;  // sent but not given back
  uint64_t call_ = 0;   // the last that lent bytes of the piece that is being sent; 0: none
};

}  // namespace ringwood::tcp
