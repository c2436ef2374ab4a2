// The two ends of a direction (shared_region.h): its sender and its receiver. For shm.cc only.
//
// Used by one thread at a time, except AbortGate. A method that returns bool returns false if the
// peer has written something impossible, after which the link is dead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transports/link.h"
#include "transports/link_parts.h"
#include "transports/memory/arena.h"
#include "transports/memory/remap.h"
#include "transports/shm/ring_ends.h"
#include "transports/shm/shared_region.h"
#include "transports/shm/slot_writer.h"

namespace ringwood::shm {

// Edges of remapped buffers (remap.h) that were exposed for a put: the bytes that the put leaves in
// the arena instead of the buffer, by the number of the message that the put replaces.
class AwaitedEdges {
 public:
  void await(uint64_t number, const RemappedMemory::Edge& edge) {
    if (edge.bytes > 0) all_.push_back({number, edge});
  }
  // Message `number` has arrived: put in its place, or as a copy of its own.
  void arrived(uint64_t number, bool placed) {
    if (!all_.empty()) resolve(number, placed);
  }

 private:
  struct Awaited {
    uint64_t number;
    RemappedMemory::Edge edge;
  };
  void resolve(uint64_t number, bool placed);
  std::vector<Awaited> all_;
};

// What both ends of this rank's side of a link share.
struct EndContext {
  Alarm& alarm;
  AbortGate& gate;
  AwaitedEdges& edges;
};

class Sender {
 public:
  // Messages of fewer bytes than `zero_copy_from` are never exposed.
  Sender(Direction& direction, std::byte* ring, uint64_t ring_bytes, EndContext context,
         size_t zero_copy_from)
      : direction_(direction),
        context_(context),
        slots_(direction),
        ring_(direction, ring, ring_bytes),
        zero_copy_from_(zero_copy_from) {}

  bool idle() const { return queue_.empty(); }
  uint64_t posted() const { return finished_ + queue_.size(); }
  uint64_t finished() const { return finished_; }

  // `put`: 1 + the number of the message that the peer may put into `data`, or 0.
  bool post(const void* data, size_t bytes, uint64_t put = 0);
  // The bytes of the next message have been put where the peer wants them.
  bool post_placed(size_t bytes);
  // Moves about `most` bytes of staged messages, and all notices; more() then tells whether more
  // could have been moved.
  bool advance(size_t most = kPollBytes);
  bool more() const { return more_; }
  void close();
  // When this returns, the peer touches nothing that was exposed to it. `putting` is the peer's
  // flag in the other direction. Memory that a peer which does not move may still write to is
  // quarantined.
  void revoke(std::atomic<uint32_t>& putting) noexcept;

 private:
  struct Message {
    const std::byte* data;  // null: placed
    size_t bytes;
    size_t done;
    uint64_t put;
    uint64_t ticket;  // exposed: the message is finished when this many were returned
    uint64_t at;      // exposed: its offset in the arena
    std::shared_ptr<const void> hold;
  };
  bool move_once(Message& message, bool& plausible);
  bool expose(Message& message);
  void announce(Notice notice);
  bool stage_piece(Message& message, bool& plausible);
  bool retire();

  Direction& direction_;
  const EndContext context_;
  SlotWriter slots_;
  RingWriter ring_;
  const size_t zero_copy_from_;
  Arena* const arena_ = Arena::of_process();  // that the peer maps; null: nothing is exposed
  Fifo<Message> queue_;                       // those before next_ are on their way, or exposed
  size_t next_ = 0;
  uint64_t finished_ = 0;
  uint64_t exposed_ = 0, returned_ = 0;
  size_t moved_ = 0;  // bytes of staged messages, by advance()
  bool more_ = false;
};

class Receiver {
 public:
  Receiver(Direction& direction, std::byte* ring, uint64_t ring_bytes, EndContext context,
           std::shared_ptr<const PeerArena> arena)
      : direction_(direction),
        context_(context),
        ring_(direction, ring, ring_bytes),
        arena_(std::move(arena)) {
    direction_.reader.maps.store(arena_ && arena_->mapped() ? 1 : 0, std::memory_order_release);
  }

  bool idle() const { return queue_.empty(); }
  uint64_t finished() const { return finished_; }
  LinkEnd peer_end() const {
    return static_cast<LinkEnd>(direction_.writer.closed.load(std::memory_order_acquire));
  }
  // data null: to be read in place.
  void post(void* data, size_t bytes) { queue_.push({static_cast<std::byte*>(data), bytes, 0}); }
  // Stores about `most` bytes; more() then tells whether more could have been stored.
  bool advance(size_t most = kPollBytes);
  bool more() const { return more_; }
  // The contiguous bytes of the first message that have arrived.
  std::span<const std::byte> arrived(bool& plausible);
  bool shows() { return !queue_.empty() && queue_.front().data == nullptr; }
  // Releases `bytes` of what has arrived. False: it was exposed and has been revoked meanwhile.
  bool take(size_t bytes);
  bool taken_back() const { return taken_back_; }
  // Where the peer expects message `number` of the other direction to be put; null: nowhere.
  std::byte* put_place(uint64_t number);

 private:
  struct Message {
    std::byte* data;
    size_t bytes;
    size_t done;
  };
  bool open(Message& message, bool& plausible);
  bool copy_first(bool& plausible);

  Direction& direction_;
  const EndContext context_;
  RingReader ring_;
  const std::shared_ptr<const PeerArena> arena_;
  Fifo<Message> queue_;
  uint64_t finished_ = 0;
  uint64_t slots_ = 0;  // messages read
  // State of the first message, once its notice has been read.
  bool opened_ = false;
  Way way_ = Way::staged;
  std::byte* exposed_ = nullptr;
  uint64_t put_ = 0;
  bool taken_back_ = false;
  uint64_t returned_ = 0;
  size_t moved_ = 0;  // bytes stored by advance()
  bool more_ = false;
};

}  // namespace ringwood::shm
