// One socket of a tcp link: sends and receives pieces of messages, each direction in order.
//
// Knows nothing of messages: a piece carries the number of its message, and the numbers of finished
// pieces are returned in the order in which they finish. A send is finished when the kernel has
// taken it, or, if it was sent zero-copy (zero_copy_pieces.h), when the kernel has released its
// memory.
//
// Readiness is edge-triggered: before it sleeps, a caller must call send() and receive() until
// neither returns `moved`. Not thread safe.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "transports/base/host_watch.h"
#include "transports/link.h"
#include "transports/link_parts.h"
#include "transports/tcp/read_ahead.h"
#include "transports/tcp/zero_copy_pieces.h"

namespace ringwood::tcp {

struct Piece {
  std::byte* data;  // null: to be read in place
  size_t bytes;
  uint64_t message;
  size_t done = 0;
};

// The result of a call. blocked: nothing is wanted, or nothing is possible for now.
enum class Outcome { moved, blocked, failed };

class Stream final {
 public:
  // zero_copy: large pieces are sent from the user's memory, until the kernel reports that it
  // copies.
  explicit Stream(OwnedFd fd, bool zero_copy = false);
  // The last bytes sent still arrive: ends the stream and reads what has come, because closing with
  // unread bytes resets the connection, which destroys what the peer has not read yet.
  ~Stream();
  Stream(Stream&&) = default;

  void post_send(const Piece& piece) { out_.push(piece); }
  void post_receive(const Piece& piece) { in_.push(piece); }

  Outcome send(AbortGate& gate, Fifo<uint64_t>& finished);
  Outcome receive(AbortGate& gate, Fifo<uint64_t>& finished);
  // Collects the sends that the kernel has released; send() does this too. True if there were any.
  bool take_back(Fifo<uint64_t>& finished) { return zero_copy_.take_back(fd_.get(), finished); }
  // Something posted may still finish, though the peer has ended another socket of the link: it has
  // not ended this one, or the kernel is about to release what the peer has acknowledged. Whoever
  // sleeps is woken when that changes.
  bool may_finish() const;

  // What has come of the first piece, if it is to be read in place: up to a multiple of 16 or its
  // end.
  std::span<const std::byte> in_place();
  // Precondition: at most in_place().size(). True if that was the end of the piece.
  bool consume(size_t bytes);

  // How long the peer's host may leave bytes unacknowledged.
  void watch_host(Duration patience);
  bool host_gone() { return watch_.gone(fd_.get(), Clock::now()); }

  bool zero_copy() const { return zero_copy_.on(); }
  // As the kernel counts; `messages` is not known here. Any thread.
  LinkTraffic traffic() const;
  // Ends the connection at once and drops unsent bytes, so that the kernel reads memory sent
  // zero-copy no more, except for what the network card is sending. Any thread.
  void sever() const noexcept;

  // After `failed`: the call's errno; 0 for the end of the stream.
  int failure() const { return failure_; }

 private:
  Outcome transmit(AbortGate& gate, Fifo<uint64_t>& finished);
  size_t room_for_send(std::span<iovec> parts, size_t& offered, bool zero_copy);
  void taken(size_t bytes, Fifo<uint64_t>& finished);
  void from_ahead(AbortGate& gate, Fifo<uint64_t>& finished);
  void arrived(size_t bytes, size_t stored, Fifo<uint64_t>& finished);
  Outcome fail(int error_number);

  OwnedFd fd_;
  Fifo<Piece> out_, in_;
  ZeroCopyPieces zero_copy_;  // of out_
  ReadAhead ahead_;           // of in_
  int failure_ = 0;
  bool ended_ = false;  // nothing more can be received
  HostWatch watch_;
};

}  // namespace ringwood::tcp
