// One socket of a tcp link: pieces of messages out, pieces in, each direction in order.
//
// Knows nothing of messages; a piece carries the number of its message, and the numbers of finished
// pieces are handed out in the order in which they finish. Edge-triggered readiness: a caller that
// is going to sleep must have called send() and receive() until neither says `moved`. Not thread
// safe.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transports/link_parts.h"

namespace ringwood::tcp {

struct Piece {
  std::byte* data;  // null: to be shown
  size_t bytes;
  uint64_t message;
  size_t done = 0;
};

// What one system call came to. blocked: nothing is wanted, or nothing can be had for now.
enum class Outcome { moved, blocked, failed };

class Stream final {
 public:
  explicit Stream(OwnedFd fd) : fd_(std::move(fd)) {}
  // The last bytes still arrive: says the end, and takes what has come, because closing over unread
  // bytes resets the connection, which destroys what the peer has not read yet.
  ~Stream();
  Stream(Stream&&) = default;

  void post_send(const Piece& piece) { out_.push(piece); }
  void post_receive(const Piece& piece) { in_.push(piece); }

  Outcome send(AbortGate& gate, Fifo<uint64_t>& finished);
  Outcome receive(AbortGate& gate, Fifo<uint64_t>& finished);

  // What has come of the first piece, if it is to be shown: up to a multiple of 16 or its end.
  std::span<const std::byte> shown();
  // Precondition: at most shown().size(). True if that was the end of the piece.
  bool consume(size_t bytes);

  // After `failed`: the call's errno; 0 for the end of the stream.
  int failure() const { return failure_; }

 private:
  static constexpr int kParts = 32;
  using Parts = std::array<iovec, kParts>;

  void from_buffer(AbortGate& gate, Fifo<uint64_t>& finished);
  size_t room_for_receive(Parts& parts, size_t& stored);
  void arrived(size_t bytes, size_t stored, Fifo<uint64_t>& finished);
  Outcome fail(int error_number);

  OwnedFd fd_;
  Fifo<Piece> out_, in_;
  std::unique_ptr<std::byte[]> buffer_;  // read ahead
  size_t begin_ = 0, end_ = 0;           // what lies in it
  int failure_ = 0;
};

}  // namespace ringwood::tcp
