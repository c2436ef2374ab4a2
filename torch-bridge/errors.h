// From our Error to the exceptions torch users know: caller's mistakes become ValueError or
// NotImplementedError, all that happens between ranks a torch.distributed.DistBackendError, and
// what keeps ranks from meeting a torch.distributed.DistNetworkError. The text is Error::message(),
// and after a timeout where torch lets users change it.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include "transports/error.h"

namespace ringwood {

[[noreturn]] inline void raise(const Error& error, const std::string& note = "") {
  const char* remedy =
      error.code == ErrorCode::timeout
          ? " - the timeout is that of the call, or of init_process_group(timeout=...)"
          : "";
  const std::string text = error.message() + note + remedy;
  switch (error.code) {
    case ErrorCode::invalid_argument: C10_THROW_ERROR(ValueError, text);
    case ErrorCode::unsupported: C10_THROW_ERROR(NotImplementedError, text);
    default: C10_THROW_ERROR(DistBackendError, text);
  }
}

// While ranks are still meeting.
[[noreturn]] inline void raise_at_start(const Error& error, const std::string& note = "") {
  switch (error.code) {
    case ErrorCode::timeout:
    case ErrorCode::peer_lost:
    case ErrorCode::network:
    case ErrorCode::system: C10_THROW_ERROR(DistNetworkError, error.message() + note);
    default: raise(error, note);
  }
}

inline std::exception_ptr as_exception(const Error& error, const std::string& note) {
  try {
    raise(error, note);
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace ringwood
