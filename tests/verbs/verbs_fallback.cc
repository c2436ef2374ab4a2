// The connection beside the queue pairs, when everything has to go over it.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "transports/verbs/fallback/fallback_connection.h"

namespace ringwood::verbs {
namespace {

std::pair<OwnedFd, OwnedFd> pair() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {OwnedFd(ends[0]), OwnedFd(ends[1])};
}

std::vector<std::byte> payload(uint64_t number, size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(number * 7 + i);
  return data;
}

// As write_pieces() does: there is always something queued, up to a bound.
TEST(VerbsFallback, KeepsNoMoreThanIsQueued) {
  constexpr size_t kMaxQueued = 256 << 10, kFrames = 2000;
  auto [here, there] = pair();
  FallbackConnection out(std::move(here)), in(std::move(there));
  uint64_t sent = 0, arrived = 0;
  size_t most = 0;
  while (arrived < kFrames) {
    while (sent < kFrames && out.queued() < kMaxQueued) {
      const auto data = payload(sent, 1 + sent * 977 % kMaxPayload);
      out.queue({.type = FrameType::data, .position = sent++}, data);
    }
    out.flush();
    most = std::max(most, out.memory());
    in.receive([&](const Frame& frame, std::span<const std::byte> bytes) {
      EXPECT_EQ(frame.position, arrived);
      const auto expected = payload(arrived, 1 + arrived * 977 % kMaxPayload);
      EXPECT_TRUE(std::ranges::equal(bytes, expected));
      ++arrived;
      return true;
    });
    ASSERT_FALSE(in.closed());
  }
  EXPECT_EQ(out.queued(), 0u);
  EXPECT_LE(most, 4 * kMaxQueued);
}

// When data goes over RDMA again, a few frames are all that there is.
TEST(VerbsFallback, GivesMemoryBackWhenItIsNotNeeded) {
  auto [here, there] = pair();
  FallbackConnection out(std::move(here)), in(std::move(there));
  const auto data = payload(0, kMaxPayload);
  size_t frames = 0;
  const auto take = [&](const Frame&, std::span<const std::byte>) { return ++frames > 0; };
  for (int i = 0; i < 5; ++i) out.queue({.type = FrameType::data}, data);
  out.flush();
  out.trim();
  EXPECT_GT(out.queued(), 0u) << "what was not sent is kept";
  for (; frames < 5; out.flush()) in.receive(take);
  out.trim();
  EXPECT_EQ(out.memory(), 0u);
  out.queue({.type = FrameType::credit});
  out.flush();
  in.receive(take);
  EXPECT_EQ(frames, 6u);
}

}  // namespace
}  // namespace ringwood::verbs
