// Real sockets: ranks that are far away get in while thousands of strangers come, stay silent, and
// come again as soon as they are dropped.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "tests/support/patience.h"
#include "transports/base/descriptors.h"
#include "transports/base/fork_guard.h"
#include "transports/bootstrap/handshake_steps.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/sockets.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

constexpr auto kRoundTrip = std::chrono::milliseconds(150);

class SilentCrowd {
 public:
  SilentCrowd(const NetAddress& at, size_t size)
      : at_(resolve(at.host, at.port).front()), all_(size, {-1, POLLIN, 0}) {
    for (pollfd& one : all_) connect_again(one);
    thread_ = std::thread([this] { run(); });
  }
  ~SilentCrowd() {
    over_ = true;
    thread_.join();
    for (const pollfd& one : all_) close_connection(one.fd);
  }

 private:
  void run() {
    while (!over_) {
      poll(all_.data(), all_.size(), 10);
      for (pollfd& one : all_)
        if (one.fd < 0 || one.revents != 0) connect_again(one);
    }
  }

  // Does not wait for the end of it.
  void connect_again(pollfd& one) {
    close_connection(one.fd);
    one.revents = 0;
    one.fd = open_guarded(
        [&] { return socket(at_.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
    if (one.fd >= 0 && connect(one.fd, at_.get(), at_.bytes) != 0 && errno != EINPROGRESS) {
      close_connection(one.fd);
      one.fd = -1;
    }
  }

  const SocketAddress at_;
  std::vector<pollfd> all_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// As many as this machine lets one process have at both ends, up to 10,000.
size_t crowd_size() {
  for (size_t size = 10'000; size > 1'000; size /= 2) {
    try {
      make_room_for_descriptors(size + 3'000, "a test");
      return size;
    } catch (const Error&) {
    }
  }
  return 1'000;
}

// A message and its answer take a round trip, as over a long line.
Status shake_from_afar(int fd, const Identity& me, const Greeting& greeting) {
  const auto read = [&](Bytes& message) {
    for (size_t have = 0; have < message.size();) {
      pollfd one{fd, POLLIN, 0};
      if (poll(&one, 1, patiently().left_ms()) != 1) return false;
      const ssize_t got = recv(fd, message.data() + have, message.size() - have, 0);
      if (got <= 0) return false;
      have += static_cast<size_t>(got);
    }
    return true;
  };
  DialSteps steps(me, greeting);
  Bytes said = steps.hello();
  for (;;) {
    if (send(fd, said.data(), said.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(said.size()))
      return Error(ErrorCode::network, "dropped");
    if (steps.wanted() == 0) return steps.result();
    Bytes heard(steps.wanted());
    if (!read(heard)) return Error(ErrorCode::network, "dropped");
    std::this_thread::sleep_for(kRoundTrip);  // what is tested is a peer that takes so long
    said = steps.take(heard);
    if (said.empty()) return steps.result();
  }
}

// As dial() does it.
Result<int> dial_from_afar(const NetAddress& at, const Identity& me, const Greeting& greeting) {
  const Deadline deadline = patiently();
  for (Backoff backoff; !deadline.passed(); backoff.sleep(deadline)) {
    const Connected connected = connect_once(resolve(at.host, at.port), deadline);
    if (connected.fd < 0) continue;
    const Status shaken = shake_from_afar(connected.fd, me, greeting);
    if (shaken) return connected.fd;
    close_connection(connected.fd);
    if (shaken.error().code != ErrorCode::network) return shaken.error();
  }
  return Error(ErrorCode::timeout, "it was dropped each time");
}

TEST(FarPeers, AllGetInThroughASilentCrowdThatComesAgain) {
  constexpr int kRanks = 201;
  Identity me;
  me.key = random_key();
  me.session = random_session();
  me.size = kRanks;
  const size_t strangers = crowd_size();
  const auto listener = listen(me, "127.0.0.1", Options{});
  const SilentCrowd crowd(listener->address(), strangers);
  std::vector<std::thread> diallers;
  std::atomic<int> in{0};
  for (int rank = 1; rank < kRanks; ++rank)
    diallers.emplace_back([&, rank] {
      Identity its = me;
      its.rank = rank;
      auto fd = dial_from_afar(listener->address(), its, {Purpose::control, 0, rank, 0});
      if (!fd.ok()) return;
      ++in;
      close_connection(*fd);
    });
  int taken = 0;
  for (int rank = 1; rank < kRanks; ++rank) {
    auto fd = listener->take({Purpose::control, 0, rank, 0}, patiently());
    if (!fd.ok()) break;
    ++taken;
    close_connection(*fd);
  }
  for (std::thread& dialler : diallers) dialler.join();
  EXPECT_EQ(taken, kRanks - 1);
  EXPECT_EQ(in, kRanks - 1);
}

}  // namespace
}  // namespace ringwood
