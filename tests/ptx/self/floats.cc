// Floating-point instructions and conversions against the host, and all 16-bit floats.
#include <cfenv>

#include "tests/ptx/self/value_tables.h"

namespace ringwood::ptx {
namespace {

template <class V>
void expect_floats(const std::string& type, const std::string& kind) {
  const std::string d = "%" + kind + "0", a = "%" + kind + "1", b = "%" + kind + "2";
  const auto two = [&](const std::string& op, auto&& f) {
    expect_all<V, V, V>(op + "." + type + " " + d + ", " + a + ", " + b + ";", f);
  };
  const auto one = [&](const std::string& op, auto&& f) {
    expect_all<V, V, V>(op + "." + type + " " + d + ", " + a + ";", [&](V x, V) { return f(x); });
  };
  two("add", [](V x, V y) { return x + y; });
  two("sub", [](V x, V y) { return x - y; });
  two("mul.rn", [](V x, V y) { return x * y; });
  two("div.rn", [](V x, V y) { return x / y; });
  const auto smaller = [](V x, V y) {
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) ? y : x;
    return x == y ? (std::signbit(x) ? x : y) : std::min(x, y);
  };
  two("min", smaller);
  two("max", [&](V x, V y) { return -smaller(-x, -y); });
  two("copysign", [](V x, V y) { return std::copysign(y, x); });
  one("neg", [](V x) { return -x; });
  one("abs", [](V x) { return std::fabs(x); });
  one("sqrt.rn", [](V x) { return std::sqrt(x); });
  one("rcp.rn", [](V x) { return V{1} / x; });
  expect_all<V, V, V>("fma.rn." + type + " " + d + ", " + a + ", " + b + ", " + a + ";",
                      [](V x, V y) { return std::fma(x, y, x); });
  const auto compared = [&](const std::string& how, auto&& f) {
    expect_all<uint32_t, V, V>(
        "setp." + how + "." + type + " %p1, " + a + ", " + b + ";\nselp.u32 %r0, 1, 0, %p1;",
        [&](V x, V y) { return uint32_t{f(x, y)}; });
  };
  const auto unordered = [](V x, V y) { return std::isnan(x) || std::isnan(y); };
  compared("eq", [](V x, V y) { return x == y; });
  compared("ne", [&](V x, V y) { return x != y && !unordered(x, y); });
  compared("neu", [](V x, V y) { return x != y; });
  compared("lt", [](V x, V y) { return x < y; });
  compared("le", [](V x, V y) { return x <= y; });
  compared("gtu", [&](V x, V y) { return x > y || unordered(x, y); });
  compared("geu", [&](V x, V y) { return x >= y || unordered(x, y); });
  compared("equ", [&](V x, V y) { return x == y || unordered(x, y); });
  compared("num", [&](V x, V y) { return !unordered(x, y); });
  compared("nan", unordered);
  const auto tested = [&](const std::string& how, auto&& f) {
    expect_all<uint32_t, V, V>(
        "testp." + how + "." + type + " %p1, " + a + ";\nselp.u32 %r0, 1, 0, %p1;",
        [&](V x, V) { return uint32_t{f(x)}; });
  };
  tested("finite", [](V x) { return std::isfinite(x); });
  tested("infinite", [](V x) { return std::isinf(x); });
  tested("notanumber", [](V x) { return std::isnan(x); });
  tested("normal", [](V x) { return std::isnormal(x); });
  tested("subnormal", [](V x) { return std::fpclassify(x) == FP_SUBNORMAL; });
}

TEST(Floats, AreTheHosts) {
  expect_floats<float>("f32", "f");
  expect_floats<double>("f64", "g");
}

TEST(Floats, HaveOneNanWhereTheyAreNarrow) {
  EXPECT_EQ(one_result("mov.f32 %f1, 0fFFC12345;\nadd.f32 %f0, %f1, %f1;\nmov.b32 %r0, %f0;"),
            0x7fffffffu);
  EXPECT_EQ(one_result("mov.f32 %f1, 0fFFC12345;\nmin.f32 %f0, %f1, 1.0;\nmov.b32 %r0, %f0;"),
            0x3f800000u);
  EXPECT_EQ(one_result("mov.f32 %f1, 0fFFC12345;\nmin.NaN.f32 %f0, %f1, 1.0;\nmov.b32 %r0, %f0;"),
            0x7fffffffu);
  EXPECT_EQ(one_result("add.sat.f32 %f0, 2.0, 1.0;\nmov.b32 %r0, %f0;"), 0x3f800000u);
}

// Rounded to integers, and clamped. NaN is zero, or the sign alone.
template <class To, class From>
void expect_integer_of(const std::string& to, const std::string& from) {
  const auto clamped = [](From x, From rounded) {
    using Limits = std::numeric_limits<To>;
    if (std::isnan(x))
      return sizeof(To) == 8 || sizeof(From) == 8
                 ? static_cast<To>(uint64_t{1} << (8 * sizeof(To) - 1))
                 : To{0};
    const long double value = rounded;
    if (value <= static_cast<long double>(Limits::min())) return Limits::min();
    if (value >= static_cast<long double>(Limits::max())) return Limits::max();
    return static_cast<To>(value);
  };
  const auto by = [&](const std::string& mode, auto&& f) {
    expect_all<To, From, From>(
        "cvt." + mode + "." + to + "." + from + " " + bank<To>() + "0, " + bank<From>() + "1;",
        [&](From x, From) { return clamped(x, f(x)); });
  };
  by("rni", [](From x) { return std::nearbyint(x); });
  by("rzi", [](From x) { return std::trunc(x); });
  by("rmi", [](From x) { return std::floor(x); });
  by("rpi", [](From x) { return std::ceil(x); });
}

TEST(Conversions, OfFloatsToIntegers) {
  expect_integer_of<int32_t, float>("s32", "f32");
  expect_integer_of<uint32_t, float>("u32", "f32");
  expect_integer_of<int64_t, float>("s64", "f32");
  expect_integer_of<uint64_t, float>("u64", "f32");
  expect_integer_of<int16_t, float>("s16", "f32");
  expect_integer_of<int32_t, double>("s32", "f64");
  expect_integer_of<uint32_t, double>("u32", "f64");
  expect_integer_of<int64_t, double>("s64", "f64");
  expect_integer_of<uint64_t, double>("u64", "f64");
  EXPECT_EQ(one_result("cvt.rzi.s8.f32 %r0, -200.0;"), 0xffffff80u);
  EXPECT_EQ(one_result("cvt.rzi.u8.f32 %r0, 300.0;"), 255u);
}

template <class To, class From>
void expect_float_of(const std::string& to, const std::string& from) {
  const std::string registers = " " + bank<To>() + "0, " + bank<From>() + "1;";
  const auto by = [&](const std::string& mode, int host) {
    expect_all<To, From, From>("cvt." + mode + "." + to + "." + from + registers,
                               [&](From x, From) {
                                 std::fesetround(host);
                                 volatile From kept = x;
                                 const volatile To result = static_cast<To>(kept);
                                 std::fesetround(FE_TONEAREST);
                                 return result;
                               });
  };
  by("rn", FE_TONEAREST);
  by("rz", FE_TOWARDZERO);
  by("rm", FE_DOWNWARD);
  by("rp", FE_UPWARD);
}

TEST(Conversions, ToFloats) {
  expect_float_of<float, int32_t>("f32", "s32");
  expect_float_of<float, uint32_t>("f32", "u32");
  expect_float_of<float, int64_t>("f32", "s64");
  expect_float_of<float, double>("f32", "f64");
  expect_float_of<double, int32_t>("f64", "s32");
  expect_float_of<double, int64_t>("f64", "s64");
  expect_all<double, float, float>("cvt.f64.f32 %g0, %f1;",
                                   [](float x, float) { return static_cast<double>(x); });
  expect_all<float, uint64_t, uint64_t>("cvt.rn.f32.u64 %f0, %d1;",
                                        [](uint64_t x, uint64_t) { return static_cast<float>(x); });
  expect_all<float, uint16_t, uint16_t>("cvt.rn.f32.u8 %f0, %h1;", [](uint16_t x, uint16_t) {
    return static_cast<float>(static_cast<uint8_t>(x));
  });
}

TEST(Conversions, OfFloatsToWholeOnes) {
  expect_all<float, float, float>("cvt.rni.f32.f32 %f0, %f1;",
                                  [](float x, float) { return std::nearbyint(x); });
  expect_all<float, float, float>("cvt.rzi.f32.f32 %f0, %f1;",
                                  [](float x, float) { return std::trunc(x); });
  expect_all<double, double, double>("cvt.rmi.f64.f64 %g0, %g1;",
                                     [](double x, double) { return std::floor(x); });
  expect_all<float, float, float>("cvt.sat.f32.f32 %f0, %f1;", [](float x, float) {
    return std::isnan(x) || x < 0 ? 0 : std::min(x, 1.0f);
  });
}

TEST(Conversions, OfIntegers) {
  expect_all<int64_t, int32_t, int32_t>("cvt.s64.s32 %d0, %r1;",
                                        [](int32_t x, int32_t) { return int64_t{x}; });
  expect_all<uint64_t, uint32_t, uint32_t>("cvt.u64.u32 %d0, %r1;",
                                           [](uint32_t x, uint32_t) { return uint64_t{x}; });
  expect_all<uint32_t, uint64_t, uint64_t>(
      "cvt.u32.u64 %r0, %d1;", [](uint64_t x, uint64_t) { return static_cast<uint32_t>(x); });
  expect_all<int32_t, int32_t, int32_t>(
      "cvt.s8.s32 %r0, %r1;", [](int32_t x, int32_t) { return int32_t{static_cast<int8_t>(x)}; });
  expect_all<uint32_t, int32_t, int32_t>("cvt.u16.s32 %r0, %r1;", [](int32_t x, int32_t) {
    return uint32_t{static_cast<uint16_t>(x)};
  });
  expect_all<int32_t, int64_t, int64_t>("cvt.sat.s16.s64 %r0, %d1;", [](int64_t x, int64_t) {
    return static_cast<int32_t>(std::clamp<int64_t>(x, -32768, 32767));
  });
  expect_all<uint32_t, int32_t, int32_t>("cvt.sat.u8.s32 %r0, %r1;", [](int32_t x, int32_t) {
    return static_cast<uint32_t>(std::clamp(x, 0, 255));
  });
}

// ---- 16-bit floats

TEST(HalfFloats, AreAllExactAndComeBack) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const double half = wide_f16(bits), brain = wide_bf16(bits);
    if (!std::isnan(half)) {
      ASSERT_EQ(narrow_f16(half), bits);
    }
    if (!std::isnan(brain)) {
      ASSERT_EQ(narrow_bf16(brain), bits);
      ASSERT_EQ(static_cast<float>(brain), std::bit_cast<float>(i << 16));
    }
  }
  EXPECT_EQ(wide_f16(0x3c01), 1.0009765625);
  EXPECT_EQ(wide_f16(0x0001), std::ldexp(1, -24));
  EXPECT_EQ(wide_f16(0x7bff), 65504);
  EXPECT_TRUE(std::isinf(wide_f16(0xfc00)));
}

