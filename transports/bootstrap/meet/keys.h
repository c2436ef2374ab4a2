// What both halves of a Bootstrap say in the store: meet.cc and bootstrap.cc. Private to them.
#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <string>

#include "transports/base/host.h"
#include "transports/bootstrap/meet/bootstrap_messages.h"

namespace ringwood {

inline constexpr const char* kTwice = "twice";

inline std::string key_of(const char* what, int rank) { return fmt::format("{}/{}", what, rank); }

inline Reason reason_of(const Error& error) {
  return {error.code, error.rank, error.host, error.cause};
}

inline std::string own_process() { return fmt::format("process {} on {}", getpid(), host_name()); }

}  // namespace ringwood
