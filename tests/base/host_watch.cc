// A host that is gone, and a peer that does not read; namespaces show the former (tcp.cc,
// dark_hosts.cc).
#include "transports/base/host_watch.h"
#include "tests/support/connection.h"
#include "tests/support/patience.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <thread>
#include <vector>

#include "transports/base/owned_fd.h"

namespace ringwood {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

uint32_t segments_sent(const OwnedFd& fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  EXPECT_EQ(::getsockopt(fd.get(), IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
  return info.tcpi_segs_out;
}

TEST(HostWatch, KeepsAnIdleConnectionAlive) {
  const auto ends = connection();
  keep_alive(ends[0].get(), seconds(1), seconds(3));
  const uint32_t before = segments_sent(ends[0]);
  const Deadline limit = testing::patiently();
  while (segments_sent(ends[0]) < before + 2 && !limit.passed())
    std::this_thread::sleep_for(milliseconds(20));
  EXPECT_GE(segments_sent(ends[0]), before + 2) << "nothing was sent";
  char none = 0;
  EXPECT_EQ(::recv(ends[1].get(), &none, 1, MSG_DONTWAIT), -1) << "and nothing of it is data";
}

TEST(HostWatch, WaitsForAPeerThatDoesNotRead) {
  const milliseconds patience(300);
  const auto ends = connection();
  keep_alive(ends[0].get(), kDataIdle, patience);
  HostWatch watch(patience);
  std::vector<char> data(1 << 20);
  uint64_t sent = 0;
  for (const Deadline limit = Deadline::after(20 * patience); !limit.passed();) {
    const ssize_t n = ::send(ends[0].get(), data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) sent += static_cast<uint64_t>(n);
    ASSERT_FALSE(watch.gone(ends[0].get(), Clock::now())) << "after " << sent << " bytes";
    std::this_thread::sleep_for(milliseconds(3));
  }
  // All of it is still to be had.
  while (sent > 0) {
    const ssize_t n = ::recv(ends[1].get(), data.data(), std::min<size_t>(sent, data.size()), 0);
    ASSERT_GT(n, 0);
    sent -= static_cast<uint64_t>(n);
  }
}

TEST(HostWatch, KnowsNothingOfWhatIsNoTcp) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  HostWatch watch(milliseconds(16));
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(watch.gone(ends[0], Clock::now()));
    std::this_thread::sleep_for(milliseconds(5));
  }
  for (int end : ends) ::close(end);
}

}  // namespace
}  // namespace ringwood
