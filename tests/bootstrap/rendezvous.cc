// From a URL, arguments and launcher variables to a store, a rank and a size.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <optional>
#include <thread>

#include "tests/bootstrap/free_port.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "transports/base/log.h"
#include "transports/base/options.h"
#include "transports/base/owned_fd.h"
#include "transports/bootstrap/sockets.h"
#include "transports/bootstrap/store.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

class CleanEnvironment {
 public:
  CleanEnvironment() {
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                             "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}) {
      unsetenv(name);
    }
  }
};

TEST(Rendezvous, UrlsThatCannotWorkAreExplained) {
  CleanEnvironment clean;
  struct Case {
    const char* url;
    int rank, size;
    const char* text;
  };
  const Case cases[] = {
      {"nonsense", 0, 1, "expected env://, file:///path or tcp://host:port"},
      {"ftp://x", 0, 1, "expected env://, file:///path or tcp://host:port"},
      {"env://", -1, -1, "the rank is not known; set RANK"},
      {"env://", 0, -1, "the size is not known; set WORLD_SIZE"},
      {"env://", 0, 1, "MASTER_ADDR is not set"},
      {"tcp://host", 0, 1, "\"host\" is not an address"},
      {"tcp://::1:80", 0, 1, "\"::1:80\" is not an address"},
      {"file://relative", 0, 1, "expected an absolute path"},
      {"tcp://h:1?rank=x", -1, 1, "rank=\"x\" is not a number"},
      {"tcp://h:1?color=red", 0, 1, "\"color\" is not known"},
      {"tcp://h:1?rank=2&world_size=2", -1, -1, "rank 2 is not below the size 2"},
  };
  for (const Case& c : cases) {
    Error error = error_of(
        [&] { rendezvous(c.url, c.rank, c.size, within(0), Options::from_environment()); });
    EXPECT_EQ(error.code, ErrorCode::invalid_argument) << c.url;
    EXPECT_TRUE(contains(error.cause, c.text)) << c.url << ": " << error.cause;
  }
}

TEST(Rendezvous, TakesRankAndSizeFromArgumentThenUrlThenLauncher) {
  CleanEnvironment clean;
  setenv("RANK", "2", 1);
  setenv("WORLD_SIZE", "9", 1);
  TemporaryPath place;
  std::string url = "file://" + place.path();
  struct Case {
    std::string url;
    int rank, size, expected_rank, expected_size;
  };
  const Case cases[] = {{url, -1, -1, 2, 9},
                        {url + "?rank=3&world_size=5", -1, -1, 3, 5},
                        {url + "?rank=3&world_size=5", 1, -1, 1, 5},
                        {url + "?rank=3", 4, 7, 4, 7}};
  for (const Case& c : cases) {
    Rendezvous met = rendezvous(c.url, c.rank, c.size, patiently(), Options::from_environment());
    EXPECT_EQ(met.rank, c.expected_rank) << c.url;
    EXPECT_EQ(met.size, c.expected_size) << c.url;
  }
  unsetenv("RANK");
  unsetenv("WORLD_SIZE");
}

TEST(Rendezvous, EnvironmentMeetsAtTheMaster) {
  CleanEnvironment clean;
  setenv("MASTER_ADDR", "localhost", 1);
  setenv("MASTER_PORT", std::to_string(free_port()).c_str(), 1);
  Rendezvous other;
  std::thread rank1(
      [&] { other = rendezvous("env://", 1, 2, patiently(), Options::from_environment()); });
  Rendezvous master = rendezvous("env://", 0, 2, patiently(), Options::from_environment());
  rank1.join();
  master.store->set("key", "value");
  EXPECT_EQ(other.store->get("key", patiently()), "value");
  EXPECT_EQ(other.store->master_address(), "localhost");
  unsetenv("MASTER_ADDR");
  unsetenv("MASTER_PORT");
}

