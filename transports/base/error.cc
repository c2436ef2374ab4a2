#include "transports/base/error.h"

#include <fmt/core.h>

#include <cerrno>
#include <mutex>
#include <new>
#include <system_error>

#include "transports/base/result.h"

namespace ringwood {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::mismatch: return "mismatch";
    case ErrorCode::timeout: return "timeout";
    case ErrorCode::peer_lost: return "peer_lost";
    case ErrorCode::aborted: return "aborted";
    case ErrorCode::network: return "network";
    case ErrorCode::system: return "system";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::internal: return "internal";
  }
  return "unknown";
}

namespace {

// "all_reduce #17 step 7", or the part of it that is known.
std::string describe_place(const Error& error) {
  std::string text = error.collective;
  if (error.sequence >= 0)
    text += fmt::format("{}#{}", text.empty() ? "operation " : " ", error.sequence);
  if (error.step >= 0) text += fmt::format("{}step {}", text.empty() ? "" : " ", error.step);
  return text;
}

// "peer 5 over tcp", or the part of it that is known.
std::string describe_other_side(const Error& error) {
  std::string text;
  if (error.peer >= 0) text = fmt::format("peer {}", error.peer);
  if (!error.transport.empty())
    text += fmt::format("{}over {}", text.empty() ? "" : " ", error.transport);
  return text;
}

}  // namespace

std::string Error::message() const {
  std::string text;
  if (rank >= 0) text = fmt::format("rank {}", rank);
  if (!host.empty()) text += text.empty() ? host : fmt::format(" ({})", host);
  if (!text.empty()) text += ": ";
  std::string place = describe_place(*this), other_side = describe_other_side(*this);
  text += place;
  if (!place.empty() && !other_side.empty()) text += ", ";
  text += other_side;
  if (!place.empty() || !other_side.empty()) text += ": ";
  return fmt::format("{}{} ({})", text, cause, to_string(code));
}

const char* Error::what() const noexcept {
  // Several threads may read one exception object (std::exception_ptr). The text is made late,
  // because layers add their coordinates while the error passes.
  static std::mutex mutex;
  try {
    std::lock_guard lock(mutex);
    std::string now = message();
    if (now != what_.text) what_.text = std::move(now);
    return what_.text.c_str();
  } catch (...) {
    return cause.c_str();
  }
}

Error caught_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return {ErrorCode::system,
            "no memory is left for this process: free some, or raise its limit (ulimit -v, the "
            "container's memory)"};
  } catch (const std::exception& error) {
    return {ErrorCode::internal, error.what()};
  } catch (...) {
    return {ErrorCode::internal, "something was thrown that is not a std::exception"};
  }
}

std::string system_message(const char* call, int error_number) {
  int number = error_number != 0 ? error_number : errno;
  return fmt::format("{}: {}", call, std::generic_category().message(number));
}

void refuse(std::string why) { throw Error(ErrorCode::invalid_argument, std::move(why)); }

}  // namespace ringwood
