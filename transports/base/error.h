// The error type of the whole project: what went wrong, and where.
//
// Set-up code throws Error; the data path returns Status (or Result<T>, result.h), which is one
// pointer wide and null when all is well, so that a poll that finds nothing costs nothing.
//
// An Error is filled from the inside out: the code that sees the cause writes `cause`, `code` and
// what it knows (peer, transport); each layer above adds its own coordinates if they are still
// empty. The first error of a communicator wins and is what every rank reports.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace ringwood {

enum class ErrorCode {
  invalid_argument,  // the caller's mistake, seen before anything was sent
  mismatch,          // ranks called different things
  timeout,           // a deadline passed
  peer_lost,         // a rank died, left or cannot be reached
  aborted,           // this process asked for it
  network,           // a connection failed for a reason that is not known to be a death
  system,            // the operating system refused (memory, descriptors, permissions)
  unsupported,       // a valid request that is not implemented here
  internal           // a broken invariant of the library
};
const char* to_string(ErrorCode code);

struct Error : std::exception {
  ErrorCode code = ErrorCode::internal;
  std::string cause;       // the exact cause in words, with the remedy if there is one
  int rank = -1;           // the reporting rank (-1: unknown)
  std::string host;        // host name of `rank`
  int peer = -1;           // the culprit or the other side (-1: none)
  std::string collective;  // "all_reduce"
  int64_t sequence = -1;   // the communicator's operation number
  int step = -1;           // step of the schedule
  std::string transport;   // "tcp"

  Error() = default;
  Error(ErrorCode c, std::string why) : code(c), cause(std::move(why)) {}

  // "rank 2 (host-b): all_reduce #17 step 7, peer 5 over tcp: connection reset (peer_lost)".
  std::string message() const;
  // message(); stays valid until the error is changed. Any thread.
  const char* what() const noexcept override;

 private:
  // Belongs to one object, so that copying an error never reads what another thread is writing.
  struct Text {
    Text() = default;
    Text(const Text&) {}
    Text& operator=(const Text&) { return *this; }
    std::string text;
  };
  mutable Text what_;
};

// Throws Error(invalid_argument): what a user has asked for cannot be done, in one sentence.
[[noreturn]] void refuse(std::string why);

// Success, or the Error. Movable, 8 bytes.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error e) : error_(std::make_unique<Error>(std::move(e))) {}
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  // Precondition: !ok().
  Error& error() { return *error_; }
  const Error& error() const { return *error_; }

 private:
  std::unique_ptr<Error> error_;
};

// "recv: Connection reset by peer". Reads errno unless one is given.
std::string system_message(const char* call, int error_number = 0);

}  // namespace ringwood
