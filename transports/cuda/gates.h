// Gates hold a user's stream back until the operation that entered it has ended.
//
// An operation that enters puts three things into the stream: the record of an event, after which
// it may begin, a wait for the word of its gate, and the record of another event, which tells that
// the word is not read any more. The word grows by one with each operation that
// has the gate. Its end is written by a stream of copies, or, when the operation is abandoned, by
// the host, and both write the same, so neither can take the other's back. A word of its own for
// each operation, because operations end in any order.
//
// Thread safety: all functions; enter() waits where the user's stream is full, and no other
// function waits for it then.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "transports/base/clock.h"
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
  Gates(const Device& device, Arena& arena, PinnedBlocks& pinned);

  // Where no gate is free, 1,024 more are made, which may wait for all streams (PinnedWords).
  Result<Operation> enter(CUstream user);
  CUevent begin_of(Operation operation) const;
  End end_of(Operation operation) const;
  // The host writes the end, and the gate is free again.
  void open(Operation operation) noexcept;
  // A stream has written the end: the gate is free again.
  void give_back(Operation operation) noexcept;
  // Whether all streams have passed their gates, by the deadline at the latest.
  bool passed_by(Deadline deadline) const noexcept;
  // A stream may still read or write ends.
  void keep_for_ever() noexcept;

 private:
  struct Gate {
    PinnedWord end;
    uint32_t value = 0;  // of the operation that has it, or had it last
    std::unique_ptr<Event> begin, passed;
  };
  Status grow();
  Result<Operation> take();
  Status put_into(CUstream user, Gate& gate) const;
  Status check(CUresult code, const char* call) const;
  Status refuse_capture(CUstream stream) const;

  const Device& device_;
  Arena& arena_;
  PinnedBlocks& pinned_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<PinnedWords>> words_;
  std::vector<std::unique_ptr<Gate>> gates_;  // by Operation
  std::vector<Operation> free_;
};

}  // namespace ringwood::cuda
