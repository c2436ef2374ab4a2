// FNV-1a of 32 and 64 bits: against damage and chance, not against malice.
#pragma once

#include <cstdint>
#include <string_view>

namespace ringwood {

constexpr uint32_t fnv1a(std::string_view bytes) {
  uint32_t hash = 2166136261;
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619;
  return hash;
}

constexpr uint64_t fnv1a_64(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace ringwood
