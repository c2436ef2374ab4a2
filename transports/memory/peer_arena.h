// Another process's arena (arena.h), as this one sees it.
//
// Each is mapped once, for all groups and channels in which this process meets the other, until the
// last of them is gone: an arena takes as many addresses as its machine has memory, and 47 bits of
// addresses are soon used up by 64 ranks in 8 groups. Which arena it is, the kernel says of the
// descriptor (device and inode); its owner is not asked, nor believed in anything else beyond what
// the descriptor proves. An inode's number belongs to nobody else while the file is mapped.
// Immutable, thread safety: all functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transports/base/owned_fd.h"

namespace ringwood {

class PeerArena final {
 public:
  // Never null; what cannot be mapped is an arena with nothing inside.
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
