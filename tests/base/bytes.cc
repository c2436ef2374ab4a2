// The reader and the writer of bytes: the format, and where reading ends. What they make of damaged
// messages is in fuzz/decoders.cc.
#include "transports/base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace ringwood {
namespace {

enum class Colour : uint8_t { red = 1, green, blue };

struct Everything {
  uint16_t small = 0;
  int64_t large = 0;
  bool flag = false;
  Colour colour = Colour::red;
  std::array<uint8_t, 2> raw{};
  std::string text, blob;
  std::vector<uint16_t> list;
  std::optional<uint8_t> maybe;
};

void fields(auto& io, Everything& all) {
  io.number(all.small);
  io.number(all.large, -2, 5);
  io.number(all.flag);
  io.number(all.colour, Colour::red, Colour::blue);
  io.raw(all.raw);
  io.text(all.text, 8);
  io.blob(all.blob, 8);
  io.list(all.list, 3, [&](uint16_t& one) { io.number(one); });
  io.optional(all.maybe, [&](uint8_t& one) { io.number(one); });
}

const Everything kAll{0x1234, -2, true, Colour::blue, {7, 8}, "text", "\n", {1, 0x203}, 9};

TEST(Bytes, LieAsTheHeaderSays) {
  const uint8_t expected[] = {0x34, 0x12,                                      //
                              0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,  //
                              1,    3,    7,    8,                             //
                              4,    0,    0,    0,    't',  'e',  'x',  't',   //
                              1,    0,    0,    0,    '\n',                    //
                              2,    0,    0,    0,    1,    0,    3,    2,     //
                              1,    9};
  const std::string bytes = encode(kAll);
  EXPECT_EQ(bytes, std::string(std::begin(expected), std::end(expected)));
  std::vector<std::byte> appended(3);
  ByteWriter out(appended);
  Everything all = kAll;
  fields(out, all);
  EXPECT_EQ(out.size(), bytes.size());
  ASSERT_EQ(appended.size(), 3 + bytes.size());
  EXPECT_EQ(std::memcmp(appended.data() + 3, bytes.data(), bytes.size()), 0);
}

TEST(Bytes, OutOfRangeAreRefused) {
  struct Case {
    const char* name;
    void (*spoil)(Everything&);
  };
  const Case kCases[] = {
      {"below", [](Everything& all) { all.large = -3; }},
      {"above", [](Everything& all) { all.large = 6; }},
      {"enum below", [](Everything& all) { all.colour = Colour(0); }},
      {"enum above", [](Everything& all) { all.colour = Colour(4); }},
      {"blob", [](Everything& all) { all.blob = std::string(9, 'b'); }},
      {"list", [](Everything& all) { all.list.resize(4); }},
  };
  Everything copy;
  ASSERT_TRUE(decode(encode(kAll), copy));
  for (const Case& c : kCases) {
    Everything all = kAll;
    c.spoil(all);
    EXPECT_FALSE(decode(encode(all), copy)) << c.name;
  }
  std::string neither = encode(kAll);
  neither[10] = 2;
  EXPECT_FALSE(decode(neither, copy)) << "a bool is 0 or 1";
}

TEST(Bytes, OfTextsAreCutByTheWriterAndMadeFitToShowByTheReader) {
  Everything all = kAll, copy;
  all.text = "1234567\xc3\xa4";
  ASSERT_TRUE(decode(encode(all), copy));
  EXPECT_EQ(copy.text, "1234567") << "no half of a character";
  all.text = "a\x1b[2J\n\x7f";
  all.blob = all.text;
  ASSERT_TRUE(decode(encode(all), copy));
  EXPECT_EQ(copy.text, "a?[2J??");
  EXPECT_EQ(copy.blob, all.blob);
}

TEST(Bytes, AreNotReadBehindTheFirstFailure) {
  const std::string bytes("\x01\x02\x03\x04", 4);
  ByteReader in(bytes);
  EXPECT_EQ(in.number<uint16_t>(), 0x201);
  EXPECT_EQ(in.size(), 2u);
  EXPECT_EQ(in.number<uint32_t>(), 0u) << "two bytes are left";
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.number<uint8_t>(), 0) << "although there was one";
  EXPECT_EQ(in.take(1), "");
  EXPECT_EQ(in.take(0), "");
  EXPECT_FALSE(in.done());
}

TEST(Bytes, TakeNoMoreMemoryThanCame) {
  std::string bytes;
  ByteWriter(bytes).number(ByteLength{0xffffffff});
  bytes += "abc";
  std::string text;
  std::vector<uint16_t> list;
  ByteReader blob(bytes), elements(bytes);
  blob.blob(text, std::numeric_limits<size_t>::max());
  EXPECT_FALSE(blob.ok());
  EXPECT_EQ(text.capacity(), std::string().capacity());
  elements.list(list, std::numeric_limits<size_t>::max(),
                [&](uint16_t& one) { elements.number(one); });
  EXPECT_FALSE(elements.ok());
  EXPECT_EQ(list.capacity(), 0u);
}

}  // namespace
}  // namespace ringwood
