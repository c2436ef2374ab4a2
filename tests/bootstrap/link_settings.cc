// What rank 0 sets the links of all ranks to: alike on all of them, at no cost in messages, and
// refused where it is nothing that links can be set to.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/told_store.h"
#include "transports/bootstrap/meet/bootstrap_messages.h"
#include "transports/mesh.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

constexpr int kRanks = 3;

struct Met {
  std::vector<LinkSettings> settings;  // by rank
  std::vector<std::string> errors;     // likewise
};

using Agree = std::function<LinkAgreement(int rank)>;

Met meet(const std::function<std::shared_ptr<Store>(int rank)>& store, const Agree& agree,
         std::chrono::milliseconds patience = kPatience) {
  Met met{std::vector<LinkSettings>(kRanks), std::vector<std::string>(kRanks)};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      Options options = options_for("tcp", rank);
      options.init_timeout = patience;
      options.host_id = std::to_string(rank);
      try {
        const auto mesh =
            make_mesh(store(rank), rank, kRanks, options, {}, "announced", agree(rank));
        met.settings[static_cast<size_t>(rank)] = mesh->link_settings;
      } catch (const Error& error) {
        met.errors[static_cast<size_t>(rank)] = error.cause;
      }
    });
  for (std::thread& thread : threads) thread.join();
  return met;
}

LinkAgreement agreement(int rank, const LinkSettings& settings) {
  LinkAgreement links;
  links.introduce = [rank](const std::string& announcement) {
    EXPECT_EQ(announcement, "announced");
    return "rank " + std::to_string(rank);
  };
  links.decide = [rank, settings](const Mesh& mesh, const std::vector<std::string>& told) {
    EXPECT_EQ(rank, 0);
    EXPECT_EQ(mesh.host_numbers, (std::vector{0, 1, 2}));
    EXPECT_EQ(told, (std::vector<std::string>{"rank 0", "rank 1", "rank 2"}));
    return settings;
  };
  return links;
}

class Calls {
 public:
  std::shared_ptr<Store> count(std::shared_ptr<Store> store) {
    return std::make_shared<ToldStore>(std::move(store), [this](const std::string&) { ++calls_; });
  }
  int all() const { return calls_; }

 private:
  std::atomic<int> calls_{0};
};

TEST(LinkSettings, AreRankZerosOnAllRanks) {
  for (const char* const text :
       {"RINGWOOD_TCP_SOCKETS=3 RINGWOOD_SHM_RING_BYTES=65536", "RINGWOOD_TCP_SOCKETS=1", ""}) {
    const LinkSettings settings = parse_link_settings(text);
    const auto store = memory_store();
    const Met met =
        meet([&](int) { return store; }, [&](int rank) { return agreement(rank, settings); });
    EXPECT_EQ(met.errors, std::vector<std::string>(kRanks));
    EXPECT_EQ(met.settings, std::vector<LinkSettings>(kRanks, settings));
  }
}

TEST(LinkSettings, CostNoFurtherCallOfTheStore) {
  std::set<int> counts;
  for (const bool agrees : {false, true}) {
    const auto store = memory_store();
    Calls calls;
    // Rank 0 replies again to whoever it has not seen yet; the other ranks' calls are always alike.
    const Met met = meet([&](int rank) { return rank == 0 ? store : calls.count(store); },
                         [&](int rank) {
                           return agrees
                                      ? agreement(rank, parse_link_settings("RINGWOOD_VERBS_QPS=2"))
                                      : LinkAgreement{};
                         });
    EXPECT_EQ(met.errors, std::vector<std::string>(kRanks));
    counts.insert(calls.all());
  }
  EXPECT_EQ(counts.size(), 1u);
}

// Its bytes in the store are anybody's.
class ForgedStore final : public Store {
 public:
  ForgedStore(std::shared_ptr<Store> store, std::string settings)
      : store_(std::move(store)), settings_(std::move(settings)) {}
  void set(const std::string& key, const std::string& value, Deadline deadline) override {
    store_->set(key, value, deadline);
  }
  std::string get(const std::string& key, Deadline deadline) override {
    std::string value = store_->get(key, deadline);
    Contribution contribution;
    FirstPiece first;
    ValuesOfAll all;
    RankContact contact;
    if (!key.ends_with("addr/0") || !decode(value, contribution) ||
        !decode(contribution.value, first) || !decode(first.bytes, all) ||
        !decode(all.by_rank.at(0), contact))
      return value;
    contact.link_settings = settings_;
    all.by_rank[0] = encode(contact);
    first.bytes = encode(all);
    contribution.value = encode(first);
    return encode(contribution);
  }
  bool has(const std::string& key, Deadline deadline) override {
    return store_->has(key, deadline);
  }
  int64_t add(const std::string& key, int64_t delta, Deadline deadline) override {
    return store_->add(key, delta, deadline);
  }
  void remove(const std::string& key) override { store_->remove(key); }

 private:
  const std::shared_ptr<Store> store_;
  const std::string settings_;
};

TEST(LinkSettings, ThatCannotBeAreRefused) {
  const struct {
    std::string text, why;
  } cases[] = {{"RINGWOOD_TCP_SOCKETS=4000", "expected a number from 0 to 16"},
               {"RINGWOOD_KEY_FILE=/tmp/x", "is no setting of links"}};
  for (const auto& c : cases) {
    Met met;
    // Rank 0 waits in vain for those that have refused, who must have heard of it before.
    const auto all_hear = [&](std::chrono::milliseconds limit) {
      const auto store = memory_store();
      met = meet(
          [&](int rank) -> std::shared_ptr<Store> {
            if (rank == 0) return store;
            return std::make_shared<ForgedStore>(store, c.text);
          },
          [&](int rank) { return agreement(rank, {}); }, limit);
      return contains(met.errors[1], c.why) && contains(met.errors[2], c.why);
    };
    EXPECT_TRUE(with_growing_limit(std::chrono::milliseconds(2000), all_hear))
        << met.errors[1] << "; " << met.errors[2];
    for (const int rank : {1, 2})
      EXPECT_PRED2(contains, met.errors[static_cast<size_t>(rank)],
                   "rank 0 sets the links of all ranks to what they cannot be: ");
  }
}

}  // namespace
}  // namespace ringwood
