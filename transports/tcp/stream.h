// One socket of a tcp link: pieces of messages out, pieces in, each direction in order.
//
// Knows nothing of messages; a piece carries the number of its message, and the numbers of finished
// pieces are handed out in the order in which they finish: a send when the kernel has taken it, one
// whose memory was lent to the kernel (zero_copy_pieces.h) when that has given it back.
// Edge-triggered
// readiness: a caller that is going to sleep must have called send() and receive() until neither
// says `moved`. Not thread safe.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "transports/base/host_watch.h"
#include "transports/link_parts.h"
#include "transports/tcp/read_ahead.h"
#include "transports/tcp/zero_copy_pieces.h"

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
  // zero_copy: large pieces are sent out of the user's memory, until the kernel says that it
  // copies.
  explicit Stream(OwnedFd fd, bool zero_copy = false);
  // The last bytes still arrive: says the end, and takes what has come, because closing over unread
  // bytes resets the connection, which destroys what the peer has not read yet.
  ~Stream();
  Stream(Stream&&) = default;

  void post_send(const Piece& piece) { out_.push(piece); }
  void post_receive(const Piece& piece) { in_.push(piece); }

  Outcome send(AbortGate& gate, Fifo<uint64_t>& finished);
  Outcome receive(AbortGate& gate, Fifo<uint64_t>& finished);
  // The sends that the kernel has given back; send() does this too. True if there were any.
  bool take_back(Fifo<uint64_t>& finished) { return zero_copy_.take_back(fd_.get(), finished); }

  // What has come of the first piece, if it is to be shown: up to a multiple of 16 or its end.
  std::span<const std::byte> in_place();
  // Precondition: at most in_place().size(). True if that was the end of the piece.
  bool consume(size_t bytes);

  // For how long the peer's host may leave unanswered what it has to answer.
  void watch_host(Duration patience);
  bool host_gone() { return watch_.gone(fd_.get(), Clock::now()); }

  bool zero_copy() const { return zero_copy_.on(); }
  // Ends the connection at once, unsent bytes and all, so that lent memory is not read any more but
  // for what the network card has in hand. Any thread.
  void sever() const noexcept;

  // After `failed`: the call's errno; 0 for the end of the stream.
  int failure() const { return failure_; }

 private:
  Outcome transmit(AbortGate& gate, Fifo<uint64_t>& finished);
  size_t room_for_send(std::span<iovec> parts, size_t& offered, bool zero_copy);
  void taken(size_t bytes, Fifo<uint64_t>& finished);
  void from_ahead(AbortGate& gate, Fifo<uint64_t>& finished);
  size_t room_for_receive(std::span<iovec> parts, size_t& stored);
  void arrived(size_t bytes, size_t stored, Fifo<uint64_t>& finished);
  Outcome fail(int error_number);

  OwnedFd fd_;
  Fifo<Piece> out_, in_;
  ZeroCopyPieces zero_copy_;  // of out_
  ReadAhead ahead_;           // of in_
  int failure_ = 0;
  HostWatch watch_;
};

}  // namespace ringwood::tcp
