// Another process's arena (arena.h), mapped into this one.
//
// Each is mapped once, for all groups and channels that this process shares with the other, until
// the last of them is gone: an arena takes as many addresses as its machine has memory, and 64
// ranks in 8 groups would soon use up 47 bits of addresses. The kernel says which arena a
// descriptor is (device and inode). Its owner is not asked, and nothing is believed beyond what the
// descriptor proves. An inode's number is not reused while the file is mapped.
//
// Immutable. Thread safety: all functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transports/base/owned_fd.h"

namespace ringwood {

class PeerArena final {
 public:
  // Never null; if it cannot be mapped, an arena with nothing inside.
  static std::shared_ptr<const PeerArena> of(OwnedFd fd);
  ~PeerArena();
  PeerArena(const PeerArena&) = delete;
  PeerArena& operator=(const PeerArena&) = delete;
  bool mapped() const { return base_ != nullptr; }
  // Null: outside.
  std::byte* at(uint64_t offset, size_t bytes) const noexcept;

 private:
  PeerArena() = default;
  void map(int fd) noexcept;
  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
  int pid_ = 0;
};

}  // namespace ringwood
