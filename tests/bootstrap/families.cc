// Hosts with other families of addresses than their peers, and where a job listens.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/support/errors.h"
#include "tests/support/networks.h"
#include "tests/support/processes.h"
#include "transports/base/host.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/store.h"
#include "transports/mesh.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

struct Case {
  const char* name;
  const char* addresses[2];
  const char* said;  // by both ranks, or a part of it
};
const Case kCases[] = {
    {"IPv6 only and both", {"10.9.0.1/24 fd00:9::1/64", "fd00:9::2/64"}, "met over tcp"},
    {"both and IPv6 only", {"fd00:9::1/64", "10.9.0.2/24 fd00:9::2/64"}, "met over tcp"},
    {"IPv4 only and both", {"10.9.0.1/24 fd00:9::1/64", "10.9.0.2/24"}, "met over tcp"},
    {"both and both", {"10.9.0.1/24 fd00:9::1/64", "10.9.0.2/24 fd00:9::2/64"}, "met over tcp"},
    {"nothing in common", {"10.9.0.1/24", "fd00:9::2/64"}, "rank 0 on alpha has only IPv4 ("},
    {"nothing in common", {"fd00:9::1/64", "10.9.0.2/24"}, "rank 1 on beta has only IPv4 ("},
};

// An IPv6 address cannot be used before its interface has a carrier.
void await_addresses(const std::string& addresses) {
  const size_t v6 = addresses.find("fd00");
  const Deadline deadline = patiently();
  while (v6 != addresses.npos && !deadline.passed()) {
    const std::string host = addresses.substr(v6, addresses.find('/', v6) - v6);
    if (system(("ip -6 route get " + host.substr(0, host.size() - 1) + "9 2>/dev/null | grep -q '" +
                host + "'")
                   .c_str()) == 0)
      return;
    poll(nullptr, 0, 5);
  }
}

TEST(Families, PairsConnectByOneThatTheyShareOrSayThatTheyHaveNone) {
  SKIP_UNLESS_NETWORKS();
  for (const Case& c : kCases) {
    TemporaryPath place;
    Processes hosts(2, [&](int rank, const Reporter& reporter) {
      const std::string name = rank == 0 ? "alpha" : "beta";
      if (unshare(CLONE_NEWUTS) != 0 || sethostname(name.data(), name.size()) != 0)
        throw std::runtime_error("cannot name the host");
      plug_in(rank, {c.addresses[rank], "", ""}, reporter);
      await_addresses(c.addresses[rank]);
      Options options;
      options.init_timeout = kPatience;
      auto mesh = make_mesh(file_store(place.path()), rank, 2, options, {});
      reporter.say("met over " + mesh->transports_in_use());
      reporter.await_go();
    });
    connect_cable(hosts);
    for (int rank : {0, 1}) {
      const std::string line = hosts.line(rank);
      EXPECT_PRED2(contains, line, c.said) << c.name;
      if (line.find("met") == 0) {
        hosts.go(rank);
        continue;
      }
      EXPECT_PRED2(contains, line, "(10.9.0.");
      EXPECT_PRED2(contains, line, "([fd00:9::");
      EXPECT_PRED2(contains, line, "so they cannot reach each other; give their hosts");
    }
  }
}

// As machines that were made from one image of a running machine. Without /proc, the kernel tells
// neither its boot id nor the network namespace.
void look_alike() {
  constexpr std::string_view kName = "alike";
  if (unshare(CLONE_NEWUTS) != 0 || sethostname(kName.data(), kName.size()) != 0 ||
      mount("none", "/proc", "tmpfs", 0, nullptr) != 0)
    throw std::runtime_error(system_message("look alike"));
}

TEST(Hosts, OfEqualTokensMeetByTheirAddresses) {
  SKIP_UNLESS_NETWORKS();
  TemporaryPath place;
  Processes hosts(2, [&](int rank, const Reporter& reporter) {
    plug_in(rank, {rank == 0 ? "10.9.0.1/24" : "10.9.0.2/24", "", ""}, reporter);
    look_alike();
    reporter.say(host_token());
    Options options;
    options.init_timeout = kPatience;
    auto mesh = make_mesh(file_store(place.path()), rank, 2, options, {});
    reporter.say("met over " + mesh->transports_in_use() + " at " + mesh->addresses[0]);
    reporter.await_go();
  });
  connect_cable(hosts);
  EXPECT_EQ(hosts.line(0), hosts.line(1));
  for (int rank : {0, 1}) EXPECT_EQ(hosts.line(rank), "met over tcp at 10.9.0.1");
  hosts.go_all();
}

