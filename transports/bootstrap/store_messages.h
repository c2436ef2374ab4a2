// The messages between a tcp_store and its server.
//
//   request   magic 4 | operation 4 | key bytes 4 | value bytes 4 | key | value
//   response  reply 4 | bytes 4 | payload
//
// set: value. get: value is the time to wait in ms (8 bytes, signed, -1 for ever). add: value is
// the delta (8 bytes). One request at a time on a connection; a client that breaks the format is
// disconnected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "transports/base/bytes.h"

namespace ringwood::store_messages {

enum class Operation : uint32_t { set = 1, get, has, add, remove };
enum class Reply : uint32_t { ok = 0, missing, refused };

inline constexpr uint32_t kMagic = 0x53575352;  // "RSWS"
inline constexpr size_t kRequestHeader = 16, kResponseHeader = 8;
inline constexpr uint32_t kMaxKey = 1024, kMaxValue = 1 << 20;

struct RequestHeader {
  Operation operation = Operation::has;
  uint32_t key_bytes = 0, value_bytes = 0;
};

struct ResponseHeader {
  Reply reply = Reply::ok;
  uint32_t bytes = 0;
};

// The value of a get and of an add.
struct Number {
  int64_t value = 0;
};

void fields(auto& io, RequestHeader& header) {
  io.constant(kMagic);
  io.number(header.operation, Operation::set, Operation::remove);
  io.number(header.key_bytes, 0, kMaxKey);
  const Operation what = header.operation;
  const bool number = what == Operation::get || what == Operation::add;
  const uint32_t least = number ? sizeof(Number) : 0;
  io.number(header.value_bytes, least, what == Operation::set ? kMaxValue : least);
}

void fields(auto& io, ResponseHeader& header) {
  io.number(header.reply, Reply::ok, Reply::refused);
  io.number(header.bytes, 0, kMaxValue);
}

void fields(auto& io, Number& number) { io.number(number.value); }

inline std::string encode_request(Operation operation, std::string_view key,
                                  std::string_view value) {
  return encode(RequestHeader{operation, uint32_t(key.size()), uint32_t(value.size())})
      .append(key)
      .append(value);
}

inline std::string encode_response(Reply reply, std::string_view payload) {
  return encode(ResponseHeader{reply, uint32_t(payload.size())}).append(payload);
}

}  // namespace ringwood::store_messages
