// DeviceCopies by two streams of its own. Two words of pinned memory count what the streams have
// done, out and in: the driver reads them, so it never asks CUDA, which other threads' captures
// would forbid (BesideCaptures).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "transports/base/clock.h"
#include "transports/cuda/gates.h"

namespace ringwood::cuda {

class Copies final : public DeviceCopies {
 public:
  // `doorbell`: an eventfd, or -1; a copy of it is kept. All others must outlive it. Throws Error.
  Copies(const Device& device, Arena& arena, PinnedBlocks& pinned, Gates& gates, int doorbell);
  // Waits until its streams are idle, so that nothing writes to its words any more; for at most a
  // second, after which they, and the gates', are left alone for ever.
  ~Copies() override;

  Result<Ticket> begin(Operation operation) override;
  Result<Ticket> copy_out(std::byte* to, const void* from, size_t bytes) override;
  Result<Ticket> copy_in(void* to, const std::byte* from, size_t bytes) override;
  Result<Ticket> copy_within(const DeviceMove& move) override;
  bool out_done(Ticket ticket) const noexcept override;
  bool in_done(Ticket ticket) const noexcept override;
  Status end(Operation operation) override;
  void abandon(Operation operation) noexcept override;
  Status ring_when_done() override;

  // Whether all that was begun is done, by the deadline at the latest.
  bool idle_by(Deadline deadline) const noexcept;

 private:
  struct Direction {
    Direction(const Device& device, PinnedWord its_word) : stream(device), done(its_word) {}
    Stream stream;
    PinnedWord done;
    Ticket begun = 0;
  };

  Status check(CUresult code, const char* call) const;
  void give_back_ended();
  Status write_end(Operation operation);
  Status wait_for_copies_out() const;
  // The ticket of what was put into the direction's stream by a call with that result.
  Result<Ticket> counted(Direction& direction, CUresult code, const char* call);

  const Device& device_;
  Gates& gates_;
  PinnedWords words_;
  Direction out_, in_;
  Event behind_out_;               // of an abandoned operation
  std::unique_ptr<int> doorbell_;  // read by host functions of the streams
  std::vector<Operation> begun_;
  // Ended, and to be given back when the ticket is done: in the order of their ends.
  std::vector<std::pair<Operation, Ticket>> ending_;
};

}  // namespace ringwood::cuda
