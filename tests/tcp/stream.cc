// One socket of a tcp link: sends from the user's memory, and how it ends.

#include "transports/tcp/stream.h"

#include <ifaddrs.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/support/connection.h"
#include "tests/support/link_talk.h"
#include "tests/support/patience.h"

namespace ringwood {
namespace {

TEST(Stream, SendsZeroCopyUntilTheKernelSaysThatItCopies) {
  std::array<OwnedFd, 2> ends = connection();
  EXPECT_FALSE(tcp::leaves_by_hardware(ends[0].get()));
  tcp::Stream out(std::move(ends[0]), true), in(std::move(ends[1]));
  ASSERT_TRUE(out.zero_copy()) << "the kernel knows no MSG_ZEROCOPY";
  EXPECT_FALSE(in.zero_copy());
  AbortGate gate;
  Fifo<uint64_t> sent, received;
  std::vector<std::byte> from = Pattern(0, 1, 0, 0).make(size_t{3} << 20), to(from.size() + 8);
  uint64_t small = 7;
  out.post_send({from.data(), from.size(), 0});
  out.post_send({reinterpret_cast<std::byte*>(&small), sizeof small, 1});
  in.post_receive({to.data(), from.size(), 0});
  in.post_receive({to.data() + from.size(), sizeof small, 1});
  const Deadline limit = testing::patiently();
  while ((sent.size() < 2 || received.size() < 2) && !limit.passed()) {
    ASSERT_NE(out.send(gate, sent), tcp::Outcome::failed);
    ASSERT_NE(in.receive(gate, received), tcp::Outcome::failed);
  }
  EXPECT_EQ(sent.size(), 2u) << "the kernel never finished with the memory";
  EXPECT_EQ(std::memcmp(to.data(), from.data(), from.size()), 0);
  EXPECT_EQ(std::memcmp(to.data() + from.size(), &small, sizeof small), 0);
  EXPECT_FALSE(out.zero_copy());
}

// Of a host's own addresses one may belong to a card.
TEST(Stream, LeavesTheHostByNoCardIfBothEndsAreHere) {
  ifaddrs* list = nullptr;
  ASSERT_EQ(::getifaddrs(&list), 0);
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* one = list; one; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET) continue;
    std::array<OwnedFd, 2> ends = connection(one->ifa_addr);
    EXPECT_FALSE(tcp::leaves_by_hardware(ends[0].get())) << one->ifa_name;
    EXPECT_FALSE(tcp::leaves_by_hardware(ends[1].get())) << one->ifa_name;
  }
}

// A link of several sockets whose peer has ended one of them.
TEST(Stream, AwaitsWhatAnotherSocketMayStillBring) {
  std::array<OwnedFd, 2> ends = connection();
  tcp::Stream in(std::move(ends[1]));
  AbortGate gate;
  Fifo<uint64_t> received;
  uint64_t got = 0;
  EXPECT_FALSE(in.may_finish()) << "nothing is wanted from it";
  in.post_receive({reinterpret_cast<std::byte*>(&got), sizeof got, 0});
  EXPECT_EQ(in.receive(gate, received), tcp::Outcome::blocked);
  EXPECT_TRUE(in.may_finish());
  ends[0] = OwnedFd();
  EXPECT_EQ(in.receive(gate, received), tcp::Outcome::failed);
  EXPECT_FALSE(in.may_finish());
}

TEST(Stream, SeversWhatTheKernelStillReads) {
  std::array<OwnedFd, 2> ends = connection();
  const int peer = ends[1].get();
  std::vector<std::byte> from(size_t{64} << 20);
  tcp::Stream out(std::move(ends[0]), true);
  AbortGate gate;
  Fifo<uint64_t> sent;
  out.post_send({from.data(), from.size(), 0});
  while (out.send(gate, sent) == tcp::Outcome::moved) continue;
  out.sever();
  std::vector<std::byte> to(from.size());
  ssize_t got = 0;
  while ((got = ::recv(peer, to.data(), to.size(), 0)) > 0) continue;
  EXPECT_EQ(got, -1) << "the connection ended as if all had been sent";
  EXPECT_EQ(errno, ECONNRESET);
}

}  // namespace
}  // namespace ringwood
