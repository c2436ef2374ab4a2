// What the parts of a machine model's text form (machine_model.h) share. Each function that refuses
// a text throws Error(invalid_argument).
#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "transports/base/error.h"

namespace ringwood {

[[noreturn]] inline void refuse_model(std::string why) {
  throw Error(ErrorCode::invalid_argument, "machine: " + std::move(why));
}

template <class T>
T model_number(std::string_view key, std::string_view text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Written so that a NaN fails.
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least) ||
      !(value <= most))
    refuse_model(
        fmt::format("{}={} is not a number from {} to {}", key, text.substr(0, 40), least, most));
  return value;
}

// The text before `at`, which is cut off with it; all of it where there is none.
inline std::string_view cut_text(std::string_view& text, char at) {
  const size_t end = std::min(text.find(at), text.size());
  const std::string_view head = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return head;
}

}  // namespace ringwood
