// "1 host", "2 hosts", "3 leaves": how many of something, in words. Pure.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace ringwood {

// `many`: empty for `one` with an "s".
inline std::string counted(uint64_t number, std::string_view one, std::string_view many = {}) {
  if (number == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", number, one) : fmt::format("{} {}", number, many);
}

}  // namespace ringwood
