#include "transports/bootstrap/store_records.h"

#include "transports/base/hash.h"

namespace ringwood {
namespace {

constexpr uint32_t kRemoved = 0xffffffff;

}  // namespace

std::string encode_record(const LogRecord& record) {
  std::string body, out;
  ByteWriter in_body(body);
  in_body.number(static_cast<uint32_t>(record.key.size()));
  in_body.number(record.value ? static_cast<uint32_t>(record.value->size()) : kRemoved);
  in_body.raw(record.key);
  if (record.value) in_body.raw(*record.value);
  ByteWriter(out).number(fnv1a(body));
  return out.append(body);
}

size_t decode_record(std::string_view log, LogRecord& record) {
  ByteReader in(log);
  const auto sum = in.number<uint32_t>();
  const auto key_bytes = in.number<uint32_t>(), value_bytes = in.number<uint32_t>();
  record.key = in.take(key_bytes);
  record.value.reset();
  if (value_bytes != kRemoved) record.value = in.take(value_bytes);
  const bool whole = in.ok() && sum == fnv1a(log.substr(sizeof sum, in.size() - sizeof sum));
  return whole ? in.size() : 0;
}

}  // namespace ringwood