// Between every two neighbours: below, at and above their middle.
template <class Wide, class Narrow>
void expect_rounded(uint32_t infinity, Wide wide, Narrow narrow) {
  for (uint32_t i = 0; i + 1 < infinity; ++i) {
    const double low = wide(static_cast<uint16_t>(i)), high = wide(static_cast<uint16_t>(i + 1));
    const double middle = (low + high) / 2;
    ASSERT_EQ(narrow(middle, Rounding::rn), i + (i & 1));
    ASSERT_EQ(narrow(std::nextafter(middle, 0), Rounding::rn), i);
    ASSERT_EQ(narrow(std::nextafter(middle, high), Rounding::rn), i + 1);
    ASSERT_EQ(narrow(-middle, Rounding::rn), 0x8000u | (i + (i & 1)));
    ASSERT_EQ(narrow(std::nextafter(high, 0), Rounding::rz), i);
    ASSERT_EQ(narrow(std::nextafter(low, high), Rounding::rp), i + 1);
    ASSERT_EQ(narrow(-std::nextafter(low, high), Rounding::rp), 0x8000u | i);
    ASSERT_EQ(narrow(-std::nextafter(low, high), Rounding::rm), 0x8000u | (i + 1));
  }
  EXPECT_EQ(narrow(1e300, Rounding::rn), infinity);
  EXPECT_EQ(narrow(1e300, Rounding::rz), infinity - 1);
  EXPECT_EQ(narrow(5e-324, Rounding::rn), 0);
  EXPECT_EQ(narrow(5e-324, Rounding::rp), 1);
  EXPECT_EQ(narrow(std::nan(""), Rounding::rn), 0x7fff);
}

