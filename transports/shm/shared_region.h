// One region of memory that all ranks of a host (and group) share, and how they set it up.
//
// The region is an anonymous memfd: it needs nothing in /dev/shm, whatever its size, and leaves
// nothing behind after kill -9. It is sealed against shrinking, so that no rank can make another
// one fault, and not inherited by forks. Pages are allocated at their first use: a pair of ranks
// that never communicates costs nothing.
//
//   members      one per rank: its `armed` word
//   directions   one per (from, to, channel): counters, and slots for small messages
//   rings        one per (from, to, channel): bytes of larger messages
//   eager_slots  one per (from, to, channel), if there are few ranks: eager messages
//                (transports/eager_channel.h)
//
// A direction is written by its sender, except `Reader`, which is written by its receiver. Each
// checks the other's counters. Once the sender's process has ended, its receiver sets `closed` in
// its place.
// 1. Message k is announced in slot k mod kSlots, once that slot's `stamp` is k + 1. Up to 56 bytes
//    travel in the same line; both ends know the size of every message, and so whether they do. For
//    a larger message the slot contains a Notice:
//      staged     the bytes go through the ring, beginning at a multiple of 64; `head` counts all
//                 bytes ever written or skipped, `tail` those read. The notice comes with the first
//                 piece: where it begins, and its head.
//      zero_copy  the bytes lie exposed in the sender's arena (transports/memory/arena.h), where
//                 the receiver reads them and then counts one `returned`. With `more` the receiver
//                 may also put message number more - 1 of the other direction into that memory,
//                 instead of sending it.
//      placed     the bytes have been put where the receiver wants them: into what it exposed.
// 2. A sender that aborts sets `revoked`, and waits until the receiver is not `putting` any more.
//    What was read of an exposed message counts only if it was not revoked by then.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transports/eager_channel.h"
#include "transports/group.h"
#include "transports/link.h"
#include "transports/link_parts.h"
#include "transports/memory/peer_arena.h"
#include "transports/shm/process_ends.h"

namespace ringwood::shm {

// Throws Error(system).
[[noreturn]] inline void fail_set_up(std::string why) {
  throw Error(ErrorCode::system, std::move(why));
}

inline constexpr size_t kLine = 64;
inline constexpr size_t kSmallBytes = 56;
inline constexpr uint64_t kSlots = 64;
// A reader reports its progress every so many slots: far fewer than all, so that the sender need
// not stop.
inline constexpr uint64_t kSlotReport = kSlots / 4;

struct alignas(kLine) Slot {
  std::byte payload[kSmallBytes];
  std::atomic<uint64_t> stamp;
};
// 128: the processor fetches neighbouring lines in pairs.
struct alignas(128) Writer {
  std::atomic<uint64_t> head;
  std::atomic<uint32_t> closed;   // this rank's end of the link, both directions: a LinkEnd
  std::atomic<uint32_t> putting;  // this rank is writing into memory that the peer has exposed
};
struct alignas(128) Reader {
  std::atomic<uint64_t> tail;
  std::atomic<uint64_t> slots_read;
  std::atomic<uint64_t> returned;  // exposed messages that were read
  std::atomic<uint32_t> maps;      // it maps the sender's arena: messages can be sent zero-copy
};
enum class Way : uint64_t { staged = 1, zero_copy, placed };
struct Notice {
  uint64_t way;   // a Way, as the peer wrote it
  uint64_t at;    // staged: head; zero_copy: offset in the arena
  uint64_t more;  // staged: where its bytes begin in the ring; zero_copy: see Sender::post
};
static_assert(sizeof(Notice) <= kSmallBytes);
// On a line of its own, apart from the counters: the peer reads it around every put.
struct alignas(128) Revocation {
  std::atomic<uint32_t> revoked;  // the writer's exposed messages must not be touched any more
};
struct Direction {
  Writer writer;
  Revocation revocation;
  Reader reader;
  Slot slots[kSlots];
};
struct alignas(128) Member {
  std::atomic<uint32_t> armed;
};
static_assert(sizeof(Slot) == kLine && std::atomic<uint64_t>::is_always_lock_free);

// The layout of the region. Both sides compute it from the same three numbers; nothing of it is
// read from shared memory.
struct Geometry {
  uint32_t members = 0, channels = 0;
  uint64_t ring_bytes = 0;  // channel 0; the others have a quarter

  uint64_t ring_bytes_of(int channel) const { return channel == 0 ? ring_bytes : ring_bytes / 4; }
  bool has_eager_slots() const { return members <= kMaxEagerRanks; }
  uint64_t directions_at() const;
  uint64_t eager_slots_at() const;
  uint64_t rings_at() const;
  uint64_t total() const;
};
// As the option says, but at most 1 GiB in all.
Geometry make_geometry(size_t members, int channels, size_t ring_bytes);

// The mapping. Ends when the last link and the transport are gone; usable by any thread.
class SharedRegion final {
 public:
  // Both throw Error(system).
  static std::shared_ptr<SharedRegion> create(const Geometry& geometry);
  static std::shared_ptr<SharedRegion> attach(OwnedFd fd, const Geometry& geometry);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  const Geometry& geometry() const { return geometry_; }
  int fd() const { return fd_.get(); }
  void close_fd() { fd_ = OwnedFd(); }  // the mapping stays
  // False in a forked child, where the memory is not mapped.
  bool mapped_here() const { return !forked_since(pid_); }
  Member& member(int index) const;
  Direction& direction(int from, int to, int channel) const;
  std::byte* ring(int from, int to, int channel) const;
  EagerDirection& eager_slots(int from, int to, int channel) const;  // requires has_eager_slots()

 private:
  SharedRegion(OwnedFd fd, const Geometry& geometry);
  OwnedFd fd_;
  Geometry geometry_;
  std::byte* base_ = nullptr;
  int pid_;
};

// What a rank has after the bootstrap. A rank that could not join reaches no other, and all
// others know it.
struct Bootstrap {
  std::shared_ptr<SharedRegion> region;          // null: no rank is reached
  std::vector<int> members;                      // by rank of the group; -1: not reached
  std::vector<std::shared_ptr<Doorbell>> bells;  // by rank, of those that are wanted and reached
  std::vector<std::shared_ptr<const PeerArena>> arenas;  // likewise
  std::unique_ptr<ProcessEnds> process_ends;             // watches them, by member
};
// Collective over the ranks with this rank's host token (bootstrap.cc). Throws Error only at the
// group's deadline.
Bootstrap bootstrap_region(const Group& group, const std::vector<bool>& wanted, int channels);

}  // namespace ringwood::shm
