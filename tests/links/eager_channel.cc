// Messages between two threads that share two directions: every size class, with the data beside
// the head or after it, over and over in the same cells.

#include "transports/eager_channel.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace ringwood {
namespace {

struct Message {
  size_t bytes;
  bool late;
};

// By both ends alike, from the message's number.
Message message(uint64_t number) {
  static constexpr size_t kSizes[] = {
      0,   1,   8,    16,   17,  47,  48, 49, 96,   383,
      384, 385, 1000, 4096, 100, 256, 2,  64, 8191, kEagerSlotBytes};
  return {kSizes[number % std::size(kSizes)], number % 3 == 0};
}

std::vector<std::byte> text_of(int writer, uint64_t number, size_t bytes) {
  std::vector<std::byte> text(bytes);
  for (size_t i = 0; i < bytes; ++i) text[i] = std::byte(number * 31 + i * 7 + writer * 101);
  return text;
}

int32_t core_of(int writer, uint64_t number) { return static_cast<int32_t>(2 * number) + writer; }

class Desk {
 public:
  Desk(EagerDirection& out, EagerDirection& in)
      : alarm_(armed_, nullptr), box_(out, in, alarm_, closed_) {}

  // Writes its messages and takes the other's; what was wrong with them.
  int correspond(int me, uint64_t messages) {
    int wrong = 0;
    for (uint64_t number = 0; number < messages; ++number) {
      const Message l = message(number);
      write(me, number, l);
      while (!box_.head(l.bytes)) std::this_thread::yield();
      wrong +=
          std::memcmp(box_.head(0), text_of(1 - me, number, kHeadBytes).data(), kHeadBytes) != 0;
      wrong += box_.core() != core_of(1 - me, number);
      wrong += l.bytes > 0 && !right_data(1 - me, number, l.bytes);
      box_.done(l.bytes);
    }
    return wrong;
  }

 private:
  void write(int me, uint64_t number, Message l) {
    const auto head = text_of(me, number, kHeadBytes), data = text_of(me, number, l.bytes);
    box_.runs_on(core_of(me, number));
    box_.write(head.data(), data.data(), l.late ? 0 : l.bytes);
    if (l.late && l.bytes > 0) box_.write_data(data.data(), l.bytes);
  }
  bool right_data(int writer, uint64_t number, size_t bytes) {
    std::byte room[kStampedBytes];
    std::span<const std::byte> data;
    while ((data = box_.data(bytes, room)).empty()) std::this_thread::yield();
    const auto expected = text_of(writer, number, bytes);
    return data.size() == bytes && std::memcmp(data.data(), expected.data(), bytes) == 0;
  }

  std::atomic<uint32_t> armed_{0}, closed_{0};
  Alarm alarm_;
  EagerChannel box_;
};

TEST(EagerChannel, MessagesOfEverySizeArriveWholeAndInOrder) {
  constexpr uint64_t kMessages = 3000;
  auto there = std::make_unique<EagerDirection>(), back = std::make_unique<EagerDirection>();
  Desk first(*there, *back), second(*back, *there);
  int wrong = -1;
  std::thread other([&] { wrong = second.correspond(1, kMessages); });
  EXPECT_EQ(first.correspond(0, kMessages), 0);
  other.join();
  EXPECT_EQ(wrong, 0);
}

TEST(EagerChannel, NothingIsThereBeforeItWasWritten) {
  auto there = std::make_unique<EagerDirection>(), back = std::make_unique<EagerDirection>();
  std::atomic<uint32_t> armed{0}, closed{0};
  Alarm alarm(armed, nullptr);
  EagerChannel writer(*there, *back, alarm, closed), reader(*back, *there, alarm, closed);
  const auto head = text_of(0, 0, kHeadBytes), data = text_of(0, 0, 1000);
  std::byte room[kStampedBytes];
  EXPECT_EQ(reader.head(1000), nullptr);
  writer.write(head.data(), nullptr, 0);
  ASSERT_NE(reader.head(1000), nullptr);
  for (size_t bytes : {8u, 100u, 1000u}) EXPECT_TRUE(reader.data(bytes, room).empty()) << bytes;
  writer.write_data(data.data(), 1000);
  EXPECT_EQ(reader.data(1000, room).size(), 1000u);
  reader.done(1000);
  EXPECT_EQ(reader.head(0), nullptr);
  EXPECT_FALSE(reader.closed());
  closed = 1;
  EXPECT_TRUE(reader.closed());
}

}  // namespace
}  // namespace ringwood
