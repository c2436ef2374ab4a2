#include "transports/control/control_messages.h"

#include <fmt/core.h>

#include <algorithm>

#include "transports/base/options.h"

namespace ringwood {
namespace {

constexpr size_t kMaxHost = 64, kMaxOpStatus = 200, kMaxName = 48;

// At most `most` bytes, cut between UTF-8 characters: Python refuses a message with half of one.
std::string_view clip(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<uint8_t>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

class Writer {
 public:
  template <class T>
  void number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      out_.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
    }
  }
  void text(std::string_view value, size_t most) {
    value = clip(value, most);
    number(static_cast<uint16_t>(value.size()));
    out_.append(value);
  }
  size_t room() const { return kMaxBody - out_.size(); }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}
  template <class T>
  T number() {
    if (in_.size() < sizeof(T)) {
      good_ = false;
      return T{};
    }
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i)
      value |= uint64_t(static_cast<uint8_t>(in_[i])) << (8 * i);
    in_.remove_prefix(sizeof(T));
    return static_cast<T>(value);
  }
  std::string text(size_t most) {
    size_t bytes = number<uint16_t>();
    if (bytes > most || bytes > in_.size()) {
      good_ = false;
      return "";
    }
    std::string value(in_.substr(0, bytes));
    in_.remove_prefix(bytes);
    // It ends in somebody's terminal.
    std::replace_if(
        value.begin(), value.end(), [](char c) { return uint8_t(c) < 0x20 || c == 0x7f; }, '?');
    return value;
  }
  bool finished() const { return good_ && in_.empty(); }

 private:
  std::string_view in_;
  bool good_ = true;
};

}  // namespace

std::string frame(MessageType type, std::string_view body) {
  Writer out;
  out.number(static_cast<uint8_t>(type));
  out.number(uint8_t{0});
  out.number(static_cast<uint16_t>(body.size()));
  return out.take().append(body);
}

std::string encode(const Introduction& introduction) {
  Writer out;
  out.number(static_cast<int32_t>(introduction.pid));
  out.text(introduction.host, kMaxHost);
  return out.take();
}

bool decode(std::string_view body, Introduction& introduction) {
  Reader in(body);
  introduction.pid = in.number<int32_t>();
  introduction.host = in.text(kMaxHost);
  return in.finished();
}

std::string encode(const OpStatuses& op_statuses) {
  Writer out;
  out.number(static_cast<uint8_t>(op_statuses.size()));
  for (size_t left = op_statuses.size(); const OpStatus& op_status : op_statuses) {
    constexpr size_t kBeside = sizeof(int64_t) + sizeof(uint8_t) + sizeof(uint16_t);
    const size_t share = out.room() / left--;
    out.number(op_status.sequence);
    out.number(static_cast<uint8_t>(op_status.inside));
    out.text(op_status.text, std::min(kMaxOpStatus, share - kBeside));
  }
  return out.take();
}

bool decode(std::string_view body, OpStatuses& op_statuses) {
  Reader in(body);
  const auto count = in.number<uint8_t>();
  if (count > kMaxInFlight) return false;
  op_statuses.assign(count, {});
  bool sound = true;
  for (OpStatus& op_status : op_statuses) {
    op_status.sequence = in.number<int64_t>();
    const auto inside = in.number<uint8_t>();
    op_status.inside = inside == 1;
    op_status.text = in.text(kMaxOpStatus);
    sound = sound && inside <= 1;
  }
  return in.finished() && sound;
}

std::string encode(const Error& error) {
  Writer out;
  out.number(static_cast<uint8_t>(error.code));
  for (int value : {error.rank, error.peer, error.step}) out.number(static_cast<int32_t>(value));
  out.number(error.sequence);
  out.text(error.host, kMaxHost);
  out.text(error.collective, kMaxName);
  out.text(error.transport, kMaxName);
  out.text(error.cause, out.room() - sizeof(uint16_t));
  return out.take();
}

bool decode(std::string_view body, Error& error) {
  Reader in(body);
  auto code = in.number<uint8_t>();
  error.code = static_cast<ErrorCode>(code);
  error.rank = in.number<int32_t>();
  error.peer = in.number<int32_t>();
  error.step = in.number<int32_t>();
  error.sequence = in.number<int64_t>();
  error.host = in.text(kMaxHost);
  error.collective = in.text(kMaxName);
  error.transport = in.text(kMaxName);
  error.cause = in.text(kMaxBody);
  return in.finished() && code <= static_cast<uint8_t>(ErrorCode::internal);
}

std::string encode_rank(int rank) {
  Writer out;
  out.number(static_cast<uint32_t>(rank));
  return out.take();
}

bool decode_rank(std::string_view body, int size, int& rank) {
  Reader in(body);
  auto value = in.number<uint32_t>();
  rank = static_cast<int>(value);
  return in.finished() && value < static_cast<uint32_t>(size);
}

MessageReader::Found MessageReader::next(Message& message, std::string& why) {
  if (buffer_.size() < kMessageHeader) return Found::nothing;
  Reader in(buffer_);
  auto type = in.number<uint8_t>();
  auto reserved = in.number<uint8_t>();
  size_t bytes = in.number<uint16_t>();
  bool known = type >= uint8_t(MessageType::introduce) && type <= uint8_t(MessageType::group_error);
  if (!known || reserved != 0 || bytes > kMaxBody) {
    why = fmt::format("a message of type {} and {} bytes", type, bytes);
    return Found::malformed;
  }
  if (buffer_.size() < kMessageHeader + bytes) return Found::nothing;
  message.type = static_cast<MessageType>(type);
  message.body = buffer_.substr(kMessageHeader, bytes);
  buffer_.erase(0, kMessageHeader + bytes);
  return Found::message;
}

}  // namespace ringwood
