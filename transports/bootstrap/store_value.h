// Rules common to all stores: counters are decimal text, and a missing key is reported in one way.
#pragma once

#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "transports/base/clock.h"
#include "transports/base/error.h"

namespace ringwood {

// What a call has at least, even after its deadline (rule 4 of store.h).
inline constexpr Duration kMinTime = std::chrono::seconds(5);

// A missing (empty) value counts as 0. Throws Error(invalid_argument) if the value is not a number
// or the sum does not fit.
inline int64_t add_to_value(const std::string& key, std::string_view value, int64_t delta) {
  int64_t number = 0, sum = 0;
  if (!value.empty()) {
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("store: the value of \"{}\" is not a number", key));
    }
  }
  if (__builtin_add_overflow(number, delta, &sum)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("store: the counter \"{}\" would overflow", key));
  }
  return sum;
}

inline Error key_timeout(const std::string& key, Clock::time_point began,
                         const std::string& where) {
  double waited = seconds_since(began);
  return Error(ErrorCode::timeout,
               fmt::format("no rank set the key \"{}\" in the store{}{} within {:.1f} s", key,
                           where.empty() ? "" : " ", where, waited));
}

}  // namespace ringwood
