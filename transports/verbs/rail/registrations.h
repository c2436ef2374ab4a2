// A cache of registrations in one protection domain: the memory of the arena (arena.h) that an
// RDMA device may read in place.
//
// A registration covers a window of a block, not a message, so that later messages of a buffer find
// it. Windows begin at multiples of kWindow and reach kMaxBytes over their end, so that whatever
// begins in one lies wholly in it; both ends are cut to the block.
//
//   block    [ |               |               |     ]
//   windows  [-|-]             [---------------|-]           nothing is sent from the others
//              [---------------|-]             [-----]
//
// Never stale. A registration is of pages, and an address of the arena gets other pages only when
// the arena gives them back to the kernel. The arena calls pages_go() before, and every
// registration with one of these pages is forgotten: it is not used again, and ends with its last
// use. None can be made in between, because only blocks in use are registered. So a block that is
// released and allocated again with its pages keeps its registration. The arena's pages are shared,
// not copied on write, so forks change nothing. Of remapped buffers (remap.h) the pages in the
// arena are registered, never the user's addresses, which may vanish at any time.
//
// Bounded in number and bytes; the least recently used that is not in use makes room. When the
// kernel refuses one (memlock), the current number becomes the limit, and this is logged once.
//
// Thread safety: all functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "transports/memory/arena.h"

namespace ringwood::verbs {

class Registrations;

struct Registration {
  void* handle = nullptr;       // the registrar's
  uint32_t key = 0;             // for the device
  uint64_t begin = 0, end = 0;  // in the arena
  unsigned uses = 0;
  uint64_t last_used = 0;
  Registrations* cache = nullptr;
};

class Registrations final : private PageWatcher {
 public:
  static constexpr uint64_t kWindow = 16 << 20;
  static constexpr size_t kMaxBytes = 64 << 10;

  // The device, as functions, so that the cache can be tested without one.
  struct Registrar {
    // Sets handle and key; false: refused, with errno.
    std::function<bool(std::byte* data, size_t bytes, Registration& made)> add;
    std::function<void(void* handle)> remove;
    std::function<void(size_t bytes, int error)> refused;  // called once
  };
  struct Bounds {
    size_t number = 1024;
    uint64_t bytes = 0;
  };
  Registrations(Arena& arena, Registrar registrar, Bounds bounds);
  ~Registrations();
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  // Returns a registration that covers all of [data, data + bytes), in use until end(). Null: in no
  // block, too long, or no room. If the block is released before end(), the device still sees the
  // pages that were there.
  Registration* use(const std::byte* data, size_t bytes) noexcept;
  static void end(Registration* used) noexcept { used->cache->end_use(*used); }

  uint64_t bytes() const;
  size_t number() const;

 private:
  using Table = std::map<uint64_t, std::unique_ptr<Registration>>;
  void pages_go(uint64_t offset, uint64_t bytes) noexcept override;
  void end_use(Registration& used) noexcept;
  Registration* find(uint64_t begin, uint64_t end);
  Registration* add(uint64_t begin, uint64_t end);
  bool make_room(uint64_t bytes);
  bool try_to_add(Registration& made);
  Table::iterator forget(Table::iterator entry);
  void remove(const Registration& entry);

  Arena& arena_;
  const Registrar registrar_;
  const int process_;
  mutable std::mutex mutex_;
  Bounds bounds_;
  Table table_;  // by begin; none lies within another, so the ends ascend too
  std::vector<std::unique_ptr<Registration>> forgotten_;  // in use until they end
  uint64_t bytes_ = 0, uses_ = 0;
  bool told_ = false;
};

}  // namespace ringwood::verbs
