// Integer instructions against the host, over tables of values.
#include "tests/ptx/self/value_tables.h"

namespace ringwood::ptx {
namespace {

template <class T>
T shifted_left(T a, uint32_t by) {
  return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<uint64_t>(a) << by);
}
template <class T>
T shifted_right(T a, uint32_t by) {
  return static_cast<T>(a >> std::min<uint32_t>(by, 8 * sizeof(T) - 1) >> (by >= 8 * sizeof(T)));
}

template <class T>
using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;

// What all integers have, but for those of 8 bits, of which PTX has no arithmetic.
template <class T>
void expect_integers(const std::string& type, const std::string& kind) {
  using U = std::make_unsigned_t<T>;
  const std::string d = "%" + kind + "0", a = "%" + kind + "1", b = "%" + kind + "2",
                    c = "%" + kind + "3";
  const auto two = [&](const std::string& op, auto&& f) {
    expect_all<T, T, T>(op + "." + type + " " + d + ", " + a + ", " + b + ";", f);
  };
  two("add", [](T x, T y) { return static_cast<T>(static_cast<U>(x) + static_cast<U>(y)); });
  two("sub", [](T x, T y) { return static_cast<T>(static_cast<U>(x) - static_cast<U>(y)); });
  two("mul.lo", [](T x, T y) { return static_cast<T>(uint64_t(x) * uint64_t(y)); });
  two("mul.hi", [](T x, T y) {
    return static_cast<T>((static_cast<Wide<T>>(x) * static_cast<Wide<T>>(y)) >> (8 * sizeof(T)));
  });
  two("min", [](T x, T y) { return std::min(x, y); });
  two("max", [](T x, T y) { return std::max(x, y); });
  two("div", [](T x, T y) {
    return y == 0 ? static_cast<T>(-1)
           : std::is_signed_v<T> && y == static_cast<T>(-1)
               ? static_cast<T>(U{0} - static_cast<U>(x))
               : static_cast<T>(x / y);
  });
  two("rem", [](T x, T y) {
    return y == 0                                           ? static_cast<T>(-1)
           : std::is_signed_v<T> && y == static_cast<T>(-1) ? T{0}
                                                            : static_cast<T>(x % y);
  });
  expect_all<T, T, T>("mad.lo." + type + " " + d + ", " + a + ", " + b + ", " + c + ";",
                      [](T x, T y) {
                        const T third = kThird<T>;
                        return static_cast<T>(uint64_t(x) * uint64_t(y) + uint64_t(third));
                      });
  expect_all<T, T, T>(
      "mad.hi." + type + " " + d + ", " + a + ", " + b + ", " + c + ";", [](T x, T y) {
        const T high =
            static_cast<T>((static_cast<Wide<T>>(x) * static_cast<Wide<T>>(y)) >> (8 * sizeof(T)));
        return static_cast<T>(static_cast<U>(high) + static_cast<U>(kThird<T>));
      });
  expect_all<T, T, uint32_t>("shr." + type + " " + d + ", " + a + ", %r2;",
                             [](T x, uint32_t by) { return shifted_right(x, by); });
  expect_all<uint32_t, T, T>(
      "setp.lt." + type + " %p1, " + a + ", " + b + ";\nselp.u32 %r0, 1, 0, %p1;",
      [](T x, T y) { return uint32_t{x < y}; });
  expect_all<uint32_t, T, T>(
      "setp.ge." + type + " %p1, " + a + ", " + b + ";\nselp.u32 %r0, 1, 0, %p1;",
      [](T x, T y) { return uint32_t{x >= y}; });
  expect_all<uint32_t, T, T>("setp.gt." + type + " %p1|%p2, " + a + ", " + b +
                                 ";\nselp.u32 %r0, 1, 0, %p1;\n@%p2 add.u32 %r0, %r0, 2;",
                             [](T x, T y) { return x > y ? 1u : 2u; });
}

template <class T>
void expect_bits(const std::string& bits, const std::string& kind) {
  const std::string d = "%" + kind + "0", a = "%" + kind + "1", b = "%" + kind + "2";
  const auto two = [&](const std::string& op, auto&& f) {
    expect_all<T, T, T>(op + ".b" + bits + " " + d + ", " + a + ", " + b + ";", f);
  };
  two("and", [](T x, T y) { return static_cast<T>(x & y); });
  two("or", [](T x, T y) { return static_cast<T>(x | y); });
  two("xor", [](T x, T y) { return static_cast<T>(x ^ y); });
  expect_all<T, T, T>("not.b" + bits + " " + d + ", " + a + ";",
                      [](T x, T) { return static_cast<T>(~x); });
  expect_all<T, T, T>("cnot.b" + bits + " " + d + ", " + a + ";",
                      [](T x, T) { return static_cast<T>(x == 0); });
  expect_all<T, T, uint32_t>("shl.b" + bits + " " + d + ", " + a + ", %r2;",
                             [](T x, uint32_t by) { return shifted_left(x, by); });
  expect_all<uint32_t, T, T>(
      "setp.eq.b" + bits + " %p1, " + a + ", " + b + ";\nselp.u32 %r0, 1, 0, %p1;",
      [](T x, T y) { return uint32_t{x == y}; });
}

TEST(Integers, AreTheHosts) {
  expect_integers<int16_t>("s16", "h");
  expect_integers<uint16_t>("u16", "h");
  expect_integers<int32_t>("s32", "r");
  expect_integers<uint32_t>("u32", "r");
  expect_integers<int64_t>("s64", "d");
  expect_integers<uint64_t>("u64", "d");
}

TEST(Bits, AreTheHosts) {
  expect_bits<uint16_t>("16", "h");
  expect_bits<uint32_t>("32", "r");
  expect_bits<uint64_t>("64", "d");
}

TEST(Integers, OfTwiceTheWidth) {
  expect_all<int32_t, int16_t, int16_t>("mul.wide.s16 %r0, %h1, %h2;",
                                        [](int16_t x, int16_t y) { return int32_t{x} * y; });
  expect_all<uint32_t, uint16_t, uint16_t>(
      "mul.wide.u16 %r0, %h1, %h2;",
      [](uint16_t x, uint16_t y) { return uint32_t{x} * uint32_t{y}; });
  expect_all<int64_t, int32_t, int32_t>("mul.wide.s32 %d0, %r1, %r2;",
                                        [](int32_t x, int32_t y) { return int64_t{x} * y; });
  expect_all<uint64_t, uint32_t, uint32_t>(
      "mad.wide.u32 %d0, %r1, %r2, %d3;",
      [](uint32_t x, uint32_t y) { return uint64_t{x} * y + kThird<uint64_t>; });
}

TEST(Integers, HaveSignsAndDifferences) {
  expect_all<int32_t, int32_t, int32_t>("neg.s32 %r0, %r1;", [](int32_t x, int32_t) {
    return static_cast<int32_t>(0u - static_cast<uint32_t>(x));
  });
  expect_all<int64_t, int64_t, int64_t>("abs.s64 %d0, %d1;", [](int64_t x, int64_t) {
    return x < 0 ? static_cast<int64_t>(0u - static_cast<uint64_t>(x)) : x;
  });
  expect_all<uint32_t, uint32_t, uint32_t>(
      "sad.u32 %r0, %r1, %r2, %r3;",
      [](uint32_t x, uint32_t y) { return (x < y ? y - x : x - y) + kThird<uint32_t>; });
}

TEST(Integers, CarryBeyondTheirWidth) {
  expect_all<uint64_t, uint64_t, uint64_t>(
      "add.cc.u64 %d4, %d1, %d2;\naddc.u64 %d0, 5, 6;",
      [](uint64_t x, uint64_t y) { return 11 + uint64_t{x + y < x}; });
  expect_all<uint32_t, uint32_t, uint32_t>(
      "sub.cc.u32 %r4, %r1, %r2;\nsubc.cc.u32 %r5, 0, 0;\nsubc.u32 %r0, 9, 1;",
      [](uint32_t x, uint32_t y) { return 8 - uint32_t{x < y}; });
}

TEST(Bits, AreCountedAndTurned) {
  expect_all<uint32_t, uint32_t, uint32_t>("popc.b32 %r0, %r1;", [](uint32_t x, uint32_t) {
    return static_cast<uint32_t>(std::popcount(x));
  });
  expect_all<uint32_t, uint64_t, uint64_t>("popc.b64 %r0, %d1;", [](uint64_t x, uint64_t) {
    return static_cast<uint32_t>(std::popcount(x));
  });
  expect_all<uint32_t, uint32_t, uint32_t>("clz.b32 %r0, %r1;", [](uint32_t x, uint32_t) {
    return static_cast<uint32_t>(std::countl_zero(x));
  });
  expect_all<uint32_t, uint64_t, uint64_t>("clz.b64 %r0, %d1;", [](uint64_t x, uint64_t) {
    return static_cast<uint32_t>(std::countl_zero(x));
  });
  expect_all<uint32_t, uint32_t, uint32_t>("brev.b32 %r0, %r1;", [](uint32_t x, uint32_t) {
    uint32_t turned = 0;
    for (int i = 0; i < 32; ++i) turned |= (x >> i & 1) << (31 - i);
    return turned;
  });
  expect_all<uint32_t, int32_t, int32_t>("bfind.s32 %r0, %r1;", [](int32_t x, int32_t) {
    return static_cast<uint32_t>(31 - std::countl_zero(static_cast<uint32_t>(x < 0 ? ~x : x)));
  });
  expect_all<uint32_t, uint64_t, uint64_t>(
      "bfind.shiftamt.u64 %r0, %d1;", [](uint64_t x, uint64_t) {
        return x == 0 ? ~0u : static_cast<uint32_t>(std::countl_zero(x));
      });
}

TEST(Bits, AreShiftedThroughTwoWords) {
  const auto both = [](uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; };
  for (const uint32_t by : {0u, 1u, 17u, 31u, 32u, 40u, 255u}) {
    const std::string c = std::to_string(by) + ";";
    expect_all<uint32_t, uint32_t, uint32_t>(
        "shf.l.wrap.b32 %r0, %r1, %r2, " + c, [&](uint32_t x, uint32_t y) {
          return static_cast<uint32_t>(both(x, y) << (by & 31) >> 32);
        });
    expect_all<uint32_t, uint32_t, uint32_t>(
        "shf.r.clamp.b32 %r0, %r1, %r2, " + c, [&](uint32_t x, uint32_t y) {
          return static_cast<uint32_t>(both(x, y) >> std::min(by, 32u));
        });
  }
}

TEST(Bits, OfFieldsAreTakenAndPut) {
  for (const int at : {0, 3, 31, 40}) {
    for (const int length : {0, 1, 5, 32, 60}) {
      const std::string where = std::to_string(at) + ", " + std::to_string(length) + ";";
      expect_all<uint32_t, uint32_t, uint32_t>("bfe.u32 %r0, %r1, " + where,
                                               [&](uint32_t x, uint32_t) {
                                                 uint32_t result = 0;
                                                 for (int i = 0; i < length && at + i < 32; ++i)
                                                   result |= (x >> (at + i) & 1) << i;
                                                 return result;
                                               });
      expect_all<int32_t, int32_t, int32_t>("bfe.s32 %r0, %r1, " + where, [&](int32_t x, int32_t) {
        uint32_t result = 0;
        const int last = std::min(at + length - 1, 31);
        for (int i = 0; i < 32; ++i)
          result |= static_cast<uint32_t>(length > 0 ? x >> std::min(at + i, last) & 1 : 0) << i;
        return static_cast<int32_t>(result);
      });
      expect_all<uint64_t, uint64_t, uint64_t>(
          "bfi.b64 %d0, %d1, %d2, " + where, [&](uint64_t x, uint64_t y) {
            for (int i = 0; i < length && at + i < 64; ++i)
              y = (y & ~(uint64_t{1} << (at + i))) | (x >> i & 1) << (at + i);
            return y;
          });
    }
  }
}

TEST(Bits, OfThreeWordsFollowATable) {
  expect_all<uint32_t, uint32_t, uint32_t>(
      "lop3.b32 %r0, %r1, %r2, %r3, 0x96;",
      [](uint32_t x, uint32_t y) { return x ^ y ^ kThird<uint32_t>; });
  expect_all<uint32_t, uint32_t, uint32_t>(
      "lop3.b32 %r0, %r1, %r2, %r3, 0xca;",
      [](uint32_t x, uint32_t y) { return (x & y) | (~x & kThird<uint32_t>); });
}

TEST(Bytes, ArePermuted) {
  struct Row {
    const char* how;
    uint64_t result;
  };
  // {b, a} = 87 66 55 44 33 22 11 f0, from the highest byte to the lowest.
  for (const Row& row : {Row{"prmt.b32 %r0, 0x332211f0, 0x87665544, 0x3210;", 0x332211f0},
                         Row{"prmt.b32 %r0, 0x332211f0, 0x87665544, 0x7654;", 0x87665544},
                         Row{"prmt.b32 %r0, 0x332211f0, 0x87665544, 0xf801;", 0xfffff011},
                         Row{"prmt.b32.f4e %r0, 0x332211f0, 0x87665544, 2;", 0x55443322},
                         Row{"prmt.b32.b4e %r0, 0x332211f0, 0x87665544, 1;", 0x6687f011},
                         Row{"prmt.b32.rc8 %r0, 0x332211f0, 0x87665544, 2;", 0x22222222},
                         Row{"prmt.b32.ecl %r0, 0x332211f0, 0x87665544, 1;", 0x33221111},
                         Row{"prmt.b32.ecr %r0, 0x332211f0, 0x87665544, 1;", 0x111111f0},
                         Row{"prmt.b32.rc16 %r0, 0x332211f0, 0x87665544, 1;", 0x33223322}})
    EXPECT_EQ(one_result(row.how), row.result) << row.how;
}

TEST(Moves, PackAndUnpack) {
  EXPECT_EQ(
      one_result("mov.u32 %r1, 0x1234abcd;\nmov.b32 {%h1, %h2}, %r1;\nmov.b32 %r0, {%h2, %h1};"),
      0xabcd1234u);
  EXPECT_EQ(one_result("mov.b64 %d1, {1, 2};\nmov.b64 {%r1, _}, %d1;\nmov.b64 {_, %r2}, %d1;\n"
                       "shl.b32 %r2, %r2, 4;\nor.b32 %r0, %r1, %r2;"),
            0x21u);
  EXPECT_EQ(one_result("mov.b64 %d1, 0x8765432112345678;\nmov.b64 {%h0, %h1, %h2, %h3}, %d1;\n"
                       "mov.b32 %r0, {%h1, %h3};"),
            0x87651234u);
}

TEST(Predicates, AreCombined) {
  for (const std::string combine : {"and", "or", "xor"})
    for (const int with : {0, 1})
      for (const std::string sign : {"", "!"}) {
        const bool c = (with == 1) != (sign == "!");
        expect_all<uint32_t, int32_t, int32_t>(
            "setp.eq.u32 %p3, 1, " + std::to_string(with) + ";\nsetp.lt." + combine +
                ".s32 %p1|%p2, %r1, %r2, " + sign +
                "%p3;\nselp.u32 %r0, 1, 0, %p1;\n@%p2 add.u32 %r0, %r0, 2;",
            [&](int32_t x, int32_t y) {
              const auto joined = [&](bool is) {
                return combine == "and" ? is && c : combine == "or" ? is || c : is != c;
              };
              return uint32_t{joined(x < y)} + 2 * uint32_t{joined(!(x < y))};
            });
      }
  EXPECT_EQ(one_result("setp.eq.u32 %p1, 0, 0;\nnot.pred %p2, %p1;\nxor.pred %p3, %p1, %p2;\n"
                       "and.pred %p3, %p3, %p1;\nmov.pred %p4, %p3;\nselp.u32 %r0, 7, 8, %p4;"),
            7u);
  EXPECT_EQ(one_result("slct.u32.s32 %r0, 7, 8, -1;"), 8u);
  EXPECT_EQ(one_result("slct.u32.f32 %r0, 7, 8, 0f00000000;"), 7u);
  EXPECT_EQ(one_result("set.lt.u32.f32 %r0, 0f00000000, 0f3F800000;"), 0xffffffffu);
}

}  // namespace
}  // namespace ringwood::ptx
