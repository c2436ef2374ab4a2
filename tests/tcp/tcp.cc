// TCP where threads of one host cannot show it: deaths, two hosts, silence on the network.

#include "transports/tcp/tcp.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "tests/support/link_processes.h"
#include "tests/support/patience.h"
#include "transports/base/descriptors.h"
#include "transports/tcp/stream.h"

namespace ringwood {
namespace {

const MakeTransport kTcp = [] { return make_tcp(); };

std::string show(const Status& status) { return status ? "ok" : status.error().message(); }

// Polls a link that waits for something until it fails.
Status failure(Rank& rank, Link& link, Duration patience) {
  Completions now;
  Status s;
  const Deadline limit = Deadline::after(patience);
  rank.transport->arm();
  while ((s = link.poll(now)) && !limit.passed())
    rank.wait_set->wait(std::chrono::milliseconds(50));
  rank.transport->disarm();
  return s;
}

TEST(Tcp, SaysThatAKilledPeerIsLost) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    Setting setting;
    setting.channels = 1;
    setting.options = [&](Options& o) { o.tcp_sockets = 1 + attempt % 2; };
    Job job(setting);
    Signal talking;
    Process victim([&] {
      std::unique_ptr<Rank> rank = job.join(1, kTcp);
      for (;;) {
        talking.give();
        if (Status s = exchange(*rank, 100000); !s) return 1;
      }
    });
    Process survivor([&] {
      std::unique_ptr<Rank> rank = job.join(0, kTcp);
      Status s;
      while (s) s = exchange(*rank, 100000);
      const std::string text = show(s);
      const bool right =
          s.error().code == ErrorCode::peer_lost && s.error().peer == 1 &&
          (text.find("peer 1 over tcp: the peer closed the connection") != std::string::npos ||
           text.find("peer 1 over tcp: connection reset by peer") != std::string::npos);
      if (!right) std::fprintf(stderr, "%s\n", text.c_str());
      return right ? 0 : 1;
    });
    talking.await(2 + attempt);
    victim.kill();
    EXPECT_EQ(survivor.wait(), 0);
    EXPECT_EQ(victim.wait(), -SIGKILL);
  }
}

TEST(Tcp, SpeaksIPv6) {
  Setting setting;
  setting.address = [](int) { return "::1"; };
  Ranks two = make_ranks(kTcp, setting);
  on_each(two, [](Rank& rank) {
    if (Status s = exchange(rank, 1000000); !s) throw s.error();
  });
}

TEST(Tcp, ConnectsManyRanksAtOnce) {
  Setting setting;
  setting.size = 24;
  Ranks many = make_ranks(kTcp, setting);
  for (auto& rank : many.all) {
    for (int p = 0; p < setting.size; ++p) {
      EXPECT_EQ(rank->links[1][p] != nullptr, p != rank->group.rank());
    }
  }
}

TEST(Tcp, SaysWhichRankCannotBeDialled) {
  Setting setting;
  setting.size = 2;
  Ranks two;
  Identity session{random_key(), random_session(), 0, 2};
  for (int r = 0; r < 2; ++r) two.all.push_back(make_rank(setting, r, *two.store, session));
  const std::string gone = to_string(two[0].listener->address());
  two[0].listener.reset();
  two[1].group.addresses = {gone, ""};
  two[1].group.deadline = Deadline::after(std::chrono::milliseconds(300));
  try {
    connect(two[1], setting, kTcp);
    FAIL() << "nobody listens there";
  } catch (const Error& error) {
    EXPECT_EQ(error.peer, 0) << error.message();
    EXPECT_EQ(error.transport, "tcp");
  }
}

