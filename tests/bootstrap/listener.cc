// Listening and dialling, with and without strangers at the door.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/bootstrap/free_port.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/sockets.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

struct Job {
  explicit Job(int ranks) : size(ranks), key(random_key()), session(random_session()) {}
  Identity identity(int rank) const {
    Identity me;
    me.key = key;
    me.session = session;
    me.rank = rank;
    me.size = size;
    return me;
  }
  int size;
  std::array<uint8_t, 32> key;
  std::array<uint8_t, 16> session;
};

// Owns what take() or dial() gave; fails the test when it gave an error.
class Connection {
 public:
  explicit Connection(Result<int> fd) {
    EXPECT_TRUE(fd.ok()) << fd.error().message();
    if (fd.ok()) fd_ = *fd;
  }
  ~Connection() { close_connection(fd_); }
  Connection(Connection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

void expect_joined(const Connection& a, const Connection& b, int mark) {
  ASSERT_EQ(send(a.fd(), &mark, sizeof(mark), 0), static_cast<ssize_t>(sizeof(mark)));
  int got = 0;
  pollfd one{b.fd(), POLLIN, 0};
  ASSERT_EQ(poll(&one, 1, patiently().left_ms()), 1);
  ASSERT_EQ(recv(b.fd(), &got, sizeof(got), 0), static_cast<ssize_t>(sizeof(got)));
  EXPECT_EQ(got, mark);
}

int stranger(const NetAddress& to) {
  Connected connected = connect_once(resolve(to.host, to.port), patiently());
  EXPECT_GE(connected.fd, 0) << connected.failure;
  return connected.fd;
}

TEST(Listener, GivesEveryConnectionToTheRightTaker) {
  constexpr int kRanks = 6, kChannels = 3;
  Job job(kRanks);
  auto listener = listen(job.identity(0), "127.0.0.1", Options{});
  std::vector<std::thread> diallers;
  for (int from = 1; from < kRanks; ++from) {
    diallers.emplace_back([&, from] {
      for (uint16_t channel = 0; channel < kChannels; ++channel) {
        Connection c(dial(listener->address(), job.identity(from),
                          {purpose_of("any"), channel, from, 0}, patiently()));
        int mark = 100 * from + channel;
        EXPECT_EQ(send(c.fd(), &mark, sizeof(mark), 0), static_cast<ssize_t>(sizeof(mark)));
      }
    });
  }
  for (int from = kRanks - 1; from > 0; --from) {
    for (uint16_t channel = kChannels; channel-- > 0;) {
      Connection c(listener->take({purpose_of("any"), channel, from, 0}, patiently()));
      int mark = 0;
      pollfd one{c.fd(), POLLIN, 0};
      ASSERT_EQ(poll(&one, 1, patiently().left_ms()), 1);
      ASSERT_EQ(recv(c.fd(), &mark, sizeof(mark), 0), static_cast<ssize_t>(sizeof(mark)));
      EXPECT_EQ(mark, 100 * from + channel);
    }
  }
  for (auto& dialler : diallers) dialler.join();
}

TEST(Listener, ConnectionsAreReadyForTheDataPath) {
  Job job(2);
  auto listener = listen(job.identity(0), "127.0.0.1", Options{});
  Greeting greeting{purpose_of("any"), 0, 1, 0};
  Connection dialled(dial(listener->address(), job.identity(1), greeting, patiently()));
  Connection taken(listener->take(greeting, patiently()));
  for (int fd : {dialled.fd(), taken.fd()}) {
    int no_delay = 0;
    socklen_t bytes = sizeof(no_delay);
    EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, &bytes), 0);
    EXPECT_NE(no_delay, 0);
    EXPECT_NE(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  }
  listener.reset();
  expect_joined(dialled, taken, 42);
}

TEST(Listener, MissingPeerIsNamedAtTheDeadline) {
  Job job(4);
  auto listener = listen(job.identity(0), "127.0.0.1", Options{});
  auto taken = listener->take({purpose_of("any"), 0, 3, 0}, within(0.05));
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, ErrorCode::timeout);
  EXPECT_EQ(taken.error().peer, 3);
  EXPECT_PRED2(contains, taken.error().cause,
               "rank 3 did not connect to " + to_string(listener->address()));
}

