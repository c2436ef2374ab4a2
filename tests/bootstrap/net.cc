// Addresses, and which one a rank offers, in networks of their own with decoys.
#include "transports/bootstrap/net.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/control/control_members.h"
#include "tests/support/errors.h"
#include "tests/support/networks.h"
#include "tests/support/processes.h"
#include "transports/base/fork_guard.h"
#include "transports/base/host.h"
#include "transports/base/numa.h"
#include "transports/base/owned_fd.h"
#include "transports/bootstrap/sockets.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

TEST(NetAddress, IsReadAndWritten) {
  for (const char* text :
       {"10.0.0.1:4000", "[fd00::1]:4000", "[fe80::1%eth0]:1", "host.example:0", "h:65535"}) {
    EXPECT_EQ(to_string(parse_net_address(text)), text);
  }
  EXPECT_EQ(parse_net_address("[fe80::1%eth0]:1").host, "fe80::1%eth0");
  for (const char* text : {"", ":", "host", "host:", ":80", "host:x", "host:65536", "host:-1",
                           "::1:80", "[]:1", "host:80 ", "host:+80"}) {
    Error error = error_of([&] { parse_net_address(text); });
    EXPECT_EQ(error.code, ErrorCode::invalid_argument) << text;
    EXPECT_PRED2(contains, error.cause, "expected host:port or [IPv6]:port") << text;
  }
}

TEST(HostToken, IsTheSameForAllOfAHostAndNoOther) {
  EXPECT_EQ(host_token(), host_token());
  EXPECT_FALSE(host_name().empty());
  Processes one(1, [](int, const Reporter& reporter) {
    reporter.say(host_token());
    reporter.say(unshare(CLONE_NEWNET) == 0 ? host_token() : "not permitted");
  });
  EXPECT_EQ(one.line(0), host_token());
  EXPECT_NE(one.line(0), host_token()) << "a network of its own";
}

