// A line of a tuning file: its first word, then key=value, each known key once. The bytes may be
// anybody's: numbers are bounded, words are short and printable. What is refused throws
// Error(invalid_argument) with the number of the line and a remedy.
#pragma once

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/tuner/tuning/medians.h"
#include "transports/base/error.h"

namespace ringwood {

inline constexpr size_t kMaxWord = 200, kMaxShown = 40;

inline std::string_view cut(std::string_view& text, char at) {
  const size_t end = std::min(text.find(at), text.size());
  const std::string_view head = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return head;
}

inline std::string printable(std::string text) {
  for (char& c : text)
    if (!std::isprint(static_cast<unsigned char>(c))) c = '?';
  return text;
}

class Line final {
 public:
  Line(std::string_view text, int number) : number_(number) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
    whole_ = text;
    kind_ = cut(text, ' ');
    rest_ = text;
  }
  std::string_view kind() const { return kind_; }
  std::string_view rest() const { return rest_; }

  // What the file has in it may steer a terminal.
  [[noreturn]] void refuse(const std::string& text) const {
    const std::string why = printable(text);
    throw Error(ErrorCode::invalid_argument,
                fmt::format("line {}: {}; correct it, or run ringwood tune again", number_, why));
  }
  void split() {
    for (std::string_view left = rest_; !left.empty();) {
      const std::string_view word = cut(left, ' ');
      if (word.empty()) continue;
      const size_t at = word.find('=');
      if (at == word.npos) refuse(fmt::format("'{}' is no key=value", word.substr(0, kMaxShown)));
      if (!values_.emplace(word.substr(0, at), word.substr(at + 1)).second)
        refuse(fmt::format("{} occurs twice", word.substr(0, std::min(at, kMaxShown))));
    }
  }
  bool has(const char* key) const { return values_.contains(key); }
  std::string_view take(const char* key) {
    const auto it = values_.find(key);
    if (it == values_.end()) refuse(fmt::format("{}= is missing", key));
    const std::string_view value = it->second;
    values_.erase(it);
    return value;
  }
  std::string word(const char* key) {
    const std::string_view value = take(key);
    if (value.size() > kMaxWord) refuse(fmt::format("{}= is too long", key));
    for (const char c : value)
      if (!std::isprint(static_cast<unsigned char>(c)))
        refuse(fmt::format("{}= has a character that cannot be printed", key));
    return std::string(value);
  }
  template <class T>
  T number(const char* key, T least, T most, int base = 10) {
    return parsed(key, take(key), least, most, base);
  }
  template <class T>
  T parsed(const char* key, std::string_view text, T least, T most, int base = 10) const {
    T value{};
    const char* const end = text.data() + text.size();
    std::from_chars_result read{};
    if constexpr (std::is_floating_point_v<T>)
      read = std::from_chars(text.data(), end, value);
    else
      read = std::from_chars(text.data(), end, value, base);
    // Written so that a NaN fails.
    if (read.ec != std::errc() || read.ptr != end || !(value >= least) || !(value <= most))
      refuse(fmt::format("{}={} is not a number from {} to {}", key, text.substr(0, kMaxShown),
                         least, most));
    return value;
  }
  uint64_t hash(const char* key) { return number<uint64_t>(key, 0, UINT64_MAX, 16); }
  // Microseconds: median, low, high.
  MeasuredTime time(const char* key) {
    std::string_view text = take(key);
    MeasuredTime t;
    for (double* value : {&t.median, &t.low, &t.high})
      *value = parsed(key, cut(text, ','), 0.0, 1e12) * 1e-6;
    if (!text.empty() || t.low > t.median || t.median > t.high)
      refuse(fmt::format("{}= is not median,low,high", key));
    return t;
  }
  size_t one_of(const char* key, std::initializer_list<std::string_view> words) {
    const std::string_view value = take(key);
    const auto it = std::find(words.begin(), words.end(), value);
    if (it == words.end())
      refuse(fmt::format("{}={} is not {}", key, value.substr(0, kMaxShown),
                         fmt::join(words, " or ")));
    return static_cast<size_t>(it - words.begin());
  }
  void end() const {
    if (!values_.empty())
      refuse(fmt::format("{}= is not known here", values_.begin()->first.substr(0, kMaxShown)));
  }
  // What throws Error(invalid_argument) is told with the line.
  template <class Read>
  auto guarded(Read read) const {
    try {
      return read();
    } catch (const Error& error) {
      refuse(error.cause);
    }
  }

 private:
  const int number_;
  std::string_view whole_, kind_, rest_;
  std::map<std::string_view, std::string_view> values_;
};

}  // namespace ringwood
