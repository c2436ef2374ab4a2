// Knobs from the environment, launchers, the texts of errors and the log.
#include "transports/base/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <functional>

#include "tests/base/scoped_environment.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "transports/base/host.h"
#include "transports/base/knobs/knobs.h"
#include "transports/bootstrap/launch.h"
#include "transports/bootstrap/net.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;
using std::chrono::milliseconds;

TEST(Options, ValuesAreTakenFromTheEnvironment) {
  struct Case {
    const char* name;
    const char* value;
    std::function<bool(const Options&)> is_right;
  };
  const Case cases[] = {
      {"RINGWOOD_TRANSPORTS", "shm,tcp",
       [](const Options& o) {
         return o.transports == std::vector<std::string>{"shm", "tcp"};
       }},
      {"RINGWOOD_TRANSPORTS", "", [](const Options& o) { return o.transports.empty(); }},
      {"RINGWOOD_SOCKET_IFNAME", "^lo",
       [](const Options& o) { return o.socket_interface == "^lo"; }},
      {"NCCL_SOCKET_IFNAME", "eth", [](const Options& o) { return o.socket_interface == "eth"; }},
      {"GLOO_SOCKET_IFNAME", "eth1", [](const Options& o) { return o.socket_interface == "eth1"; }},
      {"RINGWOOD_TCP_SOCKETS", "4", [](const Options& o) { return o.tcp_sockets == 4; }},
      {"RINGWOOD_PORT_RANGE", "50000-50010",
       [](const Options& o) { return o.ports.first == 50000 && o.ports.last == 50010; }},
      {"RINGWOOD_PORT_RANGE", "7000",
       [](const Options& o) { return o.ports.first == 7000 && o.ports.last == 7000; }},
      {"RINGWOOD_PORT_RANGE", "0-0",
       [](const Options& o) { return o.ports.first == 0 && o.ports.last == 0; }},
      {"RINGWOOD_TIMEOUT", "2.5", [](const Options& o) { return o.timeout == milliseconds(2500); }},
      {"RINGWOOD_INIT_TIMEOUT", "600",
       [](const Options& o) { return o.init_timeout == milliseconds(600000); }},
      {"RINGWOOD_REMEASURE", "5",
       [](const Options& o) { return o.remeasure == milliseconds(5000); }},
      {"RINGWOOD_HEARTBEAT_MS", "50",
       [](const Options& o) { return o.heartbeat == milliseconds(50); }},
      {"RINGWOOD_SHM_RING_BYTES", "64K",
       [](const Options& o) { return o.shm_ring_bytes == 65536; }},
      {"NCCL_IB_DISABLE", "1", [](const Options& o) { return o.verbs.disable; }},
      {"NCCL_IB_HCA", "=mlx5_0:1,mlx5_2:1",
       [](const Options& o) { return o.verbs.devices == "=mlx5_0:1,mlx5_2:1"; }},
      {"NCCL_IB_GID_INDEX", "3", [](const Options& o) { return o.verbs.gid_index == 3; }},
      {"NCCL_IB_ADDR_FAMILY", "AF_INET6",
       [](const Options& o) { return o.verbs.address_family == "AF_INET6"; }},
      {"NCCL_IB_ADDR_RANGE", "10.0.0.0/8",
       [](const Options& o) { return o.verbs.address_range == "10.0.0.0/8"; }},
      {"NCCL_IB_ROCE_VERSION_NUM", "1", [](const Options& o) { return o.verbs.roce_version == 1; }},
      {"NCCL_IB_TC", "106", [](const Options& o) { return o.verbs.traffic_class == 106; }},
      {"NCCL_IB_SL", "3", [](const Options& o) { return o.verbs.service_level == 3; }},
      {"NCCL_IB_TIMEOUT", "22", [](const Options& o) { return o.verbs.timeout == 22; }},
      {"NCCL_IB_RETRY_CNT", "6", [](const Options& o) { return o.verbs.retries == 6; }},
      {"NCCL_IB_QPS_PER_CONNECTION", "4",
       [](const Options& o) { return o.verbs.queue_pairs == 4; }},
      {"NCCL_IB_PKEY", "1", [](const Options& o) { return o.verbs.partition == 1; }},
      {"RINGWOOD_VERBS_RING_BYTES", "4M",
       [](const Options& o) { return o.verbs.ring_bytes == 4u << 20; }},
      {"RINGWOOD_VERBS_ZERO_COPY_BYTES", "64K",
       [](const Options& o) { return o.verbs.zero_copy_bytes == 64u << 10; }},
      {"RINGWOOD_VERBS_REGISTERED_BYTES", "0",
       [](const Options& o) { return o.verbs.registered_bytes == 0; }},
      {"RINGWOOD_SEGMENT_BYTES", "3M",
       [](const Options& o) { return o.segment_bytes == 3u << 20; }},
      {"RINGWOOD_NUMA_NODE", "3", [](const Options& o) { return o.numa_node == 3; }},
      {"RINGWOOD_TOLERANCE", "0.004", [](const Options& o) { return o.tolerance == 0.004; }},
      {"RINGWOOD_SPIN_US", "-1", [](const Options& o) { return o.spin_us == -1; }},
      {"RINGWOOD_ALGORITHM", "all_reduce:ring",
       [](const Options& o) { return o.algorithm == "all_reduce:ring"; }},
      {"RINGWOOD_CALIBRATION", "refresh",
       [](const Options& o) { return o.calibration == "refresh"; }},
      {"RINGWOOD_LOG", "debug", [](const Options& o) { return o.log_level == LogLevel::debug; }},
  };
  for (const Case& c : cases) {
    ScopedEnvironment environment(Environment{{c.name, c.value}});
    EXPECT_TRUE(c.is_right(Options::from_environment())) << c.name << "=" << c.value;
  }
}

