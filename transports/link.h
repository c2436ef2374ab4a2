// Moves bytes between two ranks, in order, reliably, without ever blocking.
//
// Contract
//   1. Messages have no headers: the k-th post_send of one side matches the k-th receive (post_recv
//      or post_incoming) of the other, and both have the same number of bytes, at least 1.
//   2. Nothing blocks, and nothing is allocated per message once warm. Any number may be posted.
//   3. A buffer belongs to the link from its post until its completion. Completions are counts,
//      because a direction is ordered: the first `sent` of the posted sends and the first
//      `received` of the posted receives are complete.
//   4. A receive posted with post_recv is buffered: its bytes are stored in the user's buffer. One
//      posted with post_incoming is read in place: incoming() is what has arrived of the first
//      unfinished receive, and consume(n) releases n bytes of it. Pieces are multiples of 16 bytes
//      except the last of a message, so an element is never cut. This lets a reduction read the
//      socket's buffer or the peer's memory directly. incoming() is empty unless the first
//      unfinished receive was posted so, and is valid until the next consume() or poll(). The last
//      consume() of a message completes it.
//   5. Progress happens only inside the calls of this link's user: posts may make it, poll() must.
//      One poll() returns after about kPollBytes in each direction, or what its ring takes at a
//      time, however fast the peer is. It says so (Completions::more) where nobody would then wake
//      a user that sleeps before the next poll().
//   6. One thread at a time uses a link; only abort() may be called by any thread at any time.
//      After it, every call returns the error or does nothing, and the user's memory is not touched
//      any more. (A device may go on reading pages that it has registered, and keeps them until
//      then. Nothing that it reads reaches the peer as a message.)
//   7. An error is final, is returned from every later call, and names the peer and the exact
//      cause. A peer that closes its end is an error only for a rank that still waits for something
//      from it.
//   8. The peer's writes are never trusted as a length or an index.
//
// Reading in place is the idea of UCX and TensorPipe; the counts are this library's. transport.h
// has the interface that makes links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transports/base/error.h"

namespace ringwood {

class EagerChannel;

struct Completions {
  uint64_t sent = 0;
  uint64_t received = 0;
  bool more = false;  // the last poll() stopped early: there may be more bytes to move
};

// So that what else the caller has to do waits 0.1 to 0.3 ms for a large message.
inline constexpr size_t kPollBytes = size_t{1} << 20;

// What a link has sent since it was made, as far as the peer's host has acknowledged it.
struct LinkTraffic {
  uint64_t messages = 0, bytes = 0;
  double busy = 0;               // seconds in which bytes were on their way, or waited
  double blocked = 0;            // of them: the peer had no room, which says nothing of the network
  double carrying = 1;           // the part of its paths that carry now
  uint64_t retransmissions = 0;  // of packets, where the link's own kernel counts them
};

class Link {
 public:
  virtual ~Link() = default;
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  virtual Status post_send(const void* data, size_t bytes) = 0;
  virtual Status post_recv(void* data, size_t bytes) = 0;
  virtual Status post_incoming(size_t bytes) = 0;
  virtual std::span<const std::byte> incoming() = 0;
  virtual void consume(size_t bytes) = 0;
  // Makes progress. `completions` is set to the totals since the link was made, also if an error is
  // returned: what arrived before the end counts.
  virtual Status poll(Completions& completions) = 0;
  virtual void abort() noexcept = 0;

  // ---- refinements: a link without them inherits these, and everything is sent as usual ----

  // Exposed buffers and puts. If the peer's memory is mapped, a reduction of what several peers
  // sent can be written straight to where they wait for it, so that every byte is read once and
  // written once.
  //
  // post_exposed: a post_send whose receiver may put into `data` the message that it sends as
  // number `put` (counted from 0 over the life of the link), which this side will receive at
  // `data`.
  virtual Status post_exposed(void* data, size_t bytes, uint64_t /*put*/) {
    return post_send(data, bytes);
  }
  // For an exposed message, all of which incoming() returns: the same memory, writable, if the peer
  // waits there for our message `number`; else null.
  virtual std::byte* put_place(uint64_t /*number*/) { return nullptr; }
  // To be called around the write, before consume(). False: the peer has given up, as poll() says
  // from then on.
  virtual bool begin_put() { return false; }
  virtual void end_put() {}
  // Replaces the post_send of message `number`; to be called after consume().
  virtual Status post_put(size_t bytes) { return post_send(nullptr, bytes); }

  // Small messages that both ends write and read without a call, outside the order of the link's
  // messages. Null if the link has none. Lives as long as the link.
  virtual EagerChannel* eager_channel() { return nullptr; }

  // The transport that has carried bytes of this link as a fallback; null: none. Any thread.
  virtual const char* fallback() const { return nullptr; }

  // The device ports that it may use, as Transport::ports() has them; none where it has no devices
  // of its own.
  virtual std::vector<std::string> ports() const { return {}; }

  // Nothing where the link does not know. Any thread.
  virtual std::optional<LinkTraffic> traffic() const { return std::nullopt; }
};

}  // namespace ringwood
