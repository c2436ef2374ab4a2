// From our Error to the exceptions torch users know: caller's mistakes become ValueError or
// NotImplementedError, all that happens between ranks a torch.distributed.DistBackendError, and
// what keeps ranks from meeting a torch.distributed.DistNetworkError. The text is Error::message(),
// then which group it is about, and after a timeout where torch lets users change it.
#pragma once

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <exception>
#include <string>
#include <vector>

#include "transports/base/error.h"

namespace ringwood {

// Ranks in errors are those of the group; this names it, and says which ranks of the job they are
// where that is not the same: " [group 'tp' (7): its ranks 0, 1, ... are global ranks 2, 3]".
inline std::string group_note(const std::string& name, const std::string& description,
                              const std::vector<uint64_t>& global_ranks) {
  const bool described = !description.empty() && description != "undefined";  // torch's default
  std::string note = described ? c10::str(" [group '", description, "' (", name, ")")
                               : c10::str(" [group '", name, "'");
  bool same = true;
  for (size_t i = 0; i < global_ranks.size(); ++i) same = same && global_ranks[i] == i;
  if (!same) {
    note += c10::str(": its ranks 0, 1, ... are global ranks ", c10::Join(", ", global_ranks));
  }
  return note + "]";
}

[[noreturn]] inline void raise(const Error& error, const std::string& note) {
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
[[noreturn]] inline void raise_at_start(const Error& error, const std::string& note) {
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

// What f returns; our errors as torch's.
template <class F>
auto guarded(const std::string& note, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error& error) {
    raise(error, note);
  }
}

}  // namespace ringwood
