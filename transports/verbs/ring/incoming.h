// The receiver's half of a link's stream, without an RDMA device: hands what has arrived in the
// ring to the receives, and decides what the peer may write. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transports/link_parts.h"
#include "transports/verbs/ring/ring.h"
#include "transports/verbs/ring/window.h"

namespace ringwood::verbs {

// When to send the peer a credit, and for what: when an eighth of what may be on its way was read,
// in bytes or in pieces, or when the last credit may be lost.
class CreditAccount final {
 public:
  CreditAccount(uint64_t ring_bytes, size_t most_pieces)
      : due_bytes_(ring_bytes / 8), due_pieces_(most_pieces / 8) {}

  // A piece that ends at `end` has arrived.
  void arrived(uint64_t end) { ends_.push(end); }
  // Everything before `consumed` was read.
  void read(uint64_t consumed) {
    for (; !ends_.empty() && ends_.front() <= consumed; ends_.pop()) ++pieces_;
  }
  void repeat() { repeat_ = true; }

  bool due(uint64_t consumed) const {
    return repeat_ || consumed - told_ >= due_bytes_ || pieces_ >= due_pieces_;
  }
  // Returns the credit to send; sent() once that is on its way.
  uint64_t take(uint64_t consumed) {
    pieces_ = 0;
    return told_ = consumed;
  }
  void sent() { repeat_ = false; }

 private:
  const uint64_t due_bytes_;
  const size_t due_pieces_;
  Fifo<uint64_t> ends_;  // of pieces that arrived and are not read
  size_t pieces_ = 0;    // read since the last credit
  uint64_t told_ = 0;
  bool repeat_ = false;
};

class Incoming final {
 public:
  Incoming(const Ring& ring, size_t most_pieces)
      : ring_(ring), arrivals_(ring.bytes), credit_(ring.bytes, most_pieces) {}

  // `data` null: to be read in place.
  void post(std::byte* data, size_t bytes) { receives_.push({data, bytes, 0}); }
  bool idle() const { return receives_.empty(); }
  uint64_t received() const { return received_; }
  uint64_t arrived() const { return arrivals_.end(); }

  // The peer has written a piece. False: it must not be there.
  bool arrive(uint64_t position, uint64_t bytes);
  // A piece has come over the fallback connection, perhaps late and for the second time
  // (path/reopener.h).
  bool take(uint64_t position, std::span<const std::byte> piece);

  // Copies to the buffered receives. Writes the user's memory: hold an Access.
  void store();
  std::span<const std::byte> in_place() const;
  void consume(size_t bytes) { advance(bytes); }  // of in_place()
  // True if the first receive has bytes that it can take.
  bool readable() const { return !receives_.empty() && available() > 0; }

  // The credit to send, if it is worth a message.
  bool credit_due() const { return credit_.due(consumed()); }
  uint64_t credit() { return credit_.take(consumed()); }
  void repeat_credit() { credit_.repeat(); }
  void credit_sent() { credit_.sent(); }

 private:
  struct Receive {
    std::byte* data;
    size_t bytes, done;
  };
  bool allowed(uint64_t position, uint64_t bytes) const;
  uint64_t consumed() const;
  size_t available() const;
  void advance(size_t bytes);

  const Ring ring_;
  Arrivals arrivals_;
  CreditAccount credit_;
  mutable Fifo<Receive> receives_;  // front() is not const
  uint64_t start_ = 0;              // of the first receive's message
  uint64_t received_ = 0;
};

}  // namespace ringwood::verbs
