#include "transports/cuda/pinned_words.h"

#include <atomic>

namespace ringwood::cuda {

void PinnedWord::write(uint32_t value) const noexcept {
  std::atomic_ref<uint32_t>(*host).store(value, std::memory_order_release);
}

uint32_t PinnedWord::read() const noexcept {
  return std::atomic_ref<uint32_t>(*host).load(std::memory_order_acquire);
}

PinnedWords::PinnedWords(const Device& device, Arena& arena, PinnedBlocks& pinned, size_t count)
    : device_(device),
      arena_(arena),
      count_(count),
      words_(static_cast<uint32_t*>(arena.allocate(count * sizeof(uint32_t)))) {
  Result<CUdeviceptr> seen = pinned.pin(words_, count * sizeof(uint32_t));
  if (seen) seen = pinned.seen_by(device, words_);
  if (!seen) {
    arena_.release(words_);
    throw std::move(seen.error());
  }
  seen_ = *seen;
  for (size_t i = 0; i < count_; ++i) at(i).write(0);
}

PinnedWords::~PinnedWords() {
  if (!device_.driver().usable()) return;  // in a fork: the block is not this process's
  if (kept_)
    arena_.quarantine(words_);
  else
    arena_.release(words_);
}

}  // namespace ringwood::cuda
