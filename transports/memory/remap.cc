#include "transports/memory/remap.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <vector>

#include "transports/base/log.h"
#include "transports/memory/forked_mappings.h"
#include "transports/memory/malloc_memory.h"

namespace ringwood {
namespace {

constexpr auto kBetweenCollections = std::chrono::seconds(1);

std::atomic<RemappedMemory*> the_one{nullptr};

}  // namespace

// Never destroyed: buffers outlive everything else in the process.
RemappedMemory* RemappedMemory::of_process() {
  if (RemappedMemory* made = current()) return made;
  const auto none = [](const std::string& why) {
    static std::atomic<bool> told{false};
    if (!told.exchange(true)) log(LogLevel::warn, "shm", "no buffer is remapped: " + why);
    return nullptr;
  };
  Arena* arena = Arena::of_process();
  if (!arena) return none("this machine gives no memory that ranks can share");
  if (!allocator_is_known()) return none("malloc() is not the C library's");
  try {
    std::unique_ptr<RemappedMemory> fresh(new RemappedMemory(*arena));
    if (!copy_mappings_to_forks(fresh->remapper_.file()))
      return none("fork() cannot be prepared for it");
    RemappedMemory* inherited = the_one.load();
    if (inherited && !forked_since(inherited->pid_)) return inherited;  // another thread was first
    if (the_one.compare_exchange_strong(inherited, fresh.get())) (void)fresh.release();
  } catch (const Error& error) {
    return none(error.cause);
  }
  return current();
}

// Null in a forked child: the parent's is dead there.
RemappedMemory* RemappedMemory::current() noexcept {
  RemappedMemory* const remapped = the_one.load(std::memory_order_acquire);
  return remapped && !forked_since(remapped->pid_) ? remapped : nullptr;
}

// ---- which buffers

void RemappedMemory::used(const void* data, size_t bytes) noexcept {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  std::lock_guard lock(changing_);
  if (const auto now = Clock::now(); now - collected_ > kBetweenCollections) {
    collected_ = now;
    collect_locked();
  }
  if (buffers_.cover(begin, begin + bytes) || arena_.offset_of(data, 1)) return;
  if (candidates_.due(begin, bytes)) remap_locked(begin, begin + bytes);
}

bool RemappedMemory::remap(const void* data, size_t bytes) noexcept {
  std::lock_guard lock(changing_);
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return remap_locked(begin, begin + bytes);
}

bool RemappedMemory::knows(const void* data, size_t bytes) noexcept {
  const RemappedMemory* const remapped = current();
  if (!remapped) return false;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return remapped->buffers_.cover(begin, begin + bytes);
}

bool RemappedMemory::remap_locked(uintptr_t begin, uintptr_t end) noexcept {
  RemappedBuffer buffer = RemappedBuffer::at(begin, end);
  if (buffer.first >= buffer.last) return false;
  try {
    if (const auto known = buffers_.covering(begin, end); known && remapper_.in_place(*known))
      return true;
    if (!remapper_.may_take(buffer)) return false;
    retired_.give_back_unmapped(remapper_);
    void* const block = arena_.allocate(buffer.block_bytes(), buffer.first - RemappedBuffer::kPage);
    buffer.block.reset(static_cast<std::byte*>(block),
                       [this](void* data) { arena_.release(data); });
    arena_.keep_from_forks(block);  // they get copies where it is mapped instead
    buffer.offset = *arena_.offset_of(block, 1);
    if (!remapper_.remap(buffer)) return false;
  } catch (const std::exception&) {  // no room
    return false;
  }
  retired_.add(buffers_.take_overlapping(begin, end));
  buffers_.add(buffer);
  return true;
}

// ---- exposing

std::optional<RemappedMemory::Exposed> RemappedMemory::expose(const void* data,
                                                              size_t bytes) noexcept {
  const auto begin = reinterpret_cast<uintptr_t>(data), end = begin + bytes;
  const auto buffer = buffers_.covering(begin, end);
  if (!buffer) return std::nullopt;
  const uintptr_t from = std::max(begin, buffer->first), to = std::min(end, buffer->last);
  if (from >= to || !remapper_.in_place(*buffer, from, to)) return std::nullopt;
  Exposed exposed;
  exposed.offset = buffer->offset_of(begin);
  exposed.hold = buffer->block;
  exposed.edges[0] = edge(*buffer, begin, std::min(end, buffer->first));
  exposed.edges[1] = edge(*buffer, std::max(begin, buffer->last), end);
  std::lock_guard lock(edges_);  // two groups may send the same buffer
  for (const Edge& edge : exposed.edges)
    if (edge.bytes > 0) std::memcpy(edge.shadow, edge.own, edge.bytes);
  return exposed;
}

RemappedMemory::Edge RemappedMemory::edge(const RemappedBuffer& buffer, uintptr_t begin,
                                          uintptr_t end) const {
  if (begin >= end) return {};
  return {std::bit_cast<std::byte*>(begin), arena_.at(buffer.offset_of(begin)), end - begin};
}

// ---- blocks no longer used

void RemappedMemory::collect() noexcept {
  std::lock_guard lock(changing_);
  collect_locked();
}

void RemappedMemory::collect_locked() {
  retired_.add(buffers_.take_if(
      [this](const RemappedBuffer& buffer) { return !remapper_.in_place(buffer); }));
  retired_.give_back_unmapped(remapper_);
}

void RemappedMemory::withdraw(const void* data, size_t bytes) noexcept {
  const auto begin = reinterpret_cast<uintptr_t>(data), end = begin + bytes;
  std::lock_guard lock(changing_);
  std::vector<RemappedBuffer> touched = buffers_.all();
  touched.insert(touched.end(), retired_.all().begin(), retired_.all().end());
  for (const RemappedBuffer& buffer : touched) {
    if (buffer.begin >= end || begin >= buffer.end || !arena_.in_quarantine(buffer.block.get()))
      continue;
    if (remapper_.make_private(buffer, begin, end))
      retired_.add(buffers_.take_overlapping(buffer.begin, buffer.end));
  }
}

}  // namespace ringwood
