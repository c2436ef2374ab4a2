// The copies between memory of a device and pinned memory of the host, for the operations of one
// track (collectives/plan/plan.h: DeviceCopy), in the semantics of streams.
//
// An operation enters in the thread that makes the call: it begins after what is in the user's
// stream, and what is put there from then on comes after its end. The rest is done by the driver of
// the engine:
//
//   user's stream  ... kernels | enter(): begin is recorded, and the end waited for | kernels ...
//   copies out                   begin(): after that | copy_out 1 | copy_out 2 | ...
//   copies in                    begin(): after that | copy_in 1 | ... | end(): the user's goes on
//
// Invariants:
// 1. Nothing here waits, and nothing decides: begin(), the copies and end() are put where the
//    device finds them, and the driver looks later whether they are done. The copies of one
//    direction are done in the order in which they were begun; the directions do not wait for each
//    other.
// 2. Operations may begin and end in any order.
// 3. Whatever happens, the user's stream goes on: after end(), once the copies before it are done,
//    or at once after abandon(). No copy of the operation may be begun after that. An operation
//    that entered is ended or abandoned.
//
// Thread safety: enter() and abandon() from any thread, the rest from one at a time. Sizes: bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transports/base/result.h"

namespace ringwood {

class DeviceCopies {
 public:
  // One that has entered. Valid until end() or abandon().
  using Operation = uint32_t;
  // How many copies of a direction were begun so far, this one included; counts round.
  using Ticket = uint32_t;

  virtual ~DeviceCopies() = default;
  // Makes memory of the host such that copies need nothing else of it: pinned, for as long as the
  // arena's pages stay. Precondition: it lies in a block of the arena. Slow the first time.
  virtual Status pin(const void* data, size_t bytes) = 0;
  // Error: the stream is captured or not this device's, or the driver refuses; nothing is left
  // behind in the stream then.
  virtual Result<Operation> enter(void* stream) = 0;
  virtual Status begin(Operation operation) = 0;
  // Precondition: begin() of its operation. `to`, `from` of the host are pinned until it is done.
  virtual Result<Ticket> copy_out(std::byte* to, const void* from, size_t bytes) = 0;
  virtual Result<Ticket> copy_in(void* to, const std::byte* from, size_t bytes) = 0;
  virtual bool out_done(Ticket ticket) const noexcept = 0;
  virtual bool in_done(Ticket ticket) const noexcept = 0;
  // Precondition: begin().
  virtual Status end(Operation operation) = 0;
  virtual void abandon(Operation operation) noexcept = 0;
  // Rings the doorbell of a driver that sleeps, once the copies that were begun are done.
  virtual Status ring_when_done() = 0;
};

}  // namespace ringwood