TEST(Tcp, RaisesALowLimitOfOpenFilesOrSaysSo) {
  struct Case {
    rlim_t hard;
    int code;
  };
  for (const Case& c : {Case{4096, 0}, Case{80, 1}}) {
    Process many([&] {
      const rlimit low{60, c.hard};
      if (::setrlimit(RLIMIT_NOFILE, &low) != 0) return 77;
      make_room_for_descriptors(10, "a test");
      try {
        make_room_for_descriptors(100, "a test");
      } catch (const Error& error) {
        return error.cause.find("may open 80 at most; raise ulimit -n") != std::string::npos ? 1
                                                                                             : 2;
      }
      rlimit now{};
      ::getrlimit(RLIMIT_NOFILE, &now);
      return now.rlim_cur >= 200 && now.rlim_max == c.hard ? 0 : 3;
    });
    EXPECT_EQ(many.wait(), c.code);
  }
}

// The bytes that a rank sent before it closed arrive, although it had itself bytes that it never
// read.
TEST(Tcp, LastBytesArriveAlthoughTheSenderDidNotReadAll) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    Setting setting;
    setting.channels = 1;
    Ranks two = make_ranks(kTcp, setting);
    Link& stays = *two[0].links[0][1];
    std::vector<std::byte> unread(100000), last = Pattern(1, 0, 0, 0).make(100000),
                                           got(last.size());
    Completions now, left;
    ASSERT_TRUE(stays.post_send(unread.data(), unread.size()));
    ASSERT_TRUE(stays.poll(now));
    ASSERT_TRUE(two[1].links[0][0]->post_send(last.data(), last.size()));
    while (left.sent == 0) ASSERT_TRUE(two[1].links[0][0]->poll(left));
    two[1].links.clear();
    ASSERT_TRUE(stays.post_recv(got.data(), got.size()));
    Status s;
    while (s && now.received == 0) s = stays.poll(now);
    ASSERT_TRUE(s) << show(s);
    EXPECT_EQ(got, last);
  }
}

TEST(Tcp, HasSeveralSocketsOnlyWhereCoresAreFree) {
  struct Case {
    int cores, ranks, sockets;
  };
  for (const Case& c : {Case{1, 1, 1},
                        {2, 1, 1},
                        {2, 2, 1},
                        {2, 8, 1},
                        {3, 1, 2},
                        {4, 2, 1},
                        {8, 2, 3},
                        {16, 1, 4},
                        {64, 8, 4},
                        {4, 0, 3}}) {
    EXPECT_EQ(sockets_for(c.cores, c.ranks), c.sockets) << c.cores << " " << c.ranks;
  }
}

// The sum over this process's connections of what TCP has sent, its headers and repetitions apart.
uint64_t bytes_sent() {
  uint64_t sum = 0;
  for (int fd = 0; fd < 256; ++fd) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
      sum += info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
  }
  return sum;
}

TEST(Tcp, SendsTheMessagesAndNothingElse) {
  for (int sockets : {1, 3}) {
    Setting setting;
    setting.options = [&](Options& o) { o.tcp_sockets = sockets; };
    Ranks two = make_ranks(kTcp, setting);
    const uint64_t before = bytes_sent();
    constexpr size_t kBytes = 3000001;
    on_each(two, [](Rank& rank) {
      for (size_t bytes : {size_t{1}, size_t{70000}, kBytes})
        if (Status s = exchange(rank, bytes); !s) throw s.error();
    });
    EXPECT_EQ(bytes_sent() - before, 2 * (1 + 70000 + kBytes));
  }
}

// Ranks that were told, or find, different numbers.
TEST(Tcp, TakesTheNumberOfSocketsFromTheRankThatDials) {
  Setting setting;
  setting.size = 3;
  int rank = 0;
  setting.options = [&](Options& o) { o.tcp_sockets = 1 + 2 * rank++; };
  Ranks three = make_ranks(kTcp, setting);
  on_each(three, [](Rank& one) {
    if (Status s = exchange(one, 3000001); !s) throw s.error();
  });
}

// ---- two hosts: network namespaces joined by a pair of virtual interfaces ----------------------

