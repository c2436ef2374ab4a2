// Operations on memory of devices, in the semantics of streams: a group's access to the devices of
// its process (GroupDevices), and the copies between a device and pinned memory of the host
// (DeviceCopies; collectives/plan/plan.h: DeviceCopy).
//
// An operation enters in the thread that makes the call: it begins after what is in the user's
// stream, and what is put there from then on comes after its end. The rest is done by the driver of
// the engine:
//
//   user's stream  ... kernels | it has_come(); its end is waited for ............ | kernels ...
//   copies out                        copy_out 1 | copy_out 2 | ...
//   copies in                                            copy_in 1 | ... | end()
//
// Invariants:
// 1. Nothing here waits, and nothing decides: the copies and end() are put where the device finds
//    them, and the driver looks later whether they are done. The copies of one direction are done
//    in the order in which they were begun; the directions do not wait for each other.
// 2. Nothing of an operation is begun before the user's stream has come to it. So no copy waits for
//    a stream: none can be before the end of another operation for which its own stream waits, and
//    the streams of copies, which hold about a thousand, do not fill up behind one.
// 3. Operations may begin and end in any order.
// 4. Whatever happens, the user's stream goes on: after end() or abandon(), once the copies that
//    were begun are done, or at once where the driver refuses to wait for them. None of the
//    operation may be begun after that. An operation that entered is ended or abandoned, once.
// 5. To pin memory may wait until all streams of a device are idle, one of which may wait for an
//    operation. So memory is pinned by the thread that makes the call, before it enters, and never
//    by the driver, on which all operations depend.
//
// Sizes: bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transports/base/result.h"

namespace ringwood {

// A copy inside a device.
struct DeviceMove {
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
};

// Thread safety: for the driver only.
class DeviceCopies {
 public:
  // One that has entered its stream. Valid until end() or abandon().
  using Operation = uint32_t;
  // How many copies of a direction were begun so far, this one included; counts round.
  using Ticket = uint32_t;

  virtual ~DeviceCopies() = default;
  // The user's stream has come to the operation. The doorbell of a driver that sleeps rings then.
  virtual bool has_come(Operation operation) const noexcept = 0;
  // Precondition: has_come() of its operation. `to`, `from` of the host are pinned until it is
  // done.
  virtual Result<Ticket> copy_out(std::byte* to, const void* from, size_t bytes) = 0;
  virtual Result<Ticket> copy_in(void* to, const std::byte* from, size_t bytes) = 0;
  // Inside the device; one of the copies out.
  virtual Result<Ticket> copy_within(const DeviceMove& move) = 0;
  virtual bool out_done(Ticket ticket) const noexcept = 0;
  virtual bool in_done(Ticket ticket) const noexcept = 0;
  // Precondition: has_come(), and all its copies out are done.
  virtual Status end(Operation operation) = 0;
  virtual void abandon(Operation operation) noexcept = 0;
  // Rings the doorbell of a driver that sleeps, once the copies that were begun are done.
  virtual Status ring_when_done() = 0;
  // The error with which the device has failed, if it has: nothing is ever done there any more.
  virtual Status health() const noexcept = 0;
};

// Thread safety: ready(), staging(), enter(), hold_back() and check() by one thread at a time, the
// rest by the driver, at the same time; abandon() and give_back() by any. Devices are CUDA's
// ordinals in this process.
class GroupDevices {
 public:
  virtual ~GroupDevices() = default;
  // Makes an operation with that much scratch possible. Slow where it is the first of its kind.
  // Error(unsupported): there is no driver, or no such device, or it is switched off;
  // Error(system): memory cannot be pinned.
  virtual Status ready(int device, size_t scratch_bytes) = 0;
  // Pinned memory of one message, until it is given back. Precondition: ready(). Error(system): as
  // above.
  virtual Result<std::byte*> staging(size_t bytes) = 0;
  virtual void give_back(std::byte* staging) noexcept = 0;
  // Refuses a buffer that is not memory of that device, in the name of the call `what`, and a
  // stream that is captured; null buffers pass. Precondition: none; makes the device ready.
  virtual Status check(const char* what, int device, void* stream,
                       std::span<void* const> buffers) = 0;
  // The operation begins after what is in the stream. Is followed by hold_back(), once, whatever
  // becomes of it. Precondition: ready(). Error: the stream is captured or not this device's, or
  // the driver refuses; it has not entered then.
  virtual Result<DeviceCopies::Operation> enter(int device, void* stream) = 0;
  // What is put into the stream from now on comes after the end of the operation, which may have
  // ended. Operations that are to run side by side enter before any of them holds their stream
  // back. Error: the driver refuses, and the stream goes on at once.
  virtual Status hold_back(int device, void* stream, DeviceCopies::Operation operation) = 0;
  // Of an operation of which nothing was begun.
  virtual void abandon(int device, DeviceCopies::Operation operation) noexcept = 0;
  // Of an operation that entered; valid as long as this. `scratch`: as large as ready() was told,
  // pinned, and read in place by the ranks of this host.
  virtual DeviceCopies& copies(int device) = 0;
  virtual std::byte* scratch(int track) = 0;
};

}  // namespace ringwood
