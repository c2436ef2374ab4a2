// A rank that fails once the ranks have met: all ranks end with its error, whenever they come to
// read it, and none waits for the deadline.
#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/told_store.h"
#include "transports/bootstrap/net.h"
#include "transports/mesh.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

constexpr int kRanks = 3;

// Changes what the rank that is to fail was told.
using Spoil = std::function<void(Options& options, LinkAgreement& links)>;
using Wrap = std::function<std::shared_ptr<Store>(int rank, std::shared_ptr<Store> store)>;

// What the ranks throw, by rank. `ended` is called when one has.
std::vector<Error> meet(int failing, const Spoil& spoil, const Wrap& wrap = nullptr,
                        const std::function<void()>& ended = nullptr) {
  const auto store = memory_store();
  std::vector<Error> errors(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      Options options = options_for("tcp", rank);
      LinkAgreement links;
      if (rank == failing) spoil(options, links);
      errors[static_cast<size_t>(rank)] = error_of([&] {
        make_mesh(wrap ? wrap(rank, store) : store, rank, kRanks, options, {}, "", links);
      });
      if (ended) ended();
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

void expect_all_say(const std::vector<Error>& errors, int failing, ErrorCode code,
                    const std::string& why) {
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, code) << error.message();
    EXPECT_EQ(error.rank, failing) << error.message();
    EXPECT_FALSE(error.host.empty());
    EXPECT_PRED2(contains, error.cause, why);
  }
}

void without_interface(Options& options, LinkAgreement& /*links*/) {
  options.socket_interface = "=no-such-interface";
}

TEST(FailingRank, WithoutAnInterfaceIsNamedByAll) {
  for (int failing = 0; failing < kRanks; ++failing)
    expect_all_say(meet(failing, without_interface), failing, ErrorCode::network,
                   "no interface to offer");
}

TEST(FailingRank, WithoutAFreePortIsNamedByAll) {
  Identity somebody;
  somebody.key = random_key();
  somebody.session = random_session();
  const std::string host = choose_local_address(Options{}, "", false).host;
  const auto taken = listen(somebody, host, Options{});
  const auto port = taken->address().port;
  for (int failing = 0; failing < kRanks; ++failing)
    expect_all_say(
        meet(failing, [&](Options& options,
                          LinkAgreement&) { options.ports.first = options.ports.last = port; }),
        failing, ErrorCode::network, "widen RINGWOOD_PORT_RANGE");
}

TEST(FailingRank, ThatCannotIntroduceItselfIsNamedByAll) {
  for (int failing : {1, 2})
    expect_all_say(meet(failing,
                        [](Options&, LinkAgreement& links) {
                          links.introduce = [](const std::string&) -> std::string {
                            throw Error(ErrorCode::system, "it has forgotten itself");
                          };
                        }),
                   failing, ErrorCode::system, "it has forgotten itself");
}

TEST(FailingRank, ThatCannotSetTheLinksIsNamedByAll) {
  expect_all_say(meet(0,
                      [](Options&, LinkAgreement& links) {
                        links.decide = [](const Mesh&,
                                          const std::vector<std::string>&) -> LinkSettings {
                          throw Error(ErrorCode::invalid_argument, "it cannot decide");
                        };
                      }),
                 0, ErrorCode::invalid_argument, "it cannot decide");
}

// Rank 2 comes when the others have ended. Rank 0, which it asks first, had a value and had read
// the reason of rank 1.
TEST(FailingRank, IsNamedToARankThatComesLater) {
  std::latch others(2);
  const auto late = [&](int rank, std::shared_ptr<Store> store) -> std::shared_ptr<Store> {
    if (rank != 2) return store;
    return std::make_shared<ToldStore>(std::move(store), [&](const std::string& call) {
      if (call.starts_with("set ") && call.ends_with("/addr/2")) others.wait();
    });
  };
  int ended = 0;
  std::mutex mutex;
  const auto count = [&] {
    std::lock_guard lock(mutex);
    if (++ended <= 2) others.count_down();
  };
  expect_all_say(meet(1, without_interface, late, count), 1, ErrorCode::network,
                 "no interface to offer");
}

}  // namespace
}  // namespace ringwood
