// The log of the connections that a port has refused: each reason is warned about once, so that a
// scanner hides no rank of another job, and all are counted. At most kMaxReasons are warned about,
// for a stranger may choose his words.
//
// Not thread safe.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "transports/base/log.h"

namespace ringwood {

class Refusals final {
 public:
  static constexpr size_t kMaxReasons = 8;

  // `area`: of the log; `port`: where they came to.
  Refusals(const char* area, std::string port) : area_(area), port_(std::move(port)) {}
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;
  ~Refusals() {
    if (count_ > 1)
      log(LogLevel::info, area_, fmt::format("{} connections were refused in all", count_));
  }

  // "WHERE FROM: REASON", as a KeyedAcceptor tells it.
  void note(const std::string& text) {
    ++count_;
    if (reasons_.size() >= kMaxReasons) return;
    const size_t from = text.find(": ");
    if (!reasons_.insert(from == text.npos ? text : text.substr(from)).second) return;
    log(LogLevel::warn, area_,
        fmt::format("a connection to {} was refused: {}; more are only counted", port_, text));
  }

 private:
  const char* const area_;
  const std::string port_;
  size_t count_ = 0;
  std::set<std::string> reasons_;
};

}  // namespace ringwood
