#include "transports/control/control_messages.h"

#include <fmt/core.h>

namespace ringwood {

std::string frame(MessageType type, std::string_view body) {
  std::string out;
  ByteWriter writer(out);
  writer.number(type);
  writer.number(uint8_t{0});
  writer.number(static_cast<uint16_t>(body.size()));
  writer.raw(body);
  return out;
}

MessageReader::Found MessageReader::next(Message& message, std::string& why) {
  ByteReader in(buffer_);
  const auto type = in.number<uint8_t>(), reserved = in.number<uint8_t>();
  const size_t bytes = in.number<uint16_t>();
  if (!in.ok()) return Found::nothing;
  const bool known =
      type >= uint8_t(MessageType::introduce) && type <= uint8_t(MessageType::trace_piece);
  if (!known || reserved != 0 || bytes > max_bytes(static_cast<MessageType>(type))) {
    why = fmt::format("a message of type {} and {} bytes", type, bytes);
    return Found::malformed;
  }
  message.body = in.take(bytes);
  if (!in.ok()) return Found::nothing;
  message.type = static_cast<MessageType>(type);
  buffer_.erase(0, in.size());
  return Found::message;
}

}  // namespace ringwood
