// A job that starts and runs while strangers by the dozen are at every port it has: scanners, those
// who talk garbage, who stop half-way through a handshake, who drip, and who replay.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "collectives/communicator.h"
#include "tests/bootstrap/free_port.h"
#include "tests/bootstrap/strangers.h"
#include "tests/support/transports.h"
#include "transports/bootstrap/handshake_steps.h"
#include "transports/bootstrap/store.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> inodes;
  std::error_code gone;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.rfind("socket:[", 0) == 0) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

std::vector<int> listening_ports(pid_t pid) {
  const std::set<std::string> own = sockets_of(pid);
  std::vector<int> ports;
  std::ifstream file("/proc/net/tcp");
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::vector<std::string> f{std::istream_iterator<std::string>(fields), {}};
    if (f.size() > 9 && f[3] == "0A" && own.count(f[9]) > 0)
      ports.push_back(std::stoi(f[1].substr(f[1].find(':') + 1), nullptr, 16));
  }
  return ports;
}

class Crowd {
 public:
  Crowd(const Processes& job, int ranks) : job_(job), ranks_(ranks), thread_([this] { run(); }) {}
  ~Crowd() { leave(); }
  void leave() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::atomic<long> came{0};
  long most_descriptors = 0;
  size_t most_bytes = 0;

 private:
  static constexpr size_t kAtOnce = 96;

  void run() {
    std::mt19937 random(20261122);
    while (!over_) {
      for (int rank = 0; rank < ranks_; ++rank) {
        const pid_t pid = job_.pid(rank);
        for (int port : listening_ports(pid)) visit(port, random);
        most_descriptors = std::max(most_descriptors, static_cast<long>(sockets_of(pid).size()));
        most_bytes = std::max(most_bytes, resident_bytes(pid));
      }
      for (const auto& [one, drips] : inside_)
        if (drips) one.say("x");
    }
  }

  void visit(int port, std::mt19937& random) {
    for (int kind = 0; kind < 6; ++kind) {
      // The job may have closed the port by now.
      const int fd = connect_once(resolve("127.0.0.1", port), within(1)).fd;
      if (fd < 0) return;
      ++came;
      Stranger one = Stranger::of(fd);
      std::string bytes(1 + random() % 300, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      const Bytes hello = DialSteps(store_identity({}, false), store_greeting()).hello();
      if (kind == 1) one.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      if (kind == 2) one.say(bytes);
      if (kind == 3) one.say({hello.begin(), hello.begin() + 40});
      if (kind == 4) one.say({hello.begin(), hello.end()});
      if (kind == 5 && random() % 2) continue;  // a scanner: gone at once
      inside_.emplace_back(std::move(one), kind == 5 || kind == 1);
      if (inside_.size() > kAtOnce) inside_.erase(inside_.begin());
    }
  }

  const Processes& job_;
  const int ranks_;
  std::atomic<bool> over_{false};
  std::vector<std::pair<Stranger, bool>> inside_;
  std::thread thread_;
};

class Crowds : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(All, Crowds, ::testing::ValuesIn(between_processes()),
                         [](const auto& info) { return info.param; });

TEST_P(Crowds, AJobStartsAndRunsAsUsual) {
  constexpr int kRanks = 3, kGroups = 10, kOperations = 50;
  constexpr long kEnough = 100;
  const int port = free_port();
  KeyFile key;
  // Written by the test, read by rank 0: the job goes on until enough strangers have come.
  auto* enough = new (mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0);
  const std::string url = "tcp://127.0.0.1:" + std::to_string(port);
  Processes job(kRanks, [&](int rank, const Reporter& reporter) {
    Options options = key.options();
    options.transports = {GetParam()};
    options.log_level = LogLevel::error;
    log_configure(LogLevel::error, rank);
    const auto store = rendezvous(url, rank, kRanks, patiently(), options).store;
    reporter.say("here");
    reporter.await_go();
    bool over = false;
    for (int group = 0; group < kGroups || !over; ++group) {
      auto all = Communicator::create(store, rank, kRanks, options);
      for (int i = 0; i < kOperations; ++i) {
        std::vector<int32_t> x(1000, rank);
        x[0] = rank == 0 ? enough->load() : 0;
        Status done = all->all_reduce(x.data(), x.size(), DataType::int32, ReduceOp::sum)->wait();
        if (!done) throw done.error();
        if (x[999] != 3) throw std::runtime_error("a wrong sum");
        over = x[0] != 0;
      }
    }
    reporter.say("done");
    reporter.await_go();
  });
  for (int rank = 0; rank < kRanks; ++rank) ASSERT_EQ(job.line(rank), "here");
  const size_t before = resident_bytes(job.pid(0));
  Crowd crowd(job, kRanks);
  job.go_all();
  const Deadline deadline = patiently();
  while (crowd.came < kEnough && !deadline.passed()) poll(nullptr, 0, 5);
  EXPECT_GE(crowd.came, kEnough);
  enough->store(1);
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(job.line(rank), "done");
  crowd.leave();
  // Those inside, those who have left unnoticed so far, and what the job has itself.
  EXPECT_LT(crowd.most_descriptors, 2 * 96 + 64);
  EXPECT_LT(crowd.most_bytes, before + (size_t{192} << 20));
  job.go_all();
  munmap(enough, sizeof(*enough));
}

}  // namespace
}  // namespace ringwood
