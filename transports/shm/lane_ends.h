// The two ends of a lane (segment.h): who writes it and who reads it. For shm.cc only.
//
// One thread at a time, except AbortGate. The methods that return bool say false when the peer has
// written something impossible, after which the link is dead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transports/link_parts.h"
#include "transports/memory/adopt.h"
#include "transports/memory/arena.h"
#include "transports/shm/ring_ends.h"
#include "transports/shm/segment.h"
#include "transports/shm/slot_writer.h"

namespace ringwood::shm {

// Of adopted buffers (adopt.h) that were lent to be answered: the bytes which an answer leaves in
// the arena instead of the buffer, by the number of the message that it stands for.
class AwaitedEdges {
 public:
  void await(uint64_t number, const Adopted::Edge& edge) {
    if (edge.bytes > 0) all_.push_back({number, edge});
  }
  // Message `number` is here, in its place, or as a copy of its own.
  void arrived(uint64_t number, bool placed) {
    if (!all_.empty()) settle(number, placed);
  }

 private:
  struct Awaited {
    uint64_t number;
    Adopted::Edge edge;
  };
  void settle(uint64_t number, bool placed);
  std::vector<Awaited> all_;
};

// What both ends of this rank's side of a link work with.
struct Bench {
  Alarm& alarm;
  AbortGate& gate;
  AwaitedEdges& edges;
};

class Sender {
 public:
  // Messages of fewer bytes than `lend_from` are never lent.
  Sender(Lane& lane, std::byte* ring, uint64_t ring_bytes, Bench bench, size_t lend_from)
      : lane_(lane),
        bench_(bench),
        slots_(lane),
        ring_(lane, ring, ring_bytes),
        lend_from_(lend_from) {}

  bool idle() const { return queue_.empty(); }
  uint64_t posted() const { return finished_ + queue_.size(); }
  uint64_t finished() const { return finished_; }

  // `answer`: 1 + the number of the message that the peer may write into `data`, or 0.
  bool post(const void* data, size_t bytes, uint64_t answer = 0);
  // The next message's bytes are where the peer wants them.
  bool post_placed(size_t bytes);
  bool advance();
  void close();
  // After it, the peer touches nothing that was lent to it; `answering` is the peer's word in the
  // other lane. What a peer that does not move may still write to is never used again.
  void revoke(std::atomic<uint32_t>& answering) noexcept;

 private:
  struct Message {
    const std::byte* data;  // null: placed
    size_t bytes;
    size_t done;
    uint64_t answer;
    uint64_t ticket;  // of a lent message: finished when so many were returned
    uint64_t at;      // and where it is, in the arena
    std::shared_ptr<const void> hold;
  };
  bool put(Message& message, bool& believable);
  bool lend(Message& message);
  void announce(Notice notice);
  bool put_piece(Message& message, bool& believable);
  bool retire();

  Lane& lane_;
  const Bench bench_;
  SlotWriter slots_;
  RingWriter ring_;
  const size_t lend_from_;
  Arena* const arena_ = Arena::of_process();  // that the peer was shown; null: nothing is lent
  Fifo<Message> queue_;                       // those before next_ are on their way, or lent
  size_t next_ = 0;
  uint64_t finished_ = 0;
  uint64_t lent_ = 0, returned_ = 0;
};

class Receiver {
 public:
  Receiver(Lane& lane, std::byte* ring, uint64_t ring_bytes, Bench bench,
           std::shared_ptr<const PeerArena> arena)
      : lane_(lane), bench_(bench), ring_(lane, ring, ring_bytes), arena_(std::move(arena)) {
    lane_.reader.maps.store(arena_ && arena_->mapped() ? 1 : 0, std::memory_order_release);
  }

  bool idle() const { return queue_.empty(); }
  uint64_t finished() const { return finished_; }
  bool peer_closed() const { return lane_.writer.closed.load(std::memory_order_acquire) != 0; }
  // data null: to be shown.
  void post(void* data, size_t bytes) { queue_.push({static_cast<std::byte*>(data), bytes, 0}); }
  bool advance();
  // What has arrived, in one piece, of the first message.
  std::span<const std::byte> arrived(bool& believable);
  bool shows() { return !queue_.empty() && queue_.front().data == nullptr; }
  // Gives back `bytes` of what has arrived. False: it was lent and has been taken back meanwhile.
  bool take(size_t bytes);
  bool taken_back() const { return taken_back_; }
  // Where the peer waits for message number `number` of the other direction; null if nowhere.
  std::byte* answer_place(uint64_t number);

 private:
  struct Message {
    std::byte* data;
    size_t bytes;
    size_t done;
  };
  bool open(Message& message, bool& believable);
  bool copy_first(bool& believable);

  Lane& lane_;
  const Bench bench_;
  RingReader ring_;
  const std::shared_ptr<const PeerArena> arena_;
  Fifo<Message> queue_;
  uint64_t finished_ = 0;
  uint64_t slots_ = 0;  // messages read
  // Of the first message, once its notice was read.
  bool opened_ = false;
  Way way_ = Way::staged;
  std::byte* lent_ = nullptr;
  uint64_t answer_ = 0;
  bool taken_back_ = false;
  uint64_t returned_ = 0;
};

}  // namespace ringwood::shm
