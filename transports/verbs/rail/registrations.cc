#include "transports/verbs/rail/registrations.h"

#include <algorithm>
#include <cerrno>

#include "transports/base/fork_guard.h"

namespace ringwood::verbs {

Registrations::Registrations(Arena& arena, Registrar registrar, Bounds bounds)
    : arena_(arena), registrar_(std::move(registrar)), process_(current_pid()), bounds_(bounds) {
  arena_.watch(*this);
}

// A child does not release what is the parent's device's, and its mutexes are as the fork froze
// them.
Registrations::~Registrations() {
  if (forked_since(process_)) return;
  arena_.unwatch(*this);
  for (const auto& [begin, entry] : table_) registrar_.remove(entry->handle);
  for (const auto& entry : forgotten_) registrar_.remove(entry->handle);
}

Registration* Registrations::use(const std::byte* data, size_t bytes) noexcept {
  const auto offset = arena_.offset_of(data, bytes);
  if (!offset || bytes == 0 || bytes > kMaxBytes) return nullptr;
  std::lock_guard lock(mutex_);
  Registration* found = find(*offset, *offset + bytes);
  if (!found) {
    const auto block = arena_.block_of(data, bytes);
    if (!block) return nullptr;
    const uint64_t window = *offset / kWindow * kWindow;
    found = add(std::max(window, block->offset),
                std::min(window + kWindow + kMaxBytes, block->offset + block->bytes));
  }
  if (!found) return nullptr;
  ++found->uses;
  found->last_used = ++uses_;
  return found;
}

// The last registration that begins before `begin`: of those, it reaches furthest.
Registration* Registrations::find(uint64_t begin, uint64_t end) {
  const auto after = table_.upper_bound(begin);
  if (after == table_.begin()) return nullptr;
  Registration& last = *std::prev(after)->second;
  return end <= last.end ? &last : nullptr;
}

Registration* Registrations::add(uint64_t begin, uint64_t end) {
  for (auto it = table_.lower_bound(begin); it != table_.end() && it->second->begin < end;)
    it = it->second->end <= end ? forget(it) : std::next(it);
  auto made = std::make_unique<Registration>();
  made->begin = begin;
  made->end = end;
  made->cache = this;
  if (!make_room(end - begin) || !try_to_add(*made)) return nullptr;
  bytes_ += end - begin;
  return (table_[begin] = std::move(made)).get();
}

bool Registrations::try_to_add(Registration& made) {
  const uint64_t bytes = made.end - made.begin;
  if (registrar_.add(arena_.at(made.begin), bytes, made)) return true;
  const int error = errno;
  bounds_.bytes = bytes_;
  bounds_.number = table_.size() + forgotten_.size();
  if (!told_ && registrar_.refused) registrar_.refused(bytes, error);
  told_ = true;
  return false;
}

bool Registrations::make_room(uint64_t bytes) {
  if (bytes > bounds_.bytes || bounds_.number == 0) return false;
  while (bytes_ + bytes > bounds_.bytes || table_.size() + forgotten_.size() >= bounds_.number) {
    auto oldest = table_.end();
    for (auto it = table_.begin(); it != table_.end(); ++it) {
      if (it->second->uses > 0) continue;
      if (oldest == table_.end() || it->second->last_used < oldest->second->last_used) oldest = it;
    }
    if (oldest == table_.end()) return false;
    forget(oldest);
  }
  return true;
}

Registrations::Table::iterator Registrations::forget(Table::iterator entry) {
  if (entry->second->uses > 0) {
    forgotten_.push_back(std::move(entry->second));
  } else {
    remove(*entry->second);
  }
  return table_.erase(entry);
}

void Registrations::remove(const Registration& entry) {
  registrar_.remove(entry.handle);
  bytes_ -= entry.end - entry.begin;
}

void Registrations::end_use(Registration& used) noexcept {
  std::lock_guard lock(mutex_);
  if (--used.uses > 0) return;
  const auto is_it = [&](const std::unique_ptr<Registration>& entry) {
    return entry.get() == &used;
  };
  const auto found = std::find_if(forgotten_.begin(), forgotten_.end(), is_it);
  if (found == forgotten_.end()) return;
  remove(used);
  forgotten_.erase(found);
}

void Registrations::pages_go(uint64_t offset, uint64_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  auto it = table_.upper_bound(offset);
  while (it != table_.begin() && std::prev(it)->second->end > offset) --it;
  while (it != table_.end() && it->second->begin < offset + bytes) it = forget(it);
}

uint64_t Registrations::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

size_t Registrations::number() const {
  std::lock_guard lock(mutex_);
  return table_.size() + forgotten_.size();
}

}  // namespace ringwood::verbs