TEST(Hosts, AreToldApartByAddressesThatNoneShares) {
  using Texts = std::vector<std::string>;
  const struct {
    const char* name;
    Texts tokens;
    std::vector<Texts> addresses;
    Texts expected;
  } cases[] = {
      {"one host", {"t", "t"}, {{"10.0.0.1"}, {"10.0.0.1"}}, {"t", "t"}},
      {"two hosts", {"s", "t"}, {{"10.0.0.1"}, {"10.0.0.2"}}, {"s", "t"}},
      {"two networks of one host", {"s", "t"}, {{"10.0.0.1"}, {"10.0.0.1"}}, {"s", "t"}},
      {"two that look alike", {"t", "t"}, {{"10.0.0.1"}, {"10.0.0.2"}}, {"t", "t machine 2"}},
      {"two ranks on each of two that look alike",
       {"t", "t", "t", "t"},
       {{"10.0.0.1", "fd::1"}, {"10.0.0.2", "fd::2"}, {"fd::1"}, {"fd::2", "fd::3"}},
       {"t", "t machine 2", "t", "t machine 2"}},
      {"an address came while they started",
       {"t", "t"},
       {{"10.0.0.1"}, {"fd::1", "10.0.0.1"}},
       {"t", "t"}},
      {"no network", {"t", "t"}, {{}, {}}, {"t", "t"}},
      {"the network came while they started", {"t", "t"}, {{}, {"10.0.0.1"}}, {"t", "t"}},
  };
  for (const auto& c : cases) EXPECT_EQ(told_apart(c.tokens, c.addresses), c.expected) << c.name;
}

TEST(Hosts, KnowTheAddressesByWhichOthersReachThem) {
  SKIP_UNLESS_NETWORKS();
  Processes one(1, [&](int, const Reporter& reporter) {
    enter_network(
        unconnected("eth0", "10.1.0.1/24 fd00:1::1/64") + unconnected("docker0", "172.17.0.1/16") +
        "ip link add off0 type veth peer name vethoff0; ip addr add 10.3.0.1/24 dev off0");
    for (size_t max : {64, 1}) {
      std::string all;
      for (const std::string& address : host_addresses(max)) all += address + " ";
      reporter.say(all);
    }
  });
  EXPECT_EQ(one.line(0), "10.1.0.1 fd00:1::1 ");
  EXPECT_EQ(one.line(0), "10.1.0.1 ");
}

TEST(Families, OfAllRanksAreLookedAt) {
  const std::string v4 = "10.0.0.1:1", v6 = "[fd00::1]:1", both = v4 + "," + v6;
  const std::vector<std::string> names = {"a", "b", "c"};
  for (const auto& shared : {std::vector{v4, v4, both}, {v6, both, v6}, {both, both, both}})
    check_families(shared, names);
  Error apart = error_of([&] { check_families({both, v6, v4}, names); });
  EXPECT_PRED2(contains, apart.cause,
               "rank 2 on c has only IPv4 (10.0.0.1:1) and rank 1 on b only");
  EXPECT_EQ(to_string(addresses_to_dial(v6, both)), v6);
  EXPECT_EQ(to_string(addresses_to_dial(v4, both)), v4);
  EXPECT_EQ(to_string(addresses_to_dial(both, both)), both);
  EXPECT_EQ(to_string(addresses_to_dial("", both)), both);
}

// The addresses on which anybody listens in this network namespace, as the kernel writes them.
std::string listening() {
  std::string all;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::string number, local, remote, state;
      std::istringstream(line) >> number >> local >> remote >> state;
      if (state == "0A") all += local.substr(0, local.find(':')) + " ";
    }
  }
  return all;
}

// Network byte order, read as a number of this machine.
constexpr const char* kAny4 = "00000000 ";
constexpr const char* kAny6 = "00000000000000000000000000000000 ";

struct Place {
  const char* name;
  std::string host, hosts_file;
  bool listen_any;
};

TEST(Families, TheStoreListensWhereItIsKnownAndNowhereElse) {
  SKIP_UNLESS_NETWORKS();
  const std::string debian = "127.0.0.1 localhost\n127.0.1.1 alpha\n";
  const Place places[] = {
      {"an address", "10.1.0.1", "", false},
      {"a name that means loopback", "alpha", debian, false},
      {"somebody else's address", "192.0.2.7", "", false},
      {"all, as asked for", "alpha", debian, true},
      {"no address at all", "0.0.0.0", "", false},
  };
  for (const Place& place : places) {
    Processes one(1, [&](int, const Reporter& reporter) {
      enter_network(unconnected("eth0", "10.1.0.1/24") + unconnected("eth1", "10.2.0.1/24"),
                    place.hosts_file);
      Options options;
      options.listen_any = place.listen_any;
      auto store = tcp_store(place.host, 0, true, patiently(), options, 2);
      store->set("key", "value");
      reporter.say(" " + listening());
    });
    const std::string listens = one.line(0);
    const bool any = contains(listens, std::string(" ") + kAny4) || contains(listens, kAny6);
    EXPECT_EQ(any, place.listen_any) << place.name << ": " << listens;
    if (place.listen_any) continue;
    EXPECT_PRED2(contains, listens, " 0100010A ") << place.name;
    EXPECT_FALSE(contains(listens, "0100020A")) << place.name << ": " << listens;
  }
}

}  // namespace
}  // namespace ringwood
