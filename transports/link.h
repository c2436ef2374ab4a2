// A Link moves bytes between two ranks, in order, reliably, without ever blocking.
//
// Contract
//   1. Messages have no headers: the k-th post_send of one side meets the k-th receive (post_recv
//      or post_incoming) of the other, and both have the same number of bytes, at least 1.
//   2. Nothing blocks and nothing is allocated per message once warm. Any number may be posted.
//   3. A buffer belongs to the link from its post until its completion. Completions are counts,
//      because a direction is ordered: `sent` of the posted sends and `received` of the posted
//      receives are finished.
//   4. A receive posted with post_incoming is not stored but shown: incoming() is what has arrived
//      of the first unfinished receive and can be read in place, consume(n) hands n bytes of it
//      back. Pieces are multiples of 16 bytes except the last of a message, so an element is never
//      cut. This lets a reduction read the wire's or the peer's memory directly. incoming() is
//      empty unless the first unfinished receive was posted so, and is valid until the next
//      consume() or poll(). The last consume() of a message completes it.
//   5. Progress happens only inside the calls of this link's user: posts may, poll() must.
//   6. One thread at a time uses a link; only abort() may be called from any other, at any moment.
//      After it, every call returns the error or does nothing, and no memory of the user is touched
//      any more. (A device may go on reading pages that it has registered, and keeps until then.
//      Nothing that it reads reaches the peer as a message.)
//   7. An error is final, is returned from every later call, and names the peer and the exact
//      cause. A peer that closes its end is an error only for one who still waits for something
//      from it.
//   8. The peer's writes are never trusted as a length or an index.
// The idea of reading in place is UCX's and TensorPipe's; the counts are ours. transport.h has what
// makes links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transports/base/error.h"

namespace ringwood {

class EagerChannel;

struct Completions {
  uint64_t sent = 0;
  uint64_t received = 0;
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
  // Moves what can be moved; `completions` is set to the totals since the link was made, also when
  // an error is returned: what arrived before the end counts.
  virtual Status poll(Completions& completions) = 0;
  virtual void abort() noexcept = 0;

  // ---- refinements: a link that has them not inherits these, and everything is sent as usual ----

  // Answers in place. Where the peer's memory is mapped, a reduction of what several peers sent can
  // be written straight to where they wait for it, so that every byte is read once and written
  // once.
  //
  // post_exposed: a post_send whose receiver may write into `data` the message that it sends as
  // number `put` (counted from 0 over the life of the link), which this side will receive at
  // `data`.
  virtual Status post_exposed(void* data, size_t bytes, uint64_t /*put*/) {
    return post_send(data, bytes);
  }
  // Of what incoming() shows, entire: the same memory, writable, if the peer waits there for our
  // message `number`; else null.
  virtual std::byte* put_place(uint64_t /*number*/) { return nullptr; }
  // Around the writing, before consume(): false if the peer has given up.
  virtual bool begin_put() { return false; }
  virtual void end_put() {}
  // Instead of the post_send of message `number`, after consume().
  virtual Status post_put(size_t bytes) { return post_send(nullptr, bytes); }

  // Small messages that both ends write and read without a call, apart from the order of the link's
  // messages. Null where the link has none. It lives as long as the link.
  virtual EagerChannel* eager_channel() { return nullptr; }

  // The transport that has carried bytes of this link in place of its own, if one had to; else
  // null. Any thread.
  virtual const char* fallback() const { return nullptr; }
};

}  // namespace ringwood
