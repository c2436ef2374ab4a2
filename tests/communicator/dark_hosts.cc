// Hosts that go dark: nothing is announced, nothing closes, and what is sent there is swallowed.
// Every survivor names the rank there, whatever it was doing, long before its operation's deadline.
// How soon is no matter of this test: 2.5 s are usual, 4.8 s were seen once beside other work. The
// kernel probably counts from when it first sends again, which it does later where acknowledgements
// were late.
//
// Three ranks in network namespaces of their own; a fourth namespace routes between them, and
// swallows what it is told to.
#include <sched.h>

#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "transports/bootstrap/store.h"

namespace ringwood::testing {
namespace {

constexpr int kRanks = 3, kRouter = kRanks;
constexpr std::chrono::milliseconds kHeartbeat{50 * kSlower};

double now_s() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

bool shell(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

class Network {
 public:
  explicit Network(const Processes& hosts) : hosts_(hosts) {
    works_ = in(kRouter, "sysctl -w net.ipv4.ip_forward=1");
    for (int rank = 0; rank < kRanks; ++rank) {
      works_ = works_ &&
               shell(fmt::format("ip link add w netns {} type veth peer name r{} netns {}",
                                 hosts.pid(rank), rank, hosts.pid(kRouter))) &&
               in(kRouter, fmt::format("ip addr add 10.9.{0}.1/24 dev r{0}", rank)) &&
               in(kRouter, fmt::format("ip link set r{} up", rank)) &&
               in(rank, fmt::format("ip addr add {}/24 dev w", address(rank))) &&
               in(rank, "ip link set lo up") && in(rank, "ip link set w up") &&
               in(rank, fmt::format("ip route add default via 10.9.{}.1", rank));
    }
    // The kernel says so a moment later.
    const Deadline limit = patiently();
    for (int rank = 0; rank < kRanks; ++rank)
      while (works_ && !in(rank, "ip -o link show dev w | grep 'state UP'"))
        works_ = !limit.passed();
  }
  bool works() const { return works_; }
  // Between the two, both ways; with all for `other` < 0.
  void cut(int rank, int other = -1) const {
    const std::string a = address(rank), b = other < 0 ? "0.0.0.0/0" : address(other);
    EXPECT_TRUE(in(kRouter, fmt::format("ip rule add from {} to {} blackhole", a, b)));
    EXPECT_TRUE(in(kRouter, fmt::format("ip rule add from {} to {} blackhole", b, a)));
  }

 private:
  static std::string address(int rank) { return fmt::format("10.9.{}.2", rank); }
  bool in(int host, const std::string& command) const {
    return shell(fmt::format("nsenter -t {} -n sh -c \"{}\"", hosts_.pid(host), command));
  }

  const Processes& hosts_;
  bool works_ = false;
};

// What the ranks do when one goes dark.
enum class Doing {
  nothing,  // no operation is under way
  waiting,  // for the rank that goes dark
  moving,   // large messages, all the time
  filling   // likewise, but that rank is stopped, so the windows to it have closed
};
const char* const kDoing[] = {"nothing", "waiting", "moving", "filling"};

struct Row {
  Doing doing;
  int dark, only_to = -1;  // -1: to all
  std::string name() const {
    const char* const what = kDoing[static_cast<int>(doing)];
    if (only_to < 0) return fmt::format("rank{}_{}", dark, what);
    return fmt::format("rank{}_to_rank{}_{}", dark, only_to, what);
  }
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name(); }

std::vector<Row> rows() {
  std::vector<Row> all;
  for (Doing doing : {Doing::nothing, Doing::waiting, Doing::moving, Doing::filling})
    for (int dark = 0; dark < kRanks; ++dark) all.push_back({doing, dark});
  // Both hear rank 0, which the control connection leads to, but not each other.
  all.push_back({Doing::moving, 1, 2});
  return all;
}

Status work(Communicator& group, const Row& row) {
  std::vector<float> data(1 << 20, 1);
  const auto sum = [&] {
    return group.all_reduce(data.data(), data.size(), DataType::float32, ReduceOp::max)->wait();
  };
  switch (row.doing) {
    case Doing::waiting:
      if (group.rank() != row.dark) return group.barrier()->wait();
      [[fallthrough]];
    case Doing::nothing:
      while (group.health()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return group.health();
    default:
      Status s;
      while (s) s = sum();
      return s;
  }
}

void take_part(int rank, const Row& row, const std::string& path, const Reporter& reporter) {
  if (::unshare(CLONE_NEWNET) != 0) return reporter.say("no network namespaces");
  reporter.say("apart");
  reporter.await_go();
  if (rank == kRouter) return reporter.await_go();
  Options options = options_for("tcp", rank);
  options.heartbeat = kHeartbeat;
  options.socket_interface = "=w";
  auto group = Communicator::create(file_store(path), rank, kRanks, options);
  must(group->barrier());
  reporter.say("ready");
  const Status s = work(*group, row);
  const double at = now_s();
  reporter.say(fmt::format("{:.6f} {}", at, s ? "ok" : s.error().message()));
  reporter.await_go();
}

class DarkHosts : public ::testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(All, DarkHosts, ::testing::ValuesIn(rows()),
                         [](const auto& info) { return info.param.name(); });

TEST_P(DarkHosts, AreNamedByEverySurvivor) {
  const Row& row = GetParam();
  TemporaryPath place;
  Processes hosts(kRanks + 1, [&](int rank, const Reporter& reporter) {
    take_part(rank, row, place.path(), reporter);
  });
  for (int host = 0; host <= kRanks; ++host)
    if (hosts.line(host) != "apart") GTEST_SKIP() << "network namespaces need privileges";
  Network network(hosts);
  if (!network.works()) GTEST_SKIP() << "no network can be built of namespaces here";
  hosts.go_all();
  for (int rank = 0; rank < kRanks; ++rank)
    ASSERT_EQ(hosts.line(rank), "ready") << hosts.log_of(rank);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // in the middle of it
  if (row.doing == Doing::filling) {
    hosts.stop(row.dark);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // windows close
  }
  const double cut_at = now_s();
  network.cut(row.dark, row.only_to);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == row.dark && row.doing == Doing::filling) continue;
    const std::string line = hosts.line(rank);
    const double took = std::strtod(line.c_str(), nullptr) - cut_at;
    EXPECT_GT(took, 0) << line;
    EXPECT_EQ(line.find("(timeout)"), line.npos) << rank << ": " << line;
    // In the dark, it is all others who are gone.
    const bool names = line.find(fmt::format("rank {}", row.dark)) != line.npos ||
                       line.find(fmt::format("peer {}", row.dark)) != line.npos;
    EXPECT_TRUE(names || rank == row.dark) << line;
    RecordProperty(fmt::format("rank{}_s", rank), fmt::format("{:.2f}", took));
    std::printf("             rank %d after %.2f s: %s\n", rank, took,
                line.substr(line.find(' ') + 1).c_str());
  }
}

}  // namespace
}  // namespace ringwood::testing
