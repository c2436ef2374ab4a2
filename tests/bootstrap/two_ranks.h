// Two ranks of one job, which a test may spoil, and a handshake between them.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "tests/support/patience.h"
#include "transports/bootstrap/handshake.h"
#include "transports/bootstrap/handshake_steps.h"

namespace ringwood::testing {

inline constexpr Greeting kGreeting{purpose_of("any"), 3, 1, 0};

struct Two {
  Identity dialler, acceptor;
};

inline Two two_ranks(int size = 4) {
  Two two;
  two.dialler.key = random_key();
  two.dialler.session = random_session();
  two.dialler.rank = kGreeting.from;
  two.dialler.size = size;
  two.dialler.job.ids[3] = "Slurm job 77";
  two.dialler.job.ranks = size;
  two.dialler.job.attempt = 1;
  two.dialler.job.users = 5;
  two.dialler.job.user = 1000;
  two.acceptor = two.dialler;
  two.acceptor.rank = kGreeting.to;
  return two;
}

class SocketPair {
 public:
  SocketPair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds_), 0); }
  ~SocketPair() { close(0), close(1); }
  int operator[](int i) const { return fds_[i]; }
  void close(int i) {
    if (fds_[i] >= 0) ::close(fds_[i]);
    fds_[i] = -1;
  }

 private:
  int fds_[2];
};

// All of `message`, waiting for it; false if the other side closes before.
inline bool receive(int fd, std::span<uint8_t> message) {
  while (!message.empty()) {
    pollfd readable{fd, POLLIN, 0};
    EXPECT_EQ(poll(&readable, 1, patiently().left_ms()), 1) << "the dialler is silent";
    const ssize_t got = recv(fd, message.data(), message.size(), 0);
    if (got <= 0) return false;
    message = message.subspan(static_cast<size_t>(got));
  }
  return true;
}

// The acceptor's steps, by a thread that waits. `answer` sends what they answer; false: no more.
template <class Send>
Result<Greeting> accept_handshake(int fd, const Identity& me, Send answer) {
  AcceptSteps steps(me);
  while (steps.wanted() > 0) {
    Bytes message(steps.wanted());
    if (!receive(fd, message)) return Error(ErrorCode::network, "the dialler closed");
    if (!answer(steps.take(message))) return Error(ErrorCode::network, "the acceptor closed");
  }
  return steps.result();
}

inline Result<Greeting> accept_handshake(int fd, const Identity& me) {
  return accept_handshake(fd, me, [fd](const Bytes& answer) {
    send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    return true;
  });
}

struct Outcome {
  Status dialled;
  Result<Greeting> accepted = Greeting{};
};

inline Outcome shake(const Two& two, const Greeting& greeting) {
  SocketPair pair;
  Outcome outcome;
  std::thread acceptor([&] { outcome.accepted = accept_handshake(pair[1], two.acceptor); });
  outcome.dialled = dial_handshake(pair[0], two.dialler, greeting, patiently());
  pair.close(0);
  acceptor.join();
  return outcome;
}

}  // namespace ringwood::testing