TEST(ForkGuard, TheChildHasNoneOfItAndTheParentAll) {
  Processes one(1, [](int, const Reporter& reporter) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return;
    close_on_fork(pair[0]);
    int pid_before = current_pid();
    pid_t child = fork();
    if (child == 0) {
      bool null = write(pair[0], "x", 1) == 1;  // into /dev/null
      int fresh = open("/dev/null", O_RDWR);
      close_and_forget(pair[0]);
      _exit(forked_since(pid_before) && null && fresh != pair[0] ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    reporter.say(std::to_string(WEXITSTATUS(status)));
    reporter.say(forked_since(pid_before) ? "forked" : "same");
    char byte = 0;
    reporter.say(recv(pair[1], &byte, 1, MSG_DONTWAIT) < 0 ? "open" : "closed");
    close_and_forget(pair[0]);
    reporter.say(recv(pair[1], &byte, 1, MSG_DONTWAIT) == 0 ? "closed" : "open");
  });
  for (const char* line : {"0", "same", "open", "closed"}) EXPECT_EQ(one.line(0), line);
}

// ---- networks of their own ---------------------------------------------------------------------

struct Choice {
  const char* name;
  std::string network, hosts;
  const char* filter;
  const char* master;
  bool several_hosts;
  const char* expected;  // "address interface | part of the reason", or "error: part of it"
};

const std::string kUsual = unconnected("docker0", "172.17.0.1/16") +
                           unconnected("eth0", "10.1.0.1/24 fd00:1::1/64") +
                           unconnected("eth1", "10.2.0.1/24");
const char* const kDebian = "127.0.0.1 localhost\n127.0.1.1 node\n";

const Choice kChoices[] = {
    {"the route decides", kUsual, "", "", "10.2.0.9", true,
     "10.2.0.1 eth1 | the route to the master leaves here"},
    {"over IPv6 as well", kUsual, "", "", "fd00:1::9", true,
     "fd00:1::1 eth0 | the route to the master"},
    {"even over a bridge", kUsual, "", "", "172.17.0.5", true,
     "172.17.0.1 docker0 | the route to the master"},
    {"the master itself", kUsual, "", "", "10.2.0.1", true,
     "10.2.0.1 eth1 | the route to the master"},
    {"127.0.1.1 in /etc/hosts", kUsual, kDebian, "", "node", true,
     "10.1.0.1 eth0 | node means 127.0.1.1 here, which other hosts cannot reach"},
    {"loopback on one host", kUsual, kDebian, "", "node", false,
     "127.0.0.1 lo | the route to the master"},
    {"unknown master, several hosts", kUsual, "", "", "", true,
     "10.1.0.1 eth0 | the master's address is not known"},
    {"unknown master, one host", kUsual, "", "", "", false,
     "127.0.0.1 lo | the master's address is not known"},
    {"no route", kUsual, "", "", "192.0.2.7", true,
     "10.1.0.1 eth0 | there is no route to 192.0.2.7"},
    {"no such name", kUsual, "", "", "nowhere.invalid", true,
     "10.1.0.1 eth0 | cannot resolve the host"},
    {"IPv6 only", unconnected("docker0", "172.17.0.1/16") + unconnected("eth0", "fd00:1::1/64"),
     kDebian, "", "node", true, "fd00:1::1 eth0 | node means 127.0.1.1 here"},
    {"link-local comes last", unconnected("eth0", "") + unconnected("eth1", "fd00:2::1/64"), "", "",
     "", true, "fd00:2::1 eth1 | "},
    {"interface that is down",
     unconnected("eth0", "10.1.0.1/24") + unconnected("eth1", "10.2.0.1/24") +
         "ip link set eth0 down;",
     "", "", "", true, "10.2.0.1 eth1 | "},
    {"prefix", kUsual, "", "eth", "", true, "10.1.0.1 eth0 | the interface filter allows it"},
    {"prefix and route", kUsual, "", "eth", "10.2.0.9", true,
     "10.2.0.1 eth1 | the route to the master"},
    {"exact", kUsual, "", "=eth1", "10.1.0.9", true,
     "10.2.0.1 eth1 | the interface filter allows it"},
    {"exact is not a prefix", kUsual, "", "=eth", "", true,
     "error: RINGWOOD_SOCKET_IFNAME==eth leaves nothing"},
    {"list", kUsual, "", "ib,eth1", "", true, "10.2.0.1 eth1 | the interface filter allows it"},
    {"a bridge by name", kUsual, "", "docker0", "", true,
     "172.17.0.1 docker0 | the interface filter allows it"},
    {"exclude", kUsual, "", "^eth0,lo", "", true, "10.2.0.1 eth1 | the interface filter allows it"},
    {"exclude the route", kUsual, "", "^eth1", "10.2.0.9", true,
     "10.1.0.1 eth0 | the interface filter allows it"},
    {"exclude exact", kUsual, "", "^=eth,eth0", "", true,
     "10.2.0.1 eth1 | the interface filter allows it"},
    {"exclude all", kUsual, "", "^lo,eth", "", true, "error: there are lo 127.0.0.1, "},
    {"network", kUsual, "", "10.2.0.0/16", "", true,
     "10.2.0.1 eth1 | the interface filter allows it"},
    {"network of IPv6", kUsual, "", "fd00::/8", "", true,
     "fd00:1::1 eth0 | the interface filter allows it"},
    {"bad network", kUsual, "", "10.2.0.0/33", "", true, "error: \"10.2.0.0/33\" is not a network"},
    {"loopback for several hosts", kUsual, "", "lo", "", true,
     "error: leaves nothing that other hosts could reach"},
    {"loopback for one host", kUsual, "", "lo", "10.1.0.1", false,
     "127.0.0.1 lo | the interface filter allows it"},
    {"nothing at all", "", "", "", "", true,
     "error: no interface to offer: the master's address is not known"},
};

TEST(ChooseAddress, InNetworksWithDecoys) {
  SKIP_UNLESS_NETWORKS();
  constexpr int kCases = sizeof(kChoices) / sizeof(kChoices[0]);
  Processes all(kCases, [](int number, const Reporter& reporter) {
    const Choice& c = kChoices[number];
    enter_network(c.network, c.hosts);
    log_configure(LogLevel::info, 0);
    Options options;
    options.socket_interface = c.filter;
    try {
      AddressChoice choice = choose_local_address(options, c.master, c.several_hosts);
      reporter.say(choice.host + " " + choice.interface + " | " + choice.reason);
    } catch (const Error& error) {
      reporter.say("error: " + error.cause);
    }
  });
  for (int number = 0; number < kCases; ++number) {
    const Choice& c = kChoices[number];
    std::string line = all.line(number), expected = c.expected;
    bool failing = expected.rfind("error: ", 0) == 0;
    EXPECT_EQ(line.rfind("error: ", 0) == 0, failing) << c.name << ": " << line;
    EXPECT_PRED2(contains, line, failing ? expected.substr(7) : expected) << c.name;
    if (failing) continue;
    EXPECT_PRED2(contains, all.log_of(number),
                 "INFO net: offering " + expected.substr(0, expected.find(' ')))
        << c.name;
    EXPECT_PRED2(contains, all.log_of(number), "; passed over: ") << c.name;
  }
}

// ---- two hosts ---------------------------------------------------------------------------------

struct Bootstrap {
  const char* name;
  Host host[2];
  std::string master[2];
  const char* expected[2];  // the address of each
};

const Bootstrap kBootstraps[] = {
    {"decoys and 127.0.1.1",
     {{"10.9.0.1/24", unconnected("docker0", "172.17.0.1/16"),
       "127.0.0.1 localhost\n127.0.1.1 alpha\n10.9.0.2 beta\n"},
      {"10.9.0.2/24", unconnected("docker0", "172.17.0.1/16"),
       "127.0.0.1 localhost\n127.0.1.1 beta\n10.9.0.1 alpha\n"}},
     {"alpha", "alpha"},
     {"10.9.0.1", "10.9.0.2"}},
    {"IPv6 only",
     {{"fd00:9::1/64", unconnected("docker0", "172.17.0.1/16"), ""}, {"fd00:9::2/64", "", ""}},
     {"fd00:9::1", "fd00:9::1"},
     {"fd00:9::1", "fd00:9::2"}},
    // Each knows the cable by another name.
    {"link-local only", {{"", "", ""}, {"", "", ""}}, {"", ""}, {"%eth0", "%ens3"}},
};

// An interface with an address that the kernel tests for duplicates, for a second at least.
std::string tested(const std::string& name, const std::string& address) {
  return unconnected(name, "") + "echo 1 > /proc/sys/net/ipv6/conf/" + name + "/accept_dad; " +
         "ip addr add " + address + "/64 dev " + name + "; ";
}

TEST(Listening, WaitsForAnAddressThatIsStillTested) {
  SKIP_UNLESS_NETWORKS();
  Processes one(1, [](int, const Reporter& reporter) {
    Identity me;
    me.key = random_key();
    me.session = random_session();
    enter_network(tested("x0", "fd00:9::5"));
    reporter.say(to_string(listen(me, "fd00:9::5", Options{})->addresses()));
    if (system(("set -e; " + tested("x1", "fd00:9::6")).c_str()) != 0) reporter.say("no address");
    auto store = tcp_store("fd00:9::6", 0, true, patiently());
    tcp_store("fd00:9::6", tcp_store_port(*store), false, patiently())->set("key", "value");
    reporter.say(store->get("key", patiently()));
  });
  EXPECT_PRED2(contains, one.line(0), "[fd00:9::5]:");
  EXPECT_EQ(one.line(0), "value");
}

// A link-local address appears when the kernel has seen the carrier.
AddressChoice choose_patiently(const std::string& master) {
  Deadline deadline = patiently();
  for (;;) {
    try {
      return choose_local_address({}, master, true);
    } catch (const Error&) {
      if (deadline.passed()) throw;
      poll(nullptr, 0, 5);
    }
  }
}

TEST(TwoHosts, MeetOverTheAddressesTheyAnnounce) {
  SKIP_UNLESS_NETWORKS();
  for (const Bootstrap& meeting : kBootstraps) {
    TemporaryPath place;
    Processes hosts(2, [&](int rank, const Reporter& reporter) {
      plug_in(rank, meeting.host[rank], reporter);
      std::string address = choose_patiently(meeting.master[rank]).host;
      reporter.say(address);
      auto store = file_store(place.path());
      Member member(*store, rank, 2, {}, patiently(), {}, address);
      reporter.say("joined");
      reporter.await_go();
    });
    connect_cable(hosts);
    for (int rank : {0, 1})
      EXPECT_PRED2(contains, hosts.line(rank), meeting.expected[rank]) << meeting.name;
    for (int rank : {0, 1}) EXPECT_EQ(hosts.line(rank), "joined") << meeting.name;
    hosts.go_all();
  }
}

TEST(TwoHosts, StoreIsReachedByNameWhenTheNameIsLoopbackAtHome) {
  SKIP_UNLESS_NETWORKS();
  const Bootstrap& meeting = kBootstraps[0];
  TemporaryPath port;
  Processes hosts(2, [&](int rank, const Reporter& reporter) {
    plug_in(rank, meeting.host[rank], reporter);
    const auto place = file_store(port.path());
    const int known = rank == 0 ? 0 : std::stoi(place->get("port", patiently()));
    auto store = tcp_store("alpha", known, rank == 0, patiently());
    if (rank == 0) place->set("port", std::to_string(tcp_store_port(*store)));
    store->set("here/" + std::to_string(rank), "1");
    store->get("here/" + std::to_string(1 - rank), patiently());
    reporter.say("met");
    reporter.await_go();
  });
  connect_cable(hosts);
  for (int rank : {0, 1}) EXPECT_EQ(hosts.line(rank), "met");
  hosts.go_all();
}

TEST(TwoHosts, AHostThatVanishesIsLostAndAFlapIsNot) {
  SKIP_UNLESS_NETWORKS();
  for (bool for_good : {false, true}) {
    TemporaryPath place;
    // A flap ends before the kernel tries for the last time.
    Options options = with_heartbeat((for_good ? 50 : 250) * kSlower);
    Processes hosts(2, [&](int rank, const Reporter& reporter) {
      plug_in(rank, kBootstraps[0].host[rank], reporter);
      auto store = file_store(place.path());
      log_configure(LogLevel::warn, rank);
      Member member(
          *store, rank, 2, options, patiently(),
          [&](const Error& error) { reporter.say(error.message()); },
          rank == 0 ? "10.9.0.1" : "10.9.0.2");
      reporter.say("joined");
      reporter.await_go();
      if (rank == 1 && system("ip link set ens3 down") != 0) reporter.say("cannot cut the cable");
      if (rank == 1 && !for_good) {
        // Until the other has noticed the silence: half of what it takes to be given up.
        reporter.await_go();
        if (system("ip link set ens3 up; ip addr replace 10.9.0.2/24 dev ens3") != 0)
          reporter.say("cannot mend it");
      }
      reporter.await_go();
      reporter.say("done");
    });
    connect_cable(hosts);
    for (int rank : {0, 1}) EXPECT_EQ(hosts.line(rank), "joined");
    hosts.go_all();
    if (for_good) {
      for (int rank : {0, 1}) {
        EXPECT_PRED2(contains, hosts.line(rank), "its host has acknowledged nothing for");
      }
    } else {
      EXPECT_TRUE(hosts.log_shows(0, "has been silent"));
      hosts.go(1);
      EXPECT_TRUE(hosts.log_shows(0, "answers again")) << hosts.log_of(0);
    }
    hosts.go_all();
    for (int rank : {0, 1}) EXPECT_EQ(hosts.line(rank), "done");
  }
}

// Over a connection that the kernel gives up when nothing was acknowledged for 2 s.
void send_until_given_up(const std::vector<SocketAddress>& to) {
  const OwnedFd fd(connect_once(to, patiently()).fd);
  const unsigned limit_ms = 2000;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
  while (::send(fd.get(), "x", 1, MSG_NOSIGNAL) == 1) ::poll(nullptr, 0, 20);
}

TEST(TwoHosts, AHostThatVanishesIsLostAsSoonAsAShortHeartbeatSays) {
  SKIP_UNLESS_NETWORKS();
  TemporaryPath place;
  Processes hosts(2, [&](int rank, const Reporter& reporter) {
    plug_in(rank, kBootstraps[0].host[rank], reporter);
    const std::vector<SocketAddress> other = resolve("10.9.0.2", 7007);
    const OwnedFd listening(rank == 1 ? listen_on(other[0]) : -1);
    auto store = file_store(place.path());
    Member member(
        *store, rank, 2, with_heartbeat(20), patiently(),
        [&](const Error& error) { reporter.say(error.message()); },
        rank == 0 ? "10.9.0.1" : "10.9.0.2");
    reporter.say("joined");
    if (rank == 0) {
      send_until_given_up(other);
      reporter.say("the kernel has given it up");
    }
    reporter.await_go();
    if (system("ip addr flush dev ens3") != 0) reporter.say("cannot vanish");
    reporter.await_go();
  });
  connect_cable(hosts);
  for (int rank : {0, 1}) EXPECT_EQ(hosts.line(rank), "joined");
  hosts.go(1);
  EXPECT_PRED2(contains, hosts.line(0), "its host has acknowledged nothing for");
  EXPECT_EQ(hosts.line(0), "the kernel has given it up");
}

TEST(Numa, NodesAreReadFromTheKernelsLists) {
  std::string root = (std::filesystem::temp_directory_path() / "ringwood-XXXXXX").string();
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  const std::pair<const char*, const char*> lists[] = {
      {"node0", "0-3,8"}, {"node1", "4-7,9-10"}, {"node2", ""}, {"node3", "x"}, {"power", "11"}};
  for (const auto& [name, list] : lists) {
    std::filesystem::create_directory(root + "/" + name);
    std::ofstream(root + "/" + name + "/cpulist") << list << "\n";
  }
  EXPECT_EQ(numa_nodes({0, 3, 4, 7, 8, 9, 10, 11}, root),
            (std::vector<int>{0, 0, 1, 1, 0, 1, 1, -1}));
  std::filesystem::create_directories(root + "/mlx5_0/device");
  std::ofstream(root + "/mlx5_0/device/numa_node") << "1\n";
  EXPECT_EQ(device_numa_node(root + "/mlx5_0"), 1);
  EXPECT_EQ(device_numa_node(root + "/mlx5_1"), -1);
  std::filesystem::remove_all(root);
  EXPECT_EQ(numa_nodes({0}, root), std::vector<int>{-1});
}

}  // namespace
}  // namespace ringwood