// A store at a port P so that P + 1 is free, and stays so: neither is one that the kernel gives to
// those who ask for any.
std::shared_ptr<Store> store_before_a_free_port() {
  constexpr int kFirst = 10'000, kCount = 20'000;
  for (int tried = 0;; tried++) {
    const int port = kFirst + (getpid() * 16 + 2 * tried) % kCount;
    try {
      std::shared_ptr<Store> made = tcp_store("localhost", port, true, patiently());
      tcp_store("localhost", port + 1, true, patiently());
      return made;
    } catch (const Error&) {
      if (tried == kCount) throw;  // Another process has it: try the next pair.
    }
  }
}

TEST(Rendezvous, LeavesMasterPortToTheAgentOfTorchrun) {
  CleanEnvironment clean;
  const std::shared_ptr<Store> agent = store_before_a_free_port();
  const int port = tcp_store_port(*agent);
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"RANK", "0"},
                                          {"WORLD_SIZE", "1"},
                                          {"TORCHELASTIC_RUN_ID", "none"},
                                          {"MASTER_ADDR", "localhost"},
                                          {"MASTER_PORT", std::to_string(port)}})
    setenv(name.c_str(), value.c_str(), 1);
  const Rendezvous met = rendezvous("env://", -1, -1, patiently(), Options::from_environment());
  EXPECT_EQ(tcp_store_port(*met.store), port + 1);
  for (const char* name :
       {"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"})
    unsetenv(name);
}

// A connection to a server of its own, from a port that the kernel chose.
class OutgoingConnection {
 public:
  OutgoingConnection()
      : listening_(listen_on(resolve("127.0.0.1", 0).front())),
        near_(connect_once({local_address(listening_.get())}, patiently()).fd),
        far_(accept_when_there()) {}
  int port() const { return local_address(near_.get()).numeric().port; }
  // Who closes first keeps the port for a minute; so that is the other end.
  void close() {
    far_ = OwnedFd();
    near_ = OwnedFd();
  }

 private:
  int accept_when_there() {
    pollfd one{listening_.get(), POLLIN, 0};
    poll(&one, 1, -1);
    return accept_connection(listening_.get());
  }
  OwnedFd listening_, near_, far_;
};

bool warned_of(int port) {
  const std::string what = "connection of this host has 127.0.0.1:" + std::to_string(port);
  for (const LoggedLine& line : last_logged())
    if (contains(line.text, what)) return true;
  return false;
}

// torchrun, or a free port that was looked for beforehand, leaves the port to whoever comes first.
TEST(Rendezvous, WaitsForAPortThatAnOutgoingConnectionHas) {
  CleanEnvironment clean;
  OutgoingConnection other;
  const int port = other.port();
  std::optional<Rendezvous> met;
  std::string refused;
  std::atomic<bool> over{false};
  std::thread rank0([&] {
    try {
      met = rendezvous("tcp://127.0.0.1:" + std::to_string(port), 0, 1, patiently(), {});
    } catch (const Error& error) {
      refused = error.cause;
    }
    over = true;
  });
  while (!warned_of(port) && !over) std::this_thread::yield();
  other.close();
  rank0.join();
  ASSERT_TRUE(met) << refused;
  EXPECT_EQ(tcp_store_port(*met->store), port);
}

TEST(Rendezvous, SaysThatAConnectionKeepsThePort) {
  CleanEnvironment clean;
  OutgoingConnection other;
  const std::string at = "127.0.0.1:" + std::to_string(other.port());
  const Error error = error_of([&] { rendezvous("tcp://" + at, 0, 1, within(0.05), Options()); });
  EXPECT_TRUE(contains(error.cause, "cannot listen on " + at +
                                        ": listen: Address already in use, "
                                        "by an outgoing connection of this host, for "))
      << error.cause;
  EXPECT_TRUE(contains(error.cause, " s; choose another MASTER_PORT")) << error.cause;
}

}  // namespace
}  // namespace ringwood
