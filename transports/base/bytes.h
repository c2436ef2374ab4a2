// Messages as bytes for another process, and back: the only reader and the only writer of them.
//
// A message has one list of its fields, by which it is written as well as read:
//
//   struct Hello { uint64_t ring = 0; std::string failure; std::vector<uint32_t> keys; };
//   void fields(auto& io, Hello& hello) {
//     io.number(hello.ring);
//     io.text(hello.failure, 1024);
//     io.list(hello.keys, 16, [&](uint32_t& key) { io.number(key); });
//   }
//   std::string bytes = encode(hello);
//   if (!decode(bytes, hello)) ...  // not exactly one such message; its fields mean nothing then
//
// Format: integers are little-endian and as wide as their type, a bool is a byte; texts, blobs and
// lists begin with their length (4 bytes); an optional begins with a bool. Nothing between fields.
//
// Nothing in the bytes is trusted. Invariants of ByteReader, whatever they are:
//   1. It reads only what it was given. The first failure is final: everything after it reads as 0
//      or empty, so one check at the end is enough.
//   2. A length is at most the caller's limit and at most what is left, and a list grows as its
//      elements are read: memory is bounded by the bytes that came.
//   3. A number with a range is in it, or reading fails. An enum always has a range.
//   4. A text will be printed: control characters are read as '?'. Blobs are left as they are.
// The writer trusts its caller: it cuts texts to their limit, between UTF-8 characters, and leaves
// it to the reader to refuse what is too long or out of range.
//
// Not for structures of a fixed layout that travel with each collective or are in shared memory
// (Preamble, MessageHeader, shm/shared_region.h): their sizes are part of the protocols' speed,
// both ends are little-endian, and their readers check each field where it is used.
//
// Not thread safe. Throws nothing but std::bad_alloc. A new message joins tests/fuzz/decoders.cc.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ringwood {

using ByteLength = uint32_t;

// At most `max` bytes of `text`, cut between UTF-8 characters.
std::string_view clip(std::string_view text, size_t max);
// `text` with '?' for control characters.
std::string printable(std::string_view text);

template <class T>
concept PlainNumber = std::is_integral_v<T> || std::is_enum_v<T>;

class ByteReader {
 public:
  // Reads any string, vector, array or span of bytes, which must outlive it.
  template <std::ranges::contiguous_range Bytes>
  requires(sizeof(std::ranges::range_value_t<Bytes>) == 1 && !std::is_array_v<Bytes>)
      ByteReader(const Bytes& bytes)
      : left_(reinterpret_cast<const char*>(std::ranges::data(bytes)), std::ranges::size(bytes)),
        total_(left_.size()) {}

  bool ok() const { return ok_; }
  // All of it was read, without a failure.
  bool done() const { return ok_ && left_.empty(); }
  size_t size() const { return total_ - left_.size(); }  // read so far

  template <PlainNumber T>
  void number(T& value) {
    static_assert(!std::is_enum_v<T>, "an enum has a range");
    value = static_cast<T>(little_endian(sizeof(T)));
  }
  void number(bool& value) { value = number_in<uint8_t>(0, 1) == 1; }
  template <PlainNumber T>
  void number(T& value, std::type_identity_t<T> min, std::type_identity_t<T> max) {
    value = number_in<T>(min, max);
  }
  template <std::integral T>
  requires(!std::same_as<T, bool>) T number() { return static_cast<T>(little_endian(sizeof(T))); }
  template <PlainNumber T>
  void constant(T value) {
    number_in<T>(value, value);
  }
  void text(std::string& value, size_t max) { value = printable(take(length(max))); }
  void blob(std::string& value, size_t max) { value = take(length(max)); }
  void raw(std::span<uint8_t> value);
  template <class List, class Each>
  void list(List& values, size_t max, Each&& each) {
    values.clear();
    for (size_t count = length(max); ok_ && values.size() < count;) each(values.emplace_back());
  }
  template <class T, class Each>
  void optional(std::optional<T>& value, Each&& each) {
    bool there = false;
    number(there);
    value.reset();
    if (!there) return;
    T content{};
    each(content);
    value = std::move(content);
  }
  // The next `bytes`, unchanged.
  std::string_view take(size_t bytes);

 private:
  uint64_t little_endian(size_t bytes);
  size_t length(size_t max);
  void fail();
  template <PlainNumber T>
  T number_in(T min, T max) {
    const T value = static_cast<T>(little_endian(sizeof(T)));
    if (ok_ && value >= min && value <= max) return value;
    fail();
    return min;
  }

  std::string_view left_;
  size_t total_;
  bool ok_ = true;
};

// Appends to `out`, a string or a vector of bytes.
template <class Sink = std::string>
class ByteWriter {
 public:
  explicit ByteWriter(Sink& out) : out_(out), before_(out.size()) {}

  size_t size() const { return out_.size() - before_; }  // written so far

  template <PlainNumber T>
  void number(T value) {
    const auto bits = static_cast<uint64_t>(value);
    char bytes[sizeof(T)];
    for (size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<char>(bits >> (8 * i));
    raw({bytes, sizeof bytes});
  }
  template <PlainNumber T>
  void number(T value, std::type_identity_t<T> /*min*/, std::type_identity_t<T> /*max*/) {
    number(value);
  }
  template <PlainNumber T>
  void constant(T value) {
    number(value);
  }
  void text(std::string_view value, size_t max) { blob(clip(value, max), max); }
  void blob(std::string_view value, size_t /*max*/) {
    number(static_cast<ByteLength>(value.size()));
    raw(value);
  }
  void raw(std::string_view bytes) {
    const size_t at = out_.size();
    out_.resize(at + bytes.size());
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(out_.data()) + at);
  }
  void raw(std::span<const uint8_t> bytes) {
    raw({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  template <class List, class Each>
  void list(List& values, size_t /*max*/, Each&& each) {
    number(static_cast<ByteLength>(values.size()));
    for (auto& value : values) each(value);
  }
  template <class T, class Each>
  void optional(std::optional<T>& value, Each&& each) {
    number(value.has_value());
    if (value) each(*value);
  }

 private:
  Sink& out_;
  const size_t before_;
};

template <class T>
std::string encode(T message) {
  std::string out;
  ByteWriter writer(out);
  fields(writer, message);
  return out;
}

template <class T>
bool decode(ByteReader in, T& message) {
  fields(in, message);
  return in.done();
}

}  // namespace ringwood