TEST(Options, TheCacheIsWhereTheUserHasIt) {
  const std::pair<Environment, const char*> cases[] = {
      {{{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}, "/x/ringwood"},
      {{{"XDG_CACHE_HOME", "not/absolute"}, {"HOME", "/h"}}, "/h/.cache/ringwood"},
      {{{"HOME", "/h"}}, "/h/.cache/ringwood"},
      {{{"HOME", ""}}, ""},
      {{}, ""},
  };
  for (const auto& [variables, expected] : cases) {
    ScopedEnvironment environment(variables);
    EXPECT_EQ(cache_directory(), expected);
  }
}

TEST(Options, OwnNameWinsOverAliases) {
  ScopedEnvironment environment(
      Environment{{"GLOO_SOCKET_IFNAME", "g"}, {"RINGWOOD_SOCKET_IFNAME", "r"}});
  EXPECT_EQ(Options::from_environment().socket_interface, "r");
}

TEST(Options, ValuesThatCannotBeReadAreNamed) {
  const std::array<const char*, 3> cases[] = {
      {"RINGWOOD_TCP_SOCKETS", "17", "expected a number from 0 to 16"},
      {"RINGWOOD_TCP_SOCKETS", "4x", "expected a number from 0 to 16"},
      {"RINGWOOD_TRANSPORTS", "shm,,tcp", "expected names separated by single commas"},
      {"RINGWOOD_PORT_RANGE", "50010-50000", "expected ports as first-last, such as 50000-50010"},
      {"RINGWOOD_PORT_RANGE", "50000-", "expected ports as first-last, such as 50000-50010"},
      {"RINGWOOD_PORT_RANGE", "0-10", "expected ports as first-last, such as 50000-50010"},
      {"RINGWOOD_PORT_RANGE", "1-65536", "expected ports as first-last, such as 50000-50010"},
      {"RINGWOOD_TIMEOUT", "5min", "expected seconds, from 0.001"},
      {"RINGWOOD_TIMEOUT", "0", "expected seconds, from 0.001"},
      {"RINGWOOD_TIMEOUT", "nan", "expected seconds, from 0.001"},
      {"RINGWOOD_TIMEOUT", "inf", "expected seconds, from 0.001"},
      {"RINGWOOD_INIT_TIMEOUT", "-3", "expected seconds, from 0.001"},
      {"RINGWOOD_HEARTBEAT_MS", "9", "expected a number from 10 to 60000"},
      {"RINGWOOD_SHM_RING_BYTES", "100000", "expected a power of two from 4096"},
      {"RINGWOOD_SHM_RING_BYTES", "99999999999999999999", "expected a power of two from 4096"},
      {"RINGWOOD_SHM_RING_BYTES", "18014398509481984K", "expected a power of two from 4096"},
      {"RINGWOOD_VERBS_SL", "16", "expected a number from 0 to 15"},
      {"NCCL_IB_ADDR_FAMILY", "IPv4", "expected AF_INET or AF_INET6"},
      {"NCCL_IB_TIMEOUT", "0", "expected a number from 1 to 31"},
      {"RINGWOOD_SEGMENT_BYTES", "K", "expected bytes from 1"},
      {"RINGWOOD_CALIBRATION", "on", "expected keep, refresh or off"},
      {"RINGWOOD_TOLERANCE", "1", "expected a relative error, from 0"},
      {"RINGWOOD_TOLERANCE", "-0.1", "expected a relative error, from 0"},
      {"RINGWOOD_TOLERANCE", "nan", "expected a relative error, from 0"},
      {"RINGWOOD_TOLERANCE", "0.004x", "expected a relative error, from 0"},
      {"RINGWOOD_LOG", "loud", "expected error, warn, info or debug"},
  };
  for (const auto& [name, value, text] : cases) {
    ScopedEnvironment environment(Environment{{name, value}});
    Error error = error_of([] { Options::from_environment(); });
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    EXPECT_PRED2(contains, error.cause, std::string(name) + "=\"" + value + "\": " + text);
  }
}

TEST(Options, UnknownNamesAreWarnedAboutOnceWithTheNearest) {
  Processes one(1, [](int, const Reporter& reporter) {
    ScopedEnvironment environment(
        Environment{{"RINGWOOD_TIMOUT", "3"}, {"RINGWOOD_LOGG", "x"}, {"RINGWOODISH", "y"}});
    Options::from_environment();
    Options::from_environment();
    reporter.say("done");
  });
  EXPECT_EQ(one.line(0), "done");
  std::string log = one.log_of(0);
  std::string warning =
      "RINGWOOD_TIMOUT is not a known variable and has no effect; the nearest is RINGWOOD_TIMEOUT";
  EXPECT_PRED2(contains, log, warning);
  EXPECT_EQ(log.find(warning, log.find(warning) + 1), log.npos) << "once";
  EXPECT_PRED2(contains, log, "the nearest is RINGWOOD_LOG");
  EXPECT_FALSE(contains(log, "RINGWOODISH"));
}

TEST(Options, NamesOfNcclAreSaidOnceWhetherTheyMeanSomethingOrNot) {
  Processes one(1, [](int, const Reporter& reporter) {
    ScopedEnvironment environment(Environment{{"RINGWOOD_LOG", "info"},
                                              {"NCCL_IB_TC", "104"},
                                              {"NCCL_IB_SPLIT_DATA_ON_QPS", "0"},
                                              {"NCCL_CROSS_NIC", "1"},
                                              {"NCCL_BUFFSIZE", ""}});
    Options::from_environment();
    Options::from_environment();
    reporter.say("done");
  });
  EXPECT_EQ(one.line(0), "done");
  const std::string log = one.log_of(0);
  for (const std::string& said :
       {std::string("NCCL_IB_TC=104 is taken as RINGWOOD_VERBS_TRAFFIC_CLASS"),
        std::string("set, but has no counterpart here and is ignored: NCCL_CROSS_NIC, "
                    "NCCL_IB_SPLIT_DATA_ON_QPS\n")}) {
    EXPECT_PRED2(contains, log, said);
    EXPECT_EQ(log.find(said, log.find(said) + 1), log.npos) << "once";
  }
}

// ---- launchers ---------------------------------------------------------------------------------

struct Launch {
  const char* name;
  Environment variables;
  LaunchEnvironment expected;  // master_port -1: some port from 20000 to 31999
};

const Launch kLaunches[] = {
    {"nothing", {}, {-1, -1, -1, -1, "", 0, ""}},
    {"torch",
     {{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}},
     {3, 8, -1, -1, "a", 29500, "env"}},
    {"torchrun",
     {{"RANK", "3"},
      {"WORLD_SIZE", "8"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"MASTER_ADDR", "a"},
      {"MASTER_PORT", "29500"},
      {"TORCHELASTIC_RUN_ID", "x"}},
     {3, 8, 1, 2, "a", 29500, "torchrun"}},
    {"rank alone", {{"RANK", "0"}}, {0, -1, -1, -1, "", 0, "env"}},
    {"Open MPI on one host",
     {{"OMPI_COMM_WORLD_RANK", "1"},
      {"OMPI_COMM_WORLD_SIZE", "2"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
      {"OMPI_MCA_ess_base_jobid", "1970733057"},
      {"PMIX_RANK", "1"}},
     {1, 2, 1, 2, "127.0.0.1", -1, "mpirun"}},
    {"Open MPI on two hosts",
     {{"OMPI_COMM_WORLD_RANK", "1"},
      {"OMPI_COMM_WORLD_SIZE", "4"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
     {1, 4, 1, 2, "", 0, "mpirun"}},
    {"the user's master stays",
     {{"OMPI_COMM_WORLD_RANK", "1"},
      {"OMPI_COMM_WORLD_SIZE", "2"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
      {"MASTER_ADDR", "m"},
      {"MASTER_PORT", "1234"}},
     {1, 2, -1, 2, "m", 1234, "mpirun"}},
    {"MPICH",
     {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}},
     {0, 2, 0, 2, "127.0.0.1", -1, "mpirun"}},
    {"Slurm on one host",
     {{"SLURM_PROCID", "1"},
      {"SLURM_NTASKS", "2"},
      {"SLURM_LOCALID", "1"},
      {"SLURM_NNODES", "1"},
      {"SLURM_JOB_ID", "42"}},
     {1, 2, 1, -1, "127.0.0.1", -1, "srun"}},
    {"Slurm with a range of hosts",
     {{"SLURM_PROCID", "5"},
      {"SLURM_NTASKS", "8"},
      {"SLURM_STEP_NUM_TASKS", "6"},
      {"SLURM_LOCALID", "1"},
      {"SLURM_JOB_ID", "42"},
      {"SLURM_JOB_NODELIST", "node[03-07,9],login"},
      {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"},
      {"PMI_RANK", "5"},
      {"PMI_SIZE", "8"}},
     {5, 6, 1, -1, "node03", -1, "srun"}},
    {"Slurm with plain hosts",
     {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_NODELIST", "alpha,beta"}},
     {0, 2, -1, -1, "alpha", -1, "srun"}},
    {"Slurm with suffixes",
     {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_NODELIST", "rack[1-2]-a,beta"}},
     {0, 2, -1, -1, "rack1-a", -1, "srun"}},
    {"Slurm with a list that is too clever",
     {{"SLURM_PROCID", "0"},
      {"SLURM_NTASKS", "2"},
      {"SLURM_JOB_NODELIST", "r[1-2]n[1-2]"},
      {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"}},
     {0, 2, -1, -1, "10.0.0.9", -1, "srun"}},
};

TEST(Launch, EveryLauncherIsUnderstood) {
  for (const Launch& c : kLaunches) {
    ScopedEnvironment environment(c.variables);
    LaunchEnvironment found = read_launch_environment();
    EXPECT_EQ(found.rank, c.expected.rank) << c.name;
    EXPECT_EQ(found.world_size, c.expected.world_size) << c.name;
    EXPECT_EQ(found.local_rank, c.expected.local_rank) << c.name;
    EXPECT_EQ(found.local_size, c.expected.local_size) << c.name;
    EXPECT_EQ(found.master_addr, c.expected.master_addr) << c.name;
    EXPECT_EQ(found.launcher, c.expected.launcher) << c.name;
    if (c.expected.master_port >= 0) {
      EXPECT_EQ(found.master_port, c.expected.master_port) << c.name;
    } else {
      EXPECT_GE(found.master_port, 20000) << c.name;
      EXPECT_LT(found.master_port, 32000) << c.name;
    }
  }
}

TEST(Launch, PortIsTheJobsOwn) {
  auto port = [](const char* job) {
    ScopedEnvironment environment(Environment{{"SLURM_PROCID", "0"},
                                              {"SLURM_NTASKS", "1"},
                                              {"SLURM_NNODES", "1"},
                                              {"SLURM_JOB_ID", job}});
    return read_launch_environment().master_port;
  };
  EXPECT_EQ(port("1"), port("1"));
  EXPECT_NE(port("1"), port("2"));
}

TEST(Launch, BadNumbersAreNamed) {
  const std::array<const char*, 2> cases[] = {{"RANK", "first"},
                                              {"RANK", "-1"},
                                              {"MASTER_PORT", "http"},
                                              {"MASTER_PORT", "65536"},
                                              {"SLURM_PROCID", "1x"}};
  for (const auto& [name, value] : cases) {
    ScopedEnvironment environment(Environment{{name, value}});
    Error error = error_of([] { read_launch_environment(); });
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    EXPECT_PRED2(contains, error.cause, std::string(name) + "=\"" + value + "\": expected a ");
  }
}

// ---- errors and the log ------------------------------------------------------------------------

TEST(Errors, MessageSaysWhatIsKnown) {
  Error error(ErrorCode::peer_lost, "connection reset");
  EXPECT_EQ(error.message(), "connection reset (peer_lost)");
  error.peer = 5;
  EXPECT_EQ(error.message(), "peer 5: connection reset (peer_lost)");
  error.transport = "tcp";
  error.sequence = 17;
  EXPECT_EQ(error.message(), "operation #17, peer 5 over tcp: connection reset (peer_lost)");
  error.collective = "all_reduce";
  error.step = 7;
  error.rank = 2;
  error.host = "host-b";
  EXPECT_EQ(
      error.message(),
      "rank 2 (host-b): all_reduce #17 step 7, peer 5 over tcp: connection reset (peer_lost)");
  EXPECT_STREQ(error.what(), error.message().c_str());
  error.step = 8;
  EXPECT_STREQ(error.what(), error.message().c_str()) << "layers may add to it later";
}

TEST(Log, LinesSayWhoAndWhatAndKeepToTheLevel) {
  Processes one(1, [](int, const Reporter& reporter) {
    log(LogLevel::warn, "net", "before");
    log_configure(LogLevel::info, 4);
    log(LogLevel::info, "net", "{} braces are text");
    log(LogLevel::debug, "net", "hidden");
    log(LogLevel::error, "shm", "loud");
    reporter.say("done");
  });
  EXPECT_EQ(one.line(0), "done");
  std::string begin = host_name() + ":" + std::to_string(one.pid(0));
  EXPECT_EQ(one.log_of(0), begin + " [-] RINGWOOD WARN net: before\n" + begin +
                               " [4] RINGWOOD INFO net: {} braces are text\n" + begin +
                               " [4] RINGWOOD ERROR shm: loud\n");
}

}  // namespace
}  // namespace ringwood
