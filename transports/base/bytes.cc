#include "transports/base/bytes.h"

#include <algorithm>

namespace ringwood {

std::string_view clip(std::string_view text, size_t max) {
  if (text.size() <= max) return text;
  while (max > 0 && (static_cast<uint8_t>(text[max]) & 0xc0) == 0x80) --max;
  return text.substr(0, max);
}

std::string printable(std::string_view text) {
  std::string shown(text);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return uint8_t(c) < 0x20 || c == 0x7f; }, '?');
  // Those that UTF-8 writes as C2 80 to C2 9F steer some terminals as well.
  for (size_t at = 0; at + 1 < shown.size(); ++at)
    if (uint8_t(shown[at]) == 0xc2 && uint8_t(shown[at + 1]) >= 0x80 &&
        uint8_t(shown[at + 1]) < 0xa0)
      shown[at] = shown[at + 1] = '?';
  return shown;
}

void ByteReader::fail() {
  ok_ = false;
  left_ = {};
}

std::string_view ByteReader::take(size_t bytes) {
  if (bytes > left_.size()) fail();  // from then on nothing is left
  const std::string_view taken = left_.substr(0, bytes);
  left_.remove_prefix(taken.size());
  return taken;
}

uint64_t ByteReader::little_endian(size_t bytes) {
  uint64_t value = 0;
  size_t shift = 0;
  for (const char c : take(bytes)) {
    value |= uint64_t{static_cast<uint8_t>(c)} << shift;
    shift += 8;
  }
  return value;
}

size_t ByteReader::length(size_t max) {
  const auto count = number<ByteLength>();
  if (count <= max && count <= left_.size()) return count;
  fail();
  return 0;
}

void ByteReader::raw(std::span<uint8_t> value) {
  const std::string_view bytes = take(value.size());
  std::ranges::fill(value, uint8_t{0});
  std::ranges::copy(bytes, value.begin());
}

}  // namespace ringwood
