#include "collectives/operations/local_work.h"

#include <algorithm>
#include <utility>

#include "collectives/kernels/reduce.h"
#include "collectives/plan/buffers.h"

namespace ringwood {

void LocalWork::add(const Slices& slices) {
  if (slices.bytes == 0) return;
  if (count_++ == 0) {
    only_ = slices;
    return;
  }
  if (items_.empty()) items_.push_back({only_, nullptr});
  items_.push_back({slices, nullptr});
}

void LocalWork::copy_scaled(void* to, const void* from, size_t count, DataType type,
                            double factor) {
  add({.to = to,
       .from = from,
       .bytes = count * size_of(type),
       .scales = true,
       .type = type,
       .factor = factor});
}

void LocalWork::scale(int buffer, size_t count, DataType type, double factor) {
  add({.buffer = buffer,
       .bytes = count * size_of(type),
       .scales = true,
       .type = type,
       .factor = factor});
}

void LocalWork::call(std::function<void()> function) {
  if (count_ == 1 && items_.empty()) items_.push_back({only_, nullptr});
  items_.push_back({{}, std::move(function)});
  ++count_;
}

void LocalWork::call_first(std::function<void()> function) {
  call(std::move(function));
  std::rotate(items_.begin(), items_.end() - 1, items_.end());
}

void* LocalWork::copied_to() const {
  if (count_ == 0) return nullptr;
  if (items_.empty()) return only_.to;
  const auto it = std::ranges::find_if(items_, [](const Item& i) { return i.slices.to; });
  return it == items_.end() ? nullptr : it->slices.to;
}

void LocalWork::step_in_slices(Progress& progress, std::span<void* const> buffers) const {
  const auto end = [&] { progress = {progress.item + 1, 0}; };
  if (!items_.empty() && items_[progress.item].function) {
    items_[progress.item].function();
    return end();
  }
  const Slices& s = items_.empty() ? only_ : items_[progress.item].slices;
  size_t& done = progress.bytes;
  auto* const to = static_cast<std::byte*>(s.buffer == kNoBuffer ? s.to : buffers[s.buffer]);
  const auto* const from = static_cast<const std::byte*>(s.from);
  const bool whole = from && overlap(to, from, s.bytes);
  const size_t bytes = whole ? s.bytes : std::min(s.bytes - done, kSliceBytes);
  if (from) move_bytes(to + done, from + done, bytes);
  if (s.scales) ringwood::scale(to + done, bytes / size_of(s.type), s.type, s.factor);
  done += bytes;
  if (done == s.bytes) end();
}

}  // namespace ringwood
