// Gates hold a user's stream back until the operation that entered it has ended.
//
// An operation that enters puts two things into the stream: the word that it has come, written to
// pinned memory, and the doorbell. To hold it back there are a wait for the word that the operation
// has ended, and then the word that the stream has passed. The words grow by one with each
// operation that has the gate. The end is written by a stream of copies, or, when the operation is
// abandoned, by the host, and both write the same, so neither can take the other's back. Words of
// its own for each operation, because operations end in any order. A gate is free again when the
// stream has passed: nothing there reads or writes its words any more, nor rings.
//
// Thread safety: all functions; enter() and hold_back() wait where the user's stream is full, and
// no other function waits for them then.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "transports/base/clock.h"
#include "transports/cuda/doorbell.h"
#include "transports/cuda/handles.h"
#include "transports/cuda/pinned_words.h"
#include "transports/device_copies.h"

namespace ringwood::cuda {

class Gates final {
 public:
  using Operation = DeviceCopies::Operation;
  struct End {
    CUdeviceptr word = 0;
    uint32_t value = 0;
  };

  // All of them must outlive it.
  Gates(const Device& device, Arena& arena, PinnedBlocks& pinned, const Doorbell& doorbell);

  // Precondition: the device's context is current.
  Status refuse_capture(CUstream stream) const;
  // Where no gate is free, 1,024 more are made, which may wait for all streams (PinnedWords).
  Result<Operation> enter(CUstream user);
  // To be called once after enter(), also of an operation that has ended or was opened.
  Status hold_back(CUstream user, Operation operation);
  bool has_come(Operation operation) const noexcept;
  End end_of(Operation operation) const noexcept;
  // The host writes the end.
  void open(Operation operation) noexcept;
  // A stream has written the end.
  void give_back(Operation operation) noexcept;
  // Whether all streams have passed their gates, by the deadline at the latest.
  bool passed_by(Deadline deadline) const noexcept;
  // A stream may still read or write the words.
  void keep_for_ever() noexcept;

 private:
  struct Gate {
    PinnedWord come, end, passed;
    uint32_t value = 0;           // of the operation that has it, or had it last
    std::unique_ptr<Event> lost;  // tells instead of a word that could not be written
    bool has_come() const noexcept { return come.read() == value; }
    bool is_free() const noexcept { return has_come() && passed.read() == value; }
  };
  Status grow();
  Result<Operation> take();
  Gate& gate(Operation operation) const;  // takes the lock
  Status wait_for_end(CUstream user, Gate& gate) const;
  void go_on(CUstream user, Gate& gate) const noexcept;
  Status check(CUresult code, const char* call) const;

  const Device& device_;
  Arena& arena_;
  PinnedBlocks& pinned_;
  const Doorbell& doorbell_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<PinnedWords>> words_;
  std::vector<std::unique_ptr<Gate>> gates_;  // by Operation
  std::vector<Operation> free_;
  std::vector<Operation> ended_;  // free once their streams have passed
};

}  // namespace ringwood::cuda
