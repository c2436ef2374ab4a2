// Values for the fields of messages, drawn from a seed.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace ringwood::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  size_t below(size_t n) { return n == 0 ? 0 : engine_() % n; }
  bool flag() { return below(2) == 1; }
  uint64_t bits() { return engine_() >> below(64); }
  template <class T = int>
  T from(T min, T max) {
    return static_cast<T>(
        std::uniform_int_distribution<int64_t>(int64_t(min), int64_t(max))(engine_));
  }
  int number() { return static_cast<int>(bits()); }
  std::string text(size_t max = 12) {
    std::string text(below(max + 1), ' ');
    for (char& c : text) c = static_cast<char>(from(' ', '~'));
    return text;
  }
  std::string blob(size_t max = 12) {
    std::string blob(below(max + 1), ' ');
    for (char& c : blob) c = static_cast<char>(engine_());
    return blob;
  }
  template <size_t n>
  std::array<uint8_t, n> bytes() {
    std::array<uint8_t, n> bytes;
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(engine_());
    return bytes;
  }
  template <class Make>
  auto some(size_t max, Make make) {
    std::vector<decltype(make())> all(below(max + 1));
    for (auto& one : all) one = make();
    return all;
  }

 private:
  std::mt19937_64 engine_;
};

// Flips, cuts, doubles, inserts and splices, a few at a time.
inline void mutate(std::string& text, const std::string& other, Random& random) {
  constexpr char kEdges[] = {0, 1, 0x7f, char(0x80), char(0xff)};
  const size_t at = random.below(text.size() + 1);
  const char edge = kEdges[random.below(sizeof(kEdges))];
  switch (random.below(6)) {
    case 0: text.resize(at); break;
    case 1: text.insert(at, text.substr(0, random.below(text.size() + 1))); break;
    case 2: text.insert(at, 1 + random.below(40), edge); break;
    case 3: text = text.substr(0, at) + other.substr(random.below(other.size() + 1)); break;
    case 4:
      if (at < text.size()) text[at] = edge;
      break;
    default:
      if (at < text.size()) text[at] = static_cast<char>(random.bits());
  }
  if (text.size() > 8192) text.resize(8192);
}

}  // namespace ringwood::testing
