// What travels between a tcp_store and its server. Numbers are little-endian.
//
//   request   magic 4 | operation 1 | zero 3 | key bytes 4 | value bytes 4 | key | value
//   response  reply 1 | zero 3 | bytes 4 | payload
//
// set: value. get: value is the time to wait in ms (8 bytes, signed, -1 for ever). add: value is
// the delta (8 bytes). One request at a time on a connection; whoever breaks the format is
// disconnected.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringwood::store_wire {

enum class Operation : uint8_t { set = 1, get, has, add, remove };
enum class Reply : uint8_t { ok = 0, missing, refused };

inline constexpr uint32_t kMagic = 0x53575352;  // "RSWS"
inline constexpr size_t kRequestHeader = 16, kResponseHeader = 8;
inline constexpr size_t kMaxKey = 1024, kMaxValue = size_t{1} << 20;

template <class T>
void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
  }
}

// Precondition: in.size() >= at + sizeof(T).
template <class T>
T get(std::string_view in, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= uint64_t(static_cast<uint8_t>(in[at + i])) << (8 * i);
  return static_cast<T>(value);
}

struct RequestHeader {
  Operation operation = Operation::has;
  size_t key_bytes = 0, value_bytes = 0;
};

inline std::string encode_request(Operation operation, std::string_view key,
                                  std::string_view value) {
  std::string out;
  out.reserve(kRequestHeader + key.size() + value.size());
  put(out, kMagic);
  put(out, static_cast<uint32_t>(operation));
  put(out, static_cast<uint32_t>(key.size()));
  put(out, static_cast<uint32_t>(value.size()));
  return out.append(key).append(value);
}

// False when these are not 16 bytes that a client of ours would send.
inline bool decode_request_header(std::string_view in, RequestHeader& header) {
  if (in.size() != kRequestHeader || get<uint32_t>(in, 0) != kMagic) return false;
  auto operation = get<uint32_t>(in, 4);
  header.operation = static_cast<Operation>(operation);
  header.key_bytes = get<uint32_t>(in, 8);
  header.value_bytes = get<uint32_t>(in, 12);
  bool known = operation >= uint32_t(Operation::set) && operation <= uint32_t(Operation::remove);
  if (!known || header.key_bytes > kMaxKey || header.value_bytes > kMaxValue) return false;
  switch (header.operation) {
    case Operation::set: return true;
    case Operation::get:
    case Operation::add: return header.value_bytes == 8;
    default: return header.value_bytes == 0;
  }
}

inline std::string encode_response(Reply reply, std::string_view payload) {
  std::string out;
  put(out, static_cast<uint32_t>(reply));
  put(out, static_cast<uint32_t>(payload.size()));
  return out.append(payload);
}

}  // namespace ringwood::store_wire