TEST(Listener, NewerConnectionOfAPeerWins) {
  Job job(2);
  auto listener = listen(job.identity(0), "127.0.0.1", Options{});
  Greeting greeting{purpose_of("any"), 0, 1, 0};
  Connection first(dial(listener->address(), job.identity(1), greeting, patiently()));
  Connection second(dial(listener->address(), job.identity(1), greeting, patiently()));
  char byte = 0;
  pollfd one{first.fd(), POLLIN, 0};
  ASSERT_EQ(poll(&one, 1, patiently().left_ms()), 1) << "the first is closed";
  EXPECT_EQ(recv(first.fd(), &byte, 1, 0), 0);
  expect_joined(second, Connection(listener->take(greeting, patiently())), 7);
}

TEST(Listener, StrangersDoNotKeepPeersOut) {
  constexpr int kRanks = 9, kStrangers = 300;
  Job job(kRanks);
  auto listener = listen(job.identity(0), "127.0.0.1", Options{});
  std::atomic<bool> over{false};
  // Scanners, web clients, half a handshake, and those who open and say nothing.
  std::thread crowd([&] {
    std::mt19937 random(20261121);
    std::vector<int> open;
    for (int i = 0; i < kStrangers || !over; ++i) {
      int fd = stranger(listener->address());
      std::string bytes(random() % 200, '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      if (i % 4 == 1) bytes = "GET / HTTP/1.0\r\n\r\n";
      if (i % 4 != 2) send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      open.push_back(fd);
      if (open.size() > 100) {
        close_connection(open.front());
        open.erase(open.begin());
      }
    }
    for (int fd : open) close_connection(fd);
  });
  std::vector<std::thread> diallers;
  std::vector<Connection> dialled, taken;
  std::mutex mutex;
  for (int from = 1; from < kRanks; ++from) {
    diallers.emplace_back([&, from] {
      Connection c(dial(listener->address(), job.identity(from), {purpose_of("any"), 0, from, 0},
                        patiently()));
      std::lock_guard lock(mutex);
      dialled.push_back(std::move(c));
    });
  }
  for (int from = 1; from < kRanks; ++from) {
    taken.emplace_back(listener->take({purpose_of("any"), 0, from, 0}, patiently()));
  }
  over = true;
  for (auto& dialler : diallers) dialler.join();
  crowd.join();
}

TEST(Listener, ManyPeersAtOnceAllGetIn) {
  constexpr int kRanks = 200;  // more than may be pending
  Job job(kRanks);
  auto listener = listen(job.identity(0), "127.0.0.1", Options{});
  std::vector<std::thread> diallers;
  std::atomic<int> joined{0};
  for (int from = 1; from < kRanks; ++from) {
    diallers.emplace_back([&, from] {
      Connection c(dial(listener->address(), job.identity(from), {Purpose::control, 0, from, 0},
                        patiently()));
      joined += c.fd() >= 0;
    });
  }
  for (int from = 1; from < kRanks; ++from) {
    Connection c(listener->take({Purpose::control, 0, from, 0}, patiently()));
  }
  for (auto& dialler : diallers) dialler.join();
  EXPECT_EQ(joined, kRanks - 1);
}

TEST(Listener, LogsTheFirstStrangerAndCountsTheRest) {
  Processes one(1, [](int, const Reporter& reporter) {
    Job job(2);
    log_configure(LogLevel::info, 0);
    auto listener = listen(job.identity(0), "127.0.0.1", Options{});
    for (int i = 0; i < 5; ++i) {
      int fd = stranger(listener->address());
      std::string bytes(66, 'x');
      send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      char byte = 0;
      pollfd poller{fd, POLLIN, 0};
      poll(&poller, 1, patiently().left_ms());
      EXPECT_LE(recv(fd, &byte, 1, 0), 0);
      close_connection(fd);
    }
    listener.reset();
    reporter.say("done");
  });
  EXPECT_EQ(one.line(0), "done");
  std::string log = one.log_of(0);
  size_t first = log.find("what it sent is not a Ringwood handshake; more are only counted");
  EXPECT_NE(first, log.npos) << log;
  EXPECT_EQ(log.find("what it sent is no", first + 1), log.npos) << log;
  EXPECT_PRED2(contains, log, "5 connections were refused in all");
}

// Neighbours.
Options two_free_ports() {
  Options options;
  do {
    options.ports.first = free_port();
    options.ports.last = options.ports.first + 1;
  } while (free_port(options.ports.last) == 0);
  return options;
}

TEST(Listener, PortRangeIsKeptAndNamedWhenItIsFull) {
  Job job(2);
  const Options options = two_free_ports();
  auto first = listen(job.identity(0), "127.0.0.1", options);
  EXPECT_EQ(first->address().port, options.ports.first);
  auto second = listen(job.identity(0), "127.0.0.1", options);
  EXPECT_EQ(second->address().port, options.ports.last);
  Error error = error_of([&] { listen(job.identity(0), "127.0.0.1", options); });
  EXPECT_EQ(error.code, ErrorCode::network);
  EXPECT_PRED2(contains, error.cause, "ports " + std::to_string(options.ports.first) + " to ");
  EXPECT_PRED2(contains, error.cause, "Address already in use; widen RINGWOOD_PORT_RANGE");
  Error elsewhere = error_of([&] { listen(job.identity(0), "192.0.2.222", Options{}); });
  EXPECT_PRED2(contains, elsewhere.cause,
               "cannot listen on 192.0.2.222: bind: Cannot assign requested address");
}

TEST(Dial, WaitsForAListenerThatComesLate) {
  Job job(2);
  Options options;
  options.ports.first = options.ports.last = free_port();
  Greeting greeting{purpose_of("any"), 0, 1, 0};
  std::atomic<bool> dialling{false};
  std::thread dialler([&] {
    dialling = true;
    Connection c(dial({"127.0.0.1", options.ports.first}, job.identity(1), greeting, patiently()));
  });
  while (!dialling) std::this_thread::yield();
  auto listener = listen(job.identity(0), "127.0.0.1", options);
  Connection c(listener->take(greeting, patiently()));
  dialler.join();
}

TEST(Dial, SaysWhereAndWhy) {
  Job job(2), other(2);
  Greeting greeting{purpose_of("any"), 0, 1, 0};
  auto refused = dial({"127.0.0.1", 1}, job.identity(1), greeting, within(0.1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::network);
  EXPECT_EQ(refused.error().peer, 0);
  EXPECT_PRED2(contains, refused.error().cause, "cannot connect to rank 0 at 127.0.0.1:1 within ");
  EXPECT_PRED2(contains, refused.error().cause, "Connection refused");
  // A wrong key is final: no use in trying until the deadline.
  auto listener = listen(job.identity(0), "127.0.0.1", Options{});
  auto wrong = dial(listener->address(), other.identity(1), greeting, patiently());
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::invalid_argument);
  EXPECT_PRED2(contains, wrong.error().cause, "the keys differ");
  // A socket that listens, but never answers.
  int silent = listen_on(resolve("127.0.0.1", 0).front());
  sockaddr_in at{};
  socklen_t bytes = sizeof(at);
  getsockname(silent, reinterpret_cast<sockaddr*>(&at), &bytes);
  auto mute = dial({"127.0.0.1", ntohs(at.sin_port)}, job.identity(1), greeting, within(0.1));
  close_connection(silent);
  ASSERT_FALSE(mute.ok());
  EXPECT_EQ(mute.error().code, ErrorCode::timeout);
}

}  // namespace
}  // namespace ringwood
