// One socket of a tcp link: pieces of messages out, pieces in, each direction in order.
//
// Knows nothing of messages; a piece carries the number of its message, and the numbers of finished
// pieces are handed out in the order in which they finish: a send when the kernel has taken it, one
// whose memory was lent to the kernel (zero_copy.h) when that has given it back. Edge-triggered
// readiness: a caller that is going to sleep must have called send() and receive() until neither
// says `moved`. Not thread safe.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transports/host_watch.h"
#include "transports/link_parts.h"
#include "transports/tcp/zero_copy.h"

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
  // lend: large pieces are sent out of the user's memory, until the kernel says that it copies.
  explicit Stream(OwnedFd fd, bool lend = false);
  // The last bytes still arrive: says the end, and takes what has come, because closing over unread
  // bytes resets the connection, which destroys what the peer has not read yet.
  ~Stream();
  Stream(Stream&&) = default;

  void post_send(const Piece& piece) { out_.push(piece); }
  void post_receive(const Piece& piece) { in_.push(piece); }

  Outcome send(AbortGate& gate, Fifo<uint64_t>& finished);
  Outcome receive(AbortGate& gate, Fifo<uint64_t>& finished);
  // The sends that the kernel has given back; send() does this too. True if there were any.
  bool take_back(Fifo<uint64_t>& finished);

  // What has come of the first piece, if it is to be shown: up to a multiple of 16 or its end.
  std::span<const std::byte> shown();
  // Precondition: at most shown().size(). True if that was the end of the piece.
  bool consume(size_t bytes);

  // For how long the peer's host may leave unanswered what it has to answer.
  void watch_host(Duration patience);
  bool host_gone() { return watch_.gone(fd_.get(), Clock::now()); }

  bool lends() const { return zero_copy_.on(); }
  // Ends the connection at once, unsent bytes and all, so that lent memory is not read any more but
  // for what the network card has in hand. Any thread.
  void sever() const noexcept;

  // After `failed`: the call's errno; 0 for the end of the stream.
  int failure() const { return failure_; }

 private:
  static constexpr int kParts = 32;
  using Parts = std::array<iovec, kParts>;

  struct Lent {
    uint64_t message, call;  // finished with that call
  };
  Outcome transmit(AbortGate& gate, Fifo<uint64_t>& finished);
  size_t room_for_send(Parts& parts, size_t& offered, bool lend);
  void taken(size_t bytes, uint64_t call, Fifo<uint64_t>& finished);
  void from_buffer(AbortGate& gate, Fifo<uint64_t>& finished);
  size_t room_for_receive(Parts& parts, size_t& stored);
  void arrived(size_t bytes, size_t stored, Fifo<uint64_t>& finished);
  Outcome fail(int error_number);

  OwnedFd fd_;
  Fifo<Piece> out_, in_;
  std::unique_ptr<std::byte[]> buffer_;  // read ahead
  size_t begin_ = 0, end_ = 0;           // what lies in it
  int failure_ = 0;
  HostWatch watch_;
  ZeroCopy zero_copy_;
  Fifo<Lent> lent_;       // sent but not given back
  uint64_t lent_in_ = 0;  // the last call that lent bytes of the piece at the front of out_
};

}  // namespace ringwood::tcp
