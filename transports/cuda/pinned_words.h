// Words of pinned memory, by which streams of a device and the host tell each other how far they
// are: 32-bit counters, compared cyclically, each with one writer at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transports/cuda/pinned.h"

namespace ringwood::cuda {

// A word as the host and the device see it.
struct PinnedWord {
  uint32_t* host = nullptr;
  CUdeviceptr device = 0;

  void write(uint32_t value) const noexcept;  // release
  uint32_t read() const noexcept;             // acquire
};

// A block of the arena with such words, zero at first. Not thread-safe; its words are.
class PinnedWords final {
 public:
  // Throws Error: memory is short, or the driver refuses to pin it. May wait for all streams.
  PinnedWords(const Device& device, Arena& arena, PinnedBlocks& pinned, size_t count);
  ~PinnedWords();
  PinnedWords(const PinnedWords&) = delete;
  PinnedWords& operator=(const PinnedWords&) = delete;

  size_t count() const { return count_; }
  PinnedWord at(size_t index) const { return {words_ + index, seen_ + index * sizeof(uint32_t)}; }
  // A stream may write to them at any time: their pages are never used again.
  void keep_for_ever() noexcept { kept_ = true; }

 private:
  const Device& device_;
  Arena& arena_;
  const size_t count_;
  uint32_t* const words_;
  CUdeviceptr seen_ = 0;
  bool kept_ = false;
};

}  // namespace ringwood::cuda
