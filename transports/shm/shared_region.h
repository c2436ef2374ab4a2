// One piece of memory that all ranks of a host (and group) share, and how they meet over it.
//
// The region is an anonymous memfd: nothing in /dev/shm, whatever its size; nothing left behind
// after kill -9. It is sealed against shrinking, so no rank can make another one fault, and not
// inherited by forks. Pages are taken when they are first used: a pair of ranks that never talks
// costs nothing.
//
//   members, one per rank: its `armed` word
//   directions, one per (from, to, channel): counters, and slots for small messages
//   rings, one per (from, to, channel): bytes of larger messages
//   eager_slots, one per (from, to, channel), where ranks are few: eager messages
//   (transports/eager_channel.h)
//
// A direction is written by its sender, except `Reader`, by its receiver. Neither believes the
// other's counters.
//   Message k is announced in slot k mod kSlots, once its `stamp` is k + 1. Up to 56 bytes travel
//   in that very line; both ends know every message's size, hence that. Of a larger one the slot
//   holds a Notice:
//     staged   the bytes go through the ring, beginning at a multiple of 64; `head` counts what
//              was ever written or skipped, `tail` what was read. The notice comes with the first
//              piece: where it begins, and its head.
//     lent     the bytes lie in the sender's arena (transports/memory/arena.h), where the receiver
//              reads them and then counts one `returned`. With `more` the receiver may moreover
//              write the message number more - 1 of the other direction to that very place, instead
//              of sending it.
//     placed   the bytes are already where the receiver wants them: in what it lent.
//   A sender that aborts sets `revoked`, and waits until the receiver is not `putting` any more;
//   what was read of a lent message counts only if it was not revoked by then.
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

namespace ringwood::shm {

inline constexpr size_t kLine = 64;
inline constexpr size_t kSmallBytes = 56;
inline constexpr uint64_t kSlots = 64;
// A reader reports what it has read after so many slots: far from all, so that the sender need not
// stop.
inline constexpr uint64_t kSlotReport = kSlots / 4;
// Eager slots go from each rank to each other: among more ranks nobody would write them.
inline constexpr uint32_t kMaxEagerRanks = 16;

struct alignas(kLine) Slot {
  std::byte payload[kSmallBytes];
  std::atomic<uint64_t> stamp;
};
// 128: neighbouring lines are fetched in pairs.
struct alignas(128) Writer {
  std::atomic<uint64_t> head;
  std::atomic<uint32_t> closed;   // this rank's end of the link, both directions
  std::atomic<uint32_t> putting;  // it is writing into what the other side has lent
};
struct alignas(128) Reader {
  std::atomic<uint64_t> tail;
  std::atomic<uint64_t> slots_read;
  std::atomic<uint64_t> returned;  // lent messages that were read
  std::atomic<uint32_t> maps;      // it has mapped the sender's arena: lending makes sense
};
enum class Way : uint64_t { staged = 1, zero_copy, placed };
struct Notice {
  uint64_t way;   // of Way; as the peer wrote it
  uint64_t at;    // staged: head; lent: offset in the arena
  uint64_t more;  // staged: where the ring's bytes begin; lent: see Sender::post
};
static_assert(sizeof(Notice) <= kSmallBytes);
// Apart from what changes all the time: the other side looks at it around every answer.
struct alignas(128) Revocation {
  std::atomic<uint32_t> revoked;  // the writer's lent messages must not be touched any more
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

// What is where. Both sides compute it from the same three numbers; nothing of it is read from
// shared memory.
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

// The mapping. Ends when the last link and the transport have gone; usable by any thread.
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

// What a rank holds after the bootstrap. A rank that could not join reaches nobody, and all others
// know it.
struct Bootstrap {
  std::shared_ptr<SharedRegion> region;          // null: nobody is reached
  std::vector<int> members;                      // by rank of the group; -1: not reached
  std::vector<std::shared_ptr<Doorbell>> bells;  // by rank, of those that are wanted and reached
  std::vector<std::shared_ptr<const PeerArena>> arenas;  // likewise
};
// Collective over the ranks with this rank's host token (bootstrap.cc). Throws Error only at the
// group's deadline.
Bootstrap bootstrap_region(const Group& group, const std::vector<bool>& wanted, int channels);

}  // namespace ringwood::shm