bool shell(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// Asked once, before ranks wait for each other.
bool network_namespaces() {
  Process probe([] {
    return ::unshare(CLONE_NEWNET) == 0 && shell("ip link add w type veth peer name v") ? 0 : 1;
  });
  return probe.wait() == 0;
}

struct HostAddresses {
  std::string name;
  std::string of_rank[2];
  std::string prefix;
};
void PrintTo(const HostAddresses& hosts, std::ostream* out) { *out << hosts.name; }

// Runs a rank on each of two hosts; `meanwhile(pid of rank 1)` runs here.
void on_two_hosts(const HostAddresses& addresses, const std::function<void(Options&)>& options,
                  const std::function<int(Rank&)>& body,
                  const std::function<void(int)>& meanwhile = {},
                  const MakeTransport& make = kTcp) {
  Setting setting;
  setting.channels = 1;
  setting.options = options;
  setting.address = [&](int r) { return addresses.of_rank[r]; };
  Job job(setting);
  Signal separate, joined;
  std::vector<Process> hosts;
  for (int r = 0; r < 2; ++r) {
    hosts.emplace_back([&, r] {
      if (::unshare(CLONE_NEWNET) != 0) return 1;
      separate.give();
      joined.await();
      return body(*job.join(r, make));
    });
  }
  separate.await(2);
  shell(fmt::format("ip link add w netns {} type veth peer name w netns {}", hosts[0].pid(),
                    hosts[1].pid()));
  for (int r = 0; r < 2; ++r) {
    const std::string there = fmt::format("nsenter -t {} -n ip ", hosts[r].pid());
    shell(there + "link set lo up");
    shell(there + "addr add " + addresses.of_rank[r] + addresses.prefix + " dev w");
    shell(there + "link set w up");
  }
  joined.give(2);
  if (meanwhile) meanwhile(hosts[1].pid());
  for (Process& host : hosts) EXPECT_EQ(host.wait(), 0);
}

const HostAddresses kHostAddresses[] = {
    {"IPv4", {"10.77.0.1", "10.77.0.2"}, "/24"},
    {"IPv6", {"fd77::1", "fd77::2"}, "/64 nodad"},
};

class TcpHosts : public ::testing::TestWithParam<HostAddresses> {};
INSTANTIATE_TEST_SUITE_P(All, TcpHosts, ::testing::ValuesIn(kHostAddresses),
                         [](const auto& info) { return info.param.name; });

TEST_P(TcpHosts, ExchangeOverOneAndSeveralSockets) {
  if (!network_namespaces()) GTEST_SKIP() << "network namespaces need privileges";
  for (int sockets : {1, 4}) {
    for (bool zero_copy : {false, true}) {
      const auto several = [&](Options& o) { o.tcp_sockets = sockets; };
      const auto talk = [](Rank& rank) {
        for (size_t bytes : {size_t{1}, size_t{100000}, (size_t{16} << 20) + 3}) {
          if (Status s = exchange(rank, bytes); !s) throw s.error();
        }
        return 0;
      };
      on_two_hosts(GetParam(), several, talk, {}, [&] { return make_tcp({zero_copy}); });
    }
  }
}

// Nothing announces a host without power: only that it acknowledges nothing.
TEST_P(TcpHosts, NoticeAHostThatVanished) {
  Signal connected, vanished, over;
  const auto hurried = [](Options& o) { o.heartbeat = std::chrono::milliseconds(25); };
  const auto body = [&](Rank& rank) {
    connected.give();
    if (rank.group.rank() == 1) {
      over.await();
      return 0;
    }
    vanished.await();
    Link& link = *rank.links[0][1];
    std::vector<std::byte> data(size_t{16} << 20);
    Status s = link.post_send(data.data(), data.size());
    if (s) s = failure(rank, link, std::chrono::seconds(30));
    over.give();
    const bool right = !s && s.error().code == ErrorCode::peer_lost && s.error().peer == 1;
    if (!right) std::fprintf(stderr, "%s\n", show(s).c_str());
    return right ? 0 : 1;
  };
  const auto unplug = [&](int there) {
    connected.await(2);
    EXPECT_TRUE(shell(fmt::format("nsenter -t {} -n ip addr flush dev w", there)));
    vanished.give();
  };
  if (!network_namespaces()) GTEST_SKIP() << "network namespaces need privileges";
  on_two_hosts(GetParam(), hurried, body, unplug);
}

}  // namespace
}  // namespace ringwood
