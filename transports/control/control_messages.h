// The messages of the control connection: [type 1][reserved 1][length 2][body <= 1024], numbers
// little-endian. Every text is bounded, printable and cut between characters, never within one.
// Decoders trust nothing: they return false for a body that is not exactly what its type says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "transports/control/control.h"

namespace ringwood {

enum class MessageType : uint8_t {
  introduce = 1,  // both ways, first: pid, host
  heartbeat,      // both ways: the answer to query without texts
  goodbye,        // both ways: the sender ends in good order
  seen,           // the answer to goodbye
  left,           // root -> others: rank
  failure,        // rank -> root: its Error
  query,          // root -> all: what are you doing?
  op_status,      // rank -> root: the answer
  group_error     // root -> all: the group's Error
};

struct Message {
  MessageType type = MessageType::heartbeat;
  std::string body;
};

struct Introduction {
  int pid = 0;
  std::string host;
};

inline constexpr size_t kMaxBody = 1024, kMessageHeader = 4;

std::string frame(MessageType type, std::string_view body = {});

std::string encode(const Introduction& introduction);
std::string encode(const OpStatuses& op_statuses);  // texts: at most 200 bytes, cut alike to fit
std::string encode(const Error& error);             // fits; the cause is cut if it must be
std::string encode_rank(int rank);
bool decode(std::string_view body, Introduction& introduction);
bool decode(std::string_view body, OpStatuses& op_statuses);
bool decode(std::string_view body, Error& error);
bool decode_rank(std::string_view body, int size, int& rank);

// Cuts a stream into messages.
class MessageReader {
 public:
  void append(std::string_view bytes) { buffer_.append(bytes); }
  enum class Found { message, nothing, malformed };
  // malformed: `why` says what was wrong; the stream cannot be read on.
  Found next(Message& message, std::string& why);

 private:
  std::string buffer_;
};

}  // namespace ringwood
