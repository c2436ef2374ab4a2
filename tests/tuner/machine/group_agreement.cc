// The agreement of hosts on their parameters: pretended hosts on this one, over TCP.
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>

#include <fmt/format.h>

#include <gtest/gtest.h>

#include "collectives/runtime/progress_engine.h"
#include "collectives/tuner/machine/group_model.h"
#include "tests/support/networks.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tests/tuner/silent_link.h"
#include "transports/bootstrap/store.h"

namespace ringwood::testing {
namespace {

Options on_host(const std::string& host) {
  Options o = options_for("mixed", 0);
  o.host_id = host;
  return o;
}

// The announcements after the agreement, by rank.
std::vector<std::string> agreed(const std::vector<Options>& options) {
  const auto n = static_cast<int>(options.size());
  auto store = memory_store();
  std::vector<std::string> texts(options.size());
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      try {
        const auto engine = ProgressEngine::create(store, r, n, options[r], "");
        texts[r] = engine->mesh().announcement;
        (void)engine->shutdown(std::chrono::seconds(10));
      } catch (const std::exception& e) {
        ADD_FAILURE() << "rank " << r << ": " << e.what();
      }
    });
  for (auto& t : threads) t.join();
  return texts;
}

TEST(GroupAgreement, AllRanksHaveTheSameParametersWhateverTheHosts) {
  for (const std::string hosts : {"ab", "aab", "abcab", "abcd", "abbcdea"}) {
    std::vector<Options> options;
    for (const char host : hosts) {
      options.push_back(on_host(std::string(1, host)));
      if (hosts.size() % 2 == 0) options.back().spin_us = 0;
    }
    const auto texts = agreed(options);
    EXPECT_EQ(std::set(texts.begin(), texts.end()).size(), 1u) << hosts;
    const MachineModel machine = parse_machine_model(texts[0]);
    EXPECT_GT(machine.net.nic, 1e6) << hosts;
    EXPECT_NE(machine.net.nic, NetworkParameters{}.nic) << hosts;
  }
}

TEST(GroupAgreement, RankZeroDecidesWhetherTheNetworkIsMeasured) {
  std::vector<Options> options = {on_host("a"), on_host("b")};
  options[0].calibration = "off";
  const auto texts = agreed(options);
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(parse_machine_model(texts[0]).net.nic, NetworkParameters{}.nic);
}

TEST(GroupAgreement, TheFileOfTheTopologySaysTheLeaves) {
  const TemporaryPath path;
  std::ofstream(path.path()) << "SwitchName=s1 Nodes=h[0,2]\nSwitchName=s2 Nodes=h[1,3]\n";
  std::vector<Options> options = {on_host("h0"), on_host("h1"), on_host("h2"), on_host("h3")};
  options[0].topology = path.path();
  const auto texts = agreed(options);
  EXPECT_EQ(std::set(texts.begin(), texts.end()).size(), 1u);
  EXPECT_EQ(parse_machine_model(texts[0]).net.leaves, (std::vector<int>{0, 1, 0, 1}));
}

TEST(GroupAgreement, RanksWithPortsOfTheirOwnMeasureEach) {
  SKIP_UNLESS_NETWORKS();
  Processes one(1, [](int, const Reporter& reporter) {
    enter_network(unconnected("port0", "10.9.0.1/24") + unconnected("port1", "10.9.1.1/24"));
    std::vector<Options> options;
    for (int r = 0; r < 6; ++r) {
      options.push_back(on_host(std::string(1, static_cast<char>('a' + r / 2))));
      options.back().socket_interface = r % 2 == 0 ? "port0" : "port1";
    }
    const auto texts = agreed(options);
    const NetworkParameters net = parse_machine_model(texts[0]).net;
    reporter.say(fmt::format("{} texts, {} rails, {}", std::set(texts.begin(), texts.end()).size(),
                             net.rails, net.rail_of_rank));
  });
  EXPECT_EQ(one.line(0), "1 texts, 2 rails, true");
}

