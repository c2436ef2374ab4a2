// FNV-1a of 32 bits: against damage and chance, not against malice.
#pragma once

#include <cstdint>
#include <string_view>

namespace ringwood {

constexpr uint32_t fnv1a(std::string_view bytes) {
  uint32_t hash = 2166136261;
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619;
  return hash;
}

}  // namespace ringwood
