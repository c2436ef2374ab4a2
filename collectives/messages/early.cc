#include "collectives/messages/early.h"

#include <algorithm>
#include <utility>

#include "collectives/messages/header.h"

namespace ringwood {

std::byte* EarlyMessages::keep(uint64_t tag, size_t bytes) {
  kept_ += bytes + kEagerCharge;
  if (kept_ > 2 * kEagerRoom) return nullptr;
  messages_.push_back({tag, bytes, false, 0, std::make_unique<std::byte[]>(bytes)});
  arriving_ = bytes > 0;
  return messages_.back().data.get();
}

bool EarlyMessages::announce(uint64_t tag, size_t bytes, uint32_t id) {
  if (++announced_ > kMaxAnnounced) return false;
  messages_.push_back({tag, bytes, true, id, nullptr});
  return true;
}

uint64_t EarlyMessages::arrived() {
  arriving_ = false;
  return messages_.back().tag;
}

std::optional<EarlyMessage> EarlyMessages::take(uint64_t tag) {
  const auto it = std::find_if(messages_.begin(), messages_.end(),
                               [&](const EarlyMessage& m) { return m.tag == tag; });
  if (it == messages_.end() || (arriving_ && it == std::prev(messages_.end()))) return {};
  EarlyMessage message = std::move(*it);
  messages_.erase(it);
  if (message.announced)
    --announced_;
  else
    kept_ -= message.bytes + kEagerCharge;
  return message;
}

}  // namespace ringwood
