// The memory of the arena (arena.h) that a device may read where it lies: a cache of registrations
// in one protection domain.
//
// What is registered is a window of a block, not the message: the next messages of a buffer then
// find it. Windows begin at multiples of kWindow and reach kMaxBytes over their end, so that
// whatever begins in one lies wholly in it; both ends are cut to the block.
//
//   block    [ |               |               |     ]
//   windows  [-|-]             [---------------|-]           nobody sends from the others
//              [---------------|-]             [-----]
//
// Never stale. A registration is of pages, and an address of the arena gets other pages only when
// the arena gives them back to the kernel; it tells us before, and every registration that has one
// of them is forgotten: nobody is given it again, and it ends with its last use. Nothing can be
// registered in between, because only blocks that are in use are. So a block that is released and
// handed out again with its pages keeps its registration. The arena's pages are shared, not copied
// when they are written, so forks change nothing. Of remapped buffers (remap.h) the pages in the
// arena are registered, never the user's addresses, which may go at any time.
//
// Bounded in number and bytes; the least recently used that is not in use makes room. When the
// kernel refuses one (memlock), what there is by then is the most from now on, and it is said once.
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
  void* handle = nullptr;       // of the registrar
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

  // The device: functions, so that the cache can be tried without one.
  struct Registrar {
    // Sets handle and key; false: refused, with errno.
    std::function<bool(std::byte* data, size_t bytes, Registration& made)> add;
    std::function<void(void* handle)> remove;
    std::function<void(size_t bytes, int error)> refused;  // told once
  };
  struct Bounds {
    size_t number = 1024;
    uint64_t bytes = 0;
  };
  Registrations(Arena& arena, Registrar registrar, Bounds bounds);
  ~Registrations();
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  // One that has all of it, in use until end(); null: in no block, too long, or there is no room.
  // If the block is released before end(), the device still sees the pages that were there.
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