// As rank 0's options have them, unless its tuning file says otherwise.
TEST(GroupModel, RingsAreThoseOfRankZero) {
  Options options;
  options.calibration = "off";
  options.shm_ring_bytes = 64 << 10;
  Mesh mesh;
  mesh.size = 3;
  mesh.announcement = announced_parameters(options);
  EXPECT_EQ(machine_model_of(mesh).eager, 64 << 10);
  EXPECT_EQ(machine_model_of(mesh).piece, 64 << 10);
  mesh.link_settings = {{"RINGWOOD_SHM_RING_BYTES", "524288"}};
  EXPECT_EQ(machine_model_of(mesh).eager, 512 << 10);
}

// All rings of a host have 1 GiB: those of 64 ranks an eighth of what the option says.
TEST(GroupModel, RingsOfManyRanksAreSmaller) {
  MachineModel machine;
  use_rings(machine, 8, Options{});
  EXPECT_EQ(machine.eager, 1 << 20);
  use_rings(machine, 64, Options{});
  EXPECT_EQ(machine.eager, 128 << 10);
  use_rings(machine, 256, Options{});
  EXPECT_LT(machine.piece, 128 << 10);
  for (int r = 0; r < 64; ++r) machine.hosts.push_back(r / 8);
  use_rings(machine, 64, Options{});
  EXPECT_EQ(machine.eager, 1 << 20);
  EXPECT_EQ(machine.piece, 128 << 10);
}

// What is left of a link over devices: their names.
class LinkOverPorts final : public SilentLink {
 public:
  explicit LinkOverPorts(std::vector<std::string> ports) : ports_(std::move(ports)) {}
  std::vector<std::string> ports() const override { return ports_; }

 private:
  const std::vector<std::string> ports_;
};

// The fewest of any other host; several queue pairs of a port are one rail.
TEST(GroupModel, RailsAreThePortsThatLinksAreStripedOver) {
  Mesh mesh;
  mesh.size = 5;
  mesh.host_numbers = {0, 0, 1, 2, 3};
  mesh.peers.resize(5);
  EXPECT_EQ(striped_rails(mesh), 1) << "no links";
  const auto link = [&](int peer, std::vector<std::string> ports) {
    mesh.peers[peer].link[kCollectiveChannel] = std::make_unique<LinkOverPorts>(std::move(ports));
  };
  link(1, {"mlx5_0/1"});  // the same host
  link(2, {});            // no devices
  EXPECT_EQ(striped_rails(mesh), 1);
  link(3, {"mlx5_0/1", "mlx5_1/1", "mlx5_2/1", "mlx5_0/1"});
  EXPECT_EQ(striped_rails(mesh), 3);
  link(4, {"mlx5_0/1", "mlx5_0/1", "mlx5_1/1"});
  EXPECT_EQ(striped_rails(mesh), 2);
}

TEST(GroupAgreement, OnOneHostNothingIsExchanged) {
  const auto texts = agreed({on_host("a"), on_host("a")});
  EXPECT_EQ(texts, (std::vector<std::string>{"", ""}));
}

// One rank's process ends where the others measure.
TEST(GroupAgreement, ADeadRankIsNamedByAll) {
  constexpr int kRanks = 4;
  for (int victim = 0; victim < kRanks; ++victim) {
    const TemporaryPath path;
    Processes ranks(kRanks, [&](int rank, const Reporter& reporter) {
      const auto store = file_store(path.path());
      const Options options = on_host(std::string(1, char('a' + rank)));
      if (rank == victim) {
        const auto mesh = make_mesh(store, rank, kRanks, options, {});
        kill(getpid(), SIGKILL);
      }
      try {
        const auto engine = ProgressEngine::create(store, rank, kRanks, options, "");
        reporter.say("no error");
      } catch (const Error& error) {
        reporter.say(std::to_string(error.peer >= 0 ? error.peer : error.rank) + " " +
                     error.message());
      }
    });
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const std::string line = ranks.line(rank);
      EXPECT_EQ(line.substr(0, 2), std::to_string(victim) + " ") << rank << ": " << line;
      EXPECT_EQ(line.find("(timeout)"), line.npos) << rank << ": " << line;
    }
  }
}

}  // namespace
}  // namespace ringwood::testing
