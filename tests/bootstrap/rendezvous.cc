// From a URL, arguments and launcher variables to a store, a rank and a size.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <thread>

#include "tests/bootstrap/free_port.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "transports/base/options.h"
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

TEST(Rendezvous, LeavesMasterPortToTheAgentOfTorchrun) {
  CleanEnvironment clean;
  std::shared_ptr<Store> agent, next;
  int port = 0;
  while (!next) {
    agent = tcp_store("localhost", 0, true, patiently());
    port = tcp_store_port(*agent);
    try {
      next = tcp_store("localhost", port + 1, true, patiently());
    } catch (const Error&) {
      // Another process has it: try another pair of ports.
    }
  }
  next.reset();
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

}  // namespace
}  // namespace ringwood
