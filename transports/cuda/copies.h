// DeviceCopies by two streams of its own. Two words of pinned memory count what the streams have
// done, out and in: the driver reads them, and asks CUDA only now and then whether the device has
// failed (health()).
#pragma once

#include <utility>
#include <vector>

#include "transports/base/clock.h"
#include "transports/cuda/gates.h"

namespace ringwood::cuda {

class Copies final : public DeviceCopies {
 public:
  // All of them must outlive it. `begun`: the tickets go on from there. Throws Error.
  Copies(const Device& device, Arena& arena, PinnedBlocks& pinned, Gates& gates,
         const Doorbell& doorbell, Ticket begun = 0);

  bool has_come(Operation operation) const noexcept override { return gates_.has_come(operation); }
  Result<Ticket> copy_out(std::byte* to, const void* from, size_t bytes) override;
  Result<Ticket> copy_in(void* to, const std::byte* from, size_t bytes) override;
  Result<Ticket> copy_within(const DeviceMove& move) override;
  bool out_done(Ticket ticket) const noexcept override;
  bool in_done(Ticket ticket) const noexcept override;
  Status end(Operation operation) override;
  void abandon(Operation operation) noexcept override;
  Status ring_when_done() override;
  Status health() const noexcept override;

  // Whether all that was begun is done, by the deadline at the latest. Until then nothing here may
  // end, for the streams use the words.
  bool idle_by(Deadline deadline) const noexcept;
  void keep_for_ever() noexcept { words_.keep_for_ever(); }

 private:
  struct Direction {
    Direction(const Device& device, PinnedWord its_word, Ticket already)
        : stream(device), done(its_word), begun(already), rings(already) {
      done.write(already);
    }
    Stream stream;
    PinnedWord done;
    Ticket begun;
    Ticket rings;  // of these the last is behind a ring of the doorbell
  };

  Status check(CUresult code, const char* call) const;
  void give_back_ended();
  Status write_end(Operation operation);
  Status wait_for_copies_out() const;
  // The ticket of what was put into the direction's stream by a call with that result.
  Result<Ticket> counted(Direction& direction, CUresult code, const char* call);

  const Device& device_;
  Gates& gates_;
  const Doorbell& doorbell_;
  PinnedWords words_;
  Direction out_, in_;
  Event behind_out_;  // of an abandoned operation
  // Ended, and to be given back when the ticket is done: in the order of their ends.
  std::vector<std::pair<Operation, Ticket>> ending_;
};

}  // namespace ringwood::cuda
