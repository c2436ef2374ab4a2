// The two sides of shared memory's ring by hand, one after the other.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "transports/shm/ring_ends.h"

namespace ringwood::shm {
namespace {

constexpr size_t kRing = size_t{1} << 20;

// A direction of one direction, with a ring.
class Desk {
 public:
  // Writes messages until one does not fit in whole; how many did.
  int fill(size_t bytes) {
    const std::vector<std::byte> data(bytes);
    for (int written = 0;; ++written) {
      bool plausible = writer.start(bytes);
      const uint64_t start = writer.head();
      size_t done = 0;
      while (done < bytes && !writer.full(plausible)) {
        done += writer.write(data.data() + done, bytes - done);
      }
      EXPECT_TRUE(plausible);
      if (done < bytes) return written;
      starts.push_back({start, writer.head()});
    }
  }

  // Of a message: where it begins in the ring, and the head after it.
  struct Extent {
    uint64_t start, head;
  };
  std::unique_ptr<Direction> direction = std::make_unique<Direction>();
  std::vector<std::byte> ring = std::vector<std::byte>(kRing);
  RingWriter writer{*direction, ring.data(), kRing};
  RingReader reader{*direction, ring.data(), kRing};
  std::vector<Extent> starts;
};

TEST(ShmRing, WhoWaitsForRoomIsWokenWhateverTheSizeOfMessages) {
  for (const size_t bytes : {size_t{100}, size_t{4} << 10, size_t{32} << 10, size_t{100} << 10,
                             size_t{127} << 10, size_t{128} << 10, size_t{500} << 10}) {
    Desk desk;
    const int messages = desk.fill(bytes);
    ASSERT_GE(messages, 1) << bytes;
    bool plausible = true;
    size_t read = 0, woken_after = 0;
    for (const Desk::Extent& message : desk.starts) {
      ASSERT_TRUE(desk.reader.start(message.start, message.head)) << bytes;
      for (size_t done = 0; done < bytes;) {
        const size_t piece = desk.reader.arrived(bytes - done, plausible).size();
        ASSERT_TRUE(plausible && piece > 0) << bytes;
        done += piece;
        read += piece;
        if (desk.reader.take(piece, done == bytes) && woken_after == 0) woken_after = read;
      }
    }
    EXPECT_GT(woken_after, size_t{0}) << "messages of " << bytes << " B";
    EXPECT_LE(woken_after, std::max(kRing / 4, bytes)) << "messages of " << bytes << " B";
  }
}

}  // namespace
}  // namespace ringwood::shm
