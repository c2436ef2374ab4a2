// Messages of the control connection for the table of decoders (decoders.cc).
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

#include "tests/fuzz/random.h"
#include "transports/control/control_messages.h"

namespace ringwood::testing {

inline OpStatus a_status(Random& r) { return {int64_t(r.bits()), r.flag(), r.text()}; }

inline Error an_error(Random& r) {
  Error error(r.from(ErrorCode::invalid_argument, ErrorCode::internal), r.text());
  error.rank = r.number(), error.peer = r.number(), error.step = r.number();
  error.sequence = int64_t(r.bits());
  error.host = r.text(), error.collective = r.text(), error.transport = r.text();
  return error;
}

inline std::string control_stream(Random& r) {
  std::string stream;
  for (size_t left = 1 + r.below(3); left > 0; --left)
    stream += frame(r.from(MessageType::introduce, MessageType::trace_piece), r.blob(30));
  return stream;
}

inline std::optional<std::string> read_control_stream(std::string_view bytes) {
  MessageReader reader;
  Message message;
  std::string why, again;
  reader.append(bytes);
  while (reader.next(message, why) == MessageReader::Found::message) {
    EXPECT_LE(message.body.size(), max_bytes(message.type));
    again += frame(message.type, message.body);
  }
  return again.size() == bytes.size() ? std::optional(again) : std::nullopt;
}

}  // namespace ringwood::testing
