// DeviceCopies by two streams of its own and words of pinned memory.
//
// Two words count what the streams have done, out and in: the driver reads them, so it never asks
// CUDA, which other threads' captures would forbid (BesideCaptures). Each operation has a word that
// the user's stream waits for, taken from a pool and given back when its end is done. A word grows
// by one with each operation that has it. Its end is written by the stream of the copies in, or,
// when the operation is abandoned, by the host, and both write the same, so neither can take the
// other's back.
//
// The words lie in blocks of the arena: 1,024 at first, and as many again when all are in use.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "transports/cuda/handles.h"
#include "transports/cuda/pinned.h"
#include "transports/device_copies.h"

namespace ringwood::cuda {

class Copies final : public DeviceCopies {
 public:
  // `doorbell`: an eventfd, or -1. The device, the blocks and the arena must outlive it.
  Copies(const Device& device, Arena& arena, PinnedBlocks& pinned, int doorbell);
  // Waits until its streams are idle, so that nothing writes to its words any more; for at most a
  // second, after which they are left alone for ever.
  ~Copies() override;

  Status pin(const void* data, size_t bytes) override;
  Result<Operation> enter(void* stream) override;
  Status begin(Operation operation) override;
  Result<Ticket> copy_out(std::byte* to, const void* from, size_t bytes) override;
  Result<Ticket> copy_in(void* to, const std::byte* from, size_t bytes) override;
  bool out_done(Ticket ticket) const noexcept override;
  bool in_done(Ticket ticket) const noexcept override;
  Status end(Operation operation) override;
  void abandon(Operation operation) noexcept override;
  Status ring_when_done() override;

 private:
  // A word as the host and the device see it.
  struct Word {
    uint32_t* host = nullptr;
    CUdeviceptr device = 0;
    void write(uint32_t value) const noexcept;
    uint32_t read() const noexcept;
  };
  // A place for an operation: one at a time.
  struct Place {
    Word end;
    uint32_t value = 0;  // of the operation that has it, or had it last
    std::unique_ptr<Event> begin;
  };
  struct Direction {
    explicit Direction(const Device& device) : stream(device) {}
    Stream stream;
    Word done;
    Ticket begun = 0;
  };

  Status check(CUresult code, const char* call) const;
  Status grow();           // precondition: mutex_
  void give_back_ended();  // likewise
  Result<Ticket> count(Direction& direction);
  Status refuse_capture(CUstream stream) const;

  const Device& device_;
  Arena& arena_;
  PinnedBlocks& pinned_;
  std::unique_ptr<int> doorbell_;  // read by host functions of the streams
  std::vector<void*> blocks_;      // of words
  Direction out_, in_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Place>> places_;
  std::vector<Operation> free_;
  // Ended, and to be given back when the ticket is done: in the order of their ends.
  std::vector<std::pair<Operation, Ticket>> ending_;
};

}  // namespace ringwood::cuda
