#include "transports/verbs/ring/incoming.h"

#include <algorithm>
#include <cstring>

namespace ringwood::verbs {

bool Incoming::allowed(uint64_t position, uint64_t bytes) const {
  return arrivals_.allowed(position, bytes, consumed()) && bytes <= ring_.straight(position);
}

uint64_t Incoming::consumed() const {
  return start_ + (receives_.empty() ? 0 : receives_.front().done / kUnit * kUnit);
}

bool Incoming::arrive(uint64_t position, uint64_t bytes) {
  if (!allowed(position, bytes)) return false;
  arrivals_.add(position, bytes);
  credit_.arrived(round_up(position + bytes));
  return true;
}

bool Incoming::take(uint64_t position, std::span<const std::byte> piece) {
  if (position % kUnit != 0 || piece.empty()) return false;
  // Its place may contain newer data.
  if (round_up(position + piece.size()) <= arrivals_.end()) return true;
  if (!allowed(position, piece.size()) || position < arrivals_.end()) return false;
  std::memcpy(ring_.at(position), piece.data(), piece.size());
  return arrive(position, piece.size());
}

// The contiguous bytes of the first receive that have arrived.
size_t Incoming::available() const {
  const Receive& receive = receives_.front();
  const uint64_t at = start_ + receive.done;
  if (arrivals_.end() <= at) return 0;
  return std::min<uint64_t>(
      {arrivals_.end() - at, receive.bytes - receive.done, ring_.straight(at)});
}

void Incoming::advance(size_t bytes) {
  Receive& receive = receives_.front();
  receive.done += bytes;
  if (receive.done == receive.bytes) {
    start_ += round_up(receive.bytes);
    receives_.pop();
    ++received_;
  }
  credit_.read(consumed());
}

void Incoming::store() {
  while (!receives_.empty() && receives_.front().data) {
    const size_t bytes = available();
    if (bytes == 0) return;
    const Receive& receive = receives_.front();
    std::memcpy(receive.data + receive.done, ring_.at(start_ + receive.done), bytes);
    advance(bytes);
  }
}

std::span<const std::byte> Incoming::in_place() const {
  if (receives_.empty() || receives_.front().data) return {};
  return {ring_.at(start_ + receives_.front().done), available()};
}

}  // namespace ringwood::verbs
