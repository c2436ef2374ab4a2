// Instructions carried out on tables of values, against functions of the host.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/ptx/arithmetic/arithmetic.h"
#include "tests/ptx/self/texts.h"

namespace ringwood::ptx {

template <class T>
std::vector<T> table() {
  std::vector<T> values;
  if constexpr (std::is_floating_point_v<T>) {
    using Limits = std::numeric_limits<T>;
    for (const T one : {T(0), T(1), T(1.5), T(0.5), T(2.5), T(3), T(100.25), T(65504), T(65520),
                        T(1e-5), T(6e-8), T(0.1), T(3e9), T(1e19), Limits::max(), Limits::min(),
                        Limits::denorm_min(), Limits::infinity(), Limits::epsilon()}) {
      values.push_back(one);
      values.push_back(-one);
    }
    values.push_back(Limits::quiet_NaN());
  } else {
    using Limits = std::numeric_limits<T>;
    for (const int one : {0, 1, 2, 3, 7, 31, 32, 100, -1, -2, -100})
      values.push_back(static_cast<T>(one));
    for (const T one : {Limits::max(), Limits::min(), static_cast<T>(Limits::max() - 1),
                        static_cast<T>(0x5555555555555555), static_cast<T>(0x123456789abcdef0)})
      values.push_back(one);
  }
  return values;
}

// What the third operand is.
template <class T>
inline constexpr T kThird = static_cast<T>(0x2d2d2d2d2d2d2d2d);

// The register that holds a T, by number.
template <class T>
std::string bank() {
  if constexpr (std::is_same_v<T, float>) return "%f";
  if constexpr (std::is_same_v<T, double>) return "%g";
  return sizeof(T) == 2 ? "%h" : sizeof(T) == 4 ? "%r" : "%d";
}
template <class T>
std::string bits() {
  return std::to_string(8 * sizeof(T));
}

inline bool is_nan(uint64_t value, bool single, bool twice) {
  return single ? std::isnan(value_of<float>(value)) : twice && std::isnan(value_of<double>(value));
}

// `text` computes register 0 of R from register 1, an A, and register 2, a B, in a thread for each
// pair of the tables; register 3 is kThird. NaN are all alike.
template <class R, class A, class B, class F>
void expect_all(const std::string& text, F&& expected) {
  const std::vector<A> as = table<A>();
  const std::vector<B> bs = table<B>();
  std::vector<uint64_t> words;
  for (const A a : as)
    for (const B b : bs) {
      words.push_back(slot_of(a));
      words.push_back(slot_of(b));
      words.push_back(~uint64_t{0});
    }
  const std::string body =
      "mov.u32 %r15, %tid.x;\nmul.wide.u32 %x1, %r15, 24;\nadd.u64 %x1, %x1, %x0;\nld.b" +
      bits<A>() + " " + bank<A>() + "1, [%x1];\nld.b" + bits<B>() + " " + bank<B>() +
      "2, [%x1+8];\nmov.u16 %h3, 0x2d2d;\nmov.u32 %r3, 0x2d2d2d2d;\n"
      "mov.u64 %d3, 0x2d2d2d2d2d2d2d2d;\n" +
      text + "\nst.b" + bits<R>() + " [%x1+16], " + bank<R>() + "0;";
  run_kernel(header() + kernel("k", body), words, static_cast<int>(as.size() * bs.size()));
  const uint64_t kept = sizeof(R) == 8 ? 0 : ~uint64_t{0} << (8 * sizeof(R) % 64);
  size_t at = 0;
  for (const A a : as)
    for (const B b : bs) {
      const uint64_t want = slot_of(static_cast<R>(expected(a, b)));
      const uint64_t got = words[at + 2] & ~kept;
      at += 3;
      constexpr bool kSingle = std::is_same_v<R, float>, kTwice = std::is_same_v<R, double>;
      if (is_nan(want, kSingle, kTwice) && is_nan(got, kSingle, kTwice)) continue;
      ASSERT_EQ(got, want) << text << " of " << +a << " and " << +b;
    }
}

// %r0 after the text.
inline uint64_t one_result(const std::string& text) {
  std::array<uint64_t, 64> words{};
  run_kernel(header() + kernel("k", text + "\nst.u32 [%x0], %r0;"), words);
  return words[0];
}

}  // namespace ringwood::ptx
