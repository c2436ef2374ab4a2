// Processes of this host at the Unix socket where its ranks meet for shared memory.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "tests/support/errors.h"
#include "tests/support/late_wakes.h"
#include "tests/support/processes.h"
#include "tests/support/told_store.h"
#include "transports/base/log.h"
#include "transports/bootstrap/handshake.h"
#include "transports/bootstrap/store.h"
#include "transports/mesh.h"
#include "transports/shm/unix_socket.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

// Lets `visit` see the name of the socket before any rank of the host does.
class DoorStore final : public Store {
 public:
  using Visit = std::function<void(const std::string& name)>;
  DoorStore(std::shared_ptr<Store> store, Visit visit)
      : store_(std::move(store)), visit_(std::move(visit)) {}
  void set(const std::string& key, const std::string& value, Deadline deadline) override {
    if (key.find("shm/door/") != key.npos) visit_(value);
    store_->set(key, value, deadline);
  }
  std::string get(const std::string& key, Deadline deadline) override {
    return store_->get(key, deadline);
  }
  bool has(const std::string& key, Deadline deadline) override {
    return store_->has(key, deadline);
  }
  int64_t add(const std::string& key, int64_t delta, Deadline deadline) override {
    return store_->add(key, delta, deadline);
  }
  void remove(const std::string& key) override { store_->remove(key); }

 private:
  const std::shared_ptr<Store> store_;
  const Visit visit_;
};

constexpr std::chrono::seconds kSetUp{120};

// All ranks as threads; returns what the pairs use.
std::string meet(int size, const DoorStore::Visit& visit) {
  auto store = std::make_shared<DoorStore>(memory_store(), visit);
  Options options;
  options.transports = {"shm"};
  options.init_timeout = kSetUp;
  std::vector<std::thread> ranks;
  std::mutex mutex;
  std::string ways;
  for (int rank = 0; rank < size; ++rank)
    ranks.emplace_back([&, rank] {
      std::string said;
      try {
        said = make_mesh(store, rank, size, options, {})->transports_in_use();
      } catch (const Error& error) {
        said = error.message();
      }
      std::lock_guard lock(mutex);
      if (ways.find(said) == ways.npos) ways += said;
    });
  for (std::thread& rank : ranks) rank.join();
  return ways;
}

TEST(LocalStrangers, WhoSaysNothingDelaysNobody) {
  std::vector<OwnedFd> silent;
  // One after the other, they would take 5 s each, and all of them longer than set-up may.
  constexpr int kSilent = 40;
  static_assert(kSilent * 5 > kSetUp.count());
  EXPECT_EQ(meet(3,
                 [&](const std::string& name) {
                   for (int i = 0; i < kSilent; ++i)
                     silent.push_back(shm::connect_to(name, patiently()));
                 }),
            "shm");
}

TEST(LocalStrangers, GarbageByTheDozenKeepsNobodyOut) {
  std::vector<OwnedFd> crowd;
  EXPECT_EQ(meet(3,
                 [&](const std::string& name) {
                   for (int i = 0; i < 200; ++i) {
                     crowd.push_back(shm::connect_to(name, patiently()));
                     const std::string bytes(i % 90, static_cast<char>(i));
                     if (i > 0 && i % 3 > 0)
                       (void)!send(crowd.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
                   }
                 }),
            "shm");
}

TEST(LocalStrangers, AnotherUserIsTurnedAwayAtOnce) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  int link[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, link), 0);
  // Forked before there are threads; reads the name, and tells how its connection ended.
  const pid_t stranger = fork();
  if (stranger == 0) {
    char name[128] = {};
    if (setuid(65534) != 0 || read(link[1], name, sizeof(name) - 1) <= 0) _exit(1);
    OwnedFd door = shm::connect_to(name, patiently());
    (void)!write(link[1], "c", 1);
    const auto began = Clock::now();
    pollfd one{door.get(), POLLIN, 0};
    char bytes[256];  // it hears why
    ssize_t got = 1;
    while (got > 0 && poll(&one, 1, patiently().left_ms()) == 1)
      got = recv(door.get(), bytes, sizeof bytes, 0);
    const bool closed = got <= 0;
    const double took = closed ? seconds_since(began) : 1e9;
    (void)!write(link[1], &took, sizeof took);
    _exit(0);
  }
  const LateWakes wakes;
  char connected = '?';
  EXPECT_EQ(meet(2,
                 [&](const std::string& name) {
                   EXPECT_EQ(write(link[0], name.data(), name.size()),
                             static_cast<ssize_t>(name.size()));
                   EXPECT_EQ(read(link[0], &connected, 1), 1);
                 }),
            "shm");
  double took = 1e9;
  EXPECT_EQ(read(link[0], &took, sizeof took), static_cast<ssize_t>(sizeof took));
  EXPECT_LT(took, seconds_in(wakes.stretch(std::chrono::seconds(4))))
      << "a silent one of this user has 5 s";
  waitpid(stranger, nullptr, 0);
  close(link[0]);
  close(link[1]);
}

TEST(LocalStrangers, AnotherUserAndTheRanksBothSayWhy) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  int link[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, link), 0);
  constexpr int kJob = 0, kStranger = 1;
  Processes both(2, [&](int who, const Reporter& reporter) {
    if (who == kJob) {
      log_configure(LogLevel::warn, 0);
      char connected = '?';
      return reporter.say(meet(2, [&](const std::string& name) {
        if (write(link[0], name.data(), name.size()) <= 0 || read(link[0], &connected, 1) != 1)
          throw std::runtime_error("the stranger is gone");
      }));
    }
    char name[128] = {};
    if (setuid(65534) != 0 || read(link[1], name, sizeof(name) - 1) <= 0) _exit(1);
    const OwnedFd door = shm::connect_to(name, patiently());
    if (write(link[1], "c", 1) != 1) _exit(1);
    Identity me;
    me.rank = 1;
    me.size = 2;
    const Status dialled =
        dial_handshake(door.get(), me, {purpose_of("shm"), 0, 1, 0}, patiently());
    reporter.say(dialled ? "let in" : dialled.error().cause);
  });
  EXPECT_EQ(both.line(kStranger),
            "the other side refused the connection: it is of user 0, this process of user 65534");
  EXPECT_EQ(both.line(kJob), "shm");
  EXPECT_TRUE(both.log_shows(kJob, "is of user 65534, not of user 0"));
  close(link[0]);
  close(link[1]);
}

}  // namespace
}  // namespace ringwood