TEST(HalfFloats, AreRoundedToTheNearest) {
  expect_rounded(0x7c00, wide_f16, narrow_f16);
  expect_rounded(0x7f80, wide_bf16, narrow_bf16);
  EXPECT_EQ(narrow_f16(65519.99), 0x7bff);
  EXPECT_EQ(narrow_f16(65520), 0x7c00);
}

TEST(HalfFloats, AreConverted) {
  expect_all<float, uint16_t, uint16_t>("cvt.f32.f16 %f0, %h1;", [](uint16_t x, uint16_t) {
    return static_cast<float>(wide_f16(x));
  });
  expect_all<uint16_t, float, float>("cvt.rn.f16.f32 %h0, %f1;",
                                     [](float x, float) { return narrow_f16(x); });
  expect_all<uint16_t, float, float>("cvt.rn.bf16.f32 %h0, %f1;",
                                     [](float x, float) { return narrow_bf16(x); });
  expect_all<uint32_t, float, float>("cvt.rn.f16x2.f32 %r0, %f1, %f2;", [](float x, float y) {
    return uint32_t{narrow_f16(x)} << 16 | narrow_f16(y);
  });
  expect_all<uint32_t, float, float>("cvt.rn.bf16x2.f32 %r0, %f1, %f2;", [](float x, float y) {
    return uint32_t{narrow_bf16(x)} << 16 | narrow_bf16(y);
  });
}

// Every sum, product and fused product of a table, by a wider format than the machine's.
template <class Wide, class Narrow>
void expect_half_arithmetic(const std::string& type, Wide wide, Narrow narrow) {
  const auto two = [&](const std::string& op, auto&& f) {
    expect_all<uint16_t, uint16_t, uint16_t>(
        op + "." + type + " %h0, %h1, %h2;", [&](uint16_t x, uint16_t y) {
          return narrow(static_cast<double>(f(wide(x), wide(y))), Rounding::rn);
        });
    expect_all<uint32_t, uint16_t, uint16_t>(
        "mov.b32 %r1, {%h1, %h2};\nmov.b32 %r2, {%h2, %h3};\n" + op + "." + type +
            "x2 %r0, %r1, %r2;",
        [&](uint16_t x, uint16_t y) {
          const auto of = [&](uint16_t a, uint16_t b) {
            return uint32_t{narrow(static_cast<double>(f(wide(a), wide(b))), Rounding::rn)};
          };
          return of(y, kThird<uint16_t>) << 16 | of(x, y);
        });
  };
  two("add", [](long double x, long double y) { return x + y; });
  two("sub", [](long double x, long double y) { return x - y; });
  two("mul", [](long double x, long double y) { return x * y; });
  two("min", [](double x, double y) { return std::fmin(x, y); });
  expect_all<uint16_t, uint16_t, uint16_t>(
      "fma.rn." + type + " %h0, %h1, %h2, %h3;", [&](uint16_t x, uint16_t y) {
        return narrow(wide(x) * wide(y) + wide(kThird<uint16_t>), Rounding::rn);
      });
  expect_all<uint16_t, uint16_t, uint16_t>("neg." + type + " %h0, %h1;", [](uint16_t x, uint16_t) {
    return static_cast<uint16_t>(x ^ 0x8000);
  });
  expect_all<uint32_t, uint16_t, uint16_t>(
      "setp.lt." + type + " %p1, %h1, %h2;\nselp.u32 %r0, 1, 0, %p1;",
      [&](uint16_t x, uint16_t y) { return uint32_t{wide(x) < wide(y)}; });
}

TEST(HalfFloats, AreRoundedOnceInArithmetic) {
  expect_half_arithmetic("f16", wide_f16, narrow_f16);
  expect_half_arithmetic("bf16", wide_bf16, narrow_bf16);
  // 7 * 37 / 256 is a tie, which 2^-60 less decides, and 9 * 29 / 256 one that 2^-60 more decides;
  // a double does not hold both.
  EXPECT_EQ(one_result("mov.u16 %h1, 0x40e0;\nmov.u16 %h2, 0x3e14;\nmov.u16 %h3, 0xa180;\n"
                       "fma.rn.bf16 %h4, %h1, %h2, %h3;\nmov.b32 %r0, {%h4, 0};"),
            0x3f81u);
  EXPECT_EQ(one_result("mov.u16 %h1, 0x4110;\nmov.u16 %h2, 0x3de8;\nmov.u16 %h3, 0x2180;\n"
                       "fma.rn.bf16 %h4, %h1, %h2, %h3;\nmov.b32 %r0, {%h4, 0};"),
            0x3f83u);
}

}  // namespace
}  // namespace ringwood::ptx
