// Ranks for the tests of links: each has its wait set, listener and transport, as the mesh would
// give it.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/patience.h"
#include "transports/base/wait_set.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/store.h"
#include "transports/transport.h"

namespace ringwood {

// A store that knows which keys were left behind.
class TidyStore final : public Store {
 public:
  void set(const std::string& key, const std::string& value, Deadline deadline) override {
    note(key, true);
    store_->set(key, value, deadline);
  }
  std::string get(const std::string& key, Deadline deadline) override {
    return store_->get(key, deadline);
  }
  bool has(const std::string& key, Deadline deadline) override {
    return store_->has(key, deadline);
  }
  int64_t add(const std::string& key, int64_t delta, Deadline deadline) override {
    note(key, true);
    return store_->add(key, delta, deadline);
  }
  void remove(const std::string& key) override {
    note(key, false);
    store_->remove(key);
  }
  std::set<std::string> left() {
    std::lock_guard lock(mutex_);
    return left_;
  }

 private:
  void note(const std::string& key, bool there) {
    std::lock_guard lock(mutex_);
    there ? (void)left_.insert(key) : (void)left_.erase(key);
  }
  std::shared_ptr<Store> store_ = memory_store();
  std::mutex mutex_;
  std::set<std::string> left_;
};

using MakeTransport = std::function<std::unique_ptr<Transport>()>;

struct Rank {
  Options options;
  std::shared_ptr<Store> store;  // of a process; threads share one
  std::unique_ptr<WaitSet> wait_set = std::make_unique<WaitSet>();
  std::unique_ptr<Listener> listener;
  Group group;
  std::unique_ptr<Transport> transport;
  LinkTable links;

  // Sleeps until something may have moved; false when nothing rang for long.
  // `quiet()` polls once more and says that nothing has.
  bool sleep(const std::function<bool()>& quiet) {
    transport->arm();
    const auto began = Clock::now();
    if (quiet()) wait_set->wait(testing::kPatience);
    transport->disarm();
    return Clock::now() - began < testing::kPatience;
  }
};

struct Ranks {
  std::shared_ptr<TidyStore> store = std::make_shared<TidyStore>();
  std::vector<std::unique_ptr<Rank>> all;
  Rank& operator[](int r) { return *all[r]; }
  int size() const { return static_cast<int>(all.size()); }
};

// Runs `body(rank)` in a thread each; the first exception is thrown again.
inline void on_each(Ranks& ranks, const std::function<void(Rank&)>& body) {
  std::vector<std::exception_ptr> failures(ranks.all.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks.all.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        body(*ranks.all[r]);
      } catch (...) {
        failures[r] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

struct Setting {
  int size = 2, channels = 2;
  std::vector<std::string> hosts;  // empty: all alike
  std::function<bool(int, int)> wanted = [](int, int) { return true; };
  std::function<void(Options&)> options = [](Options&) {};
  // Where each rank listens; empty: nowhere.
  std::function<std::string(int)> address = [](int) { return "127.0.0.1"; };
};

inline std::unique_ptr<Rank> make_rank(const Setting& setting, int r, Store& store,
                                       const Identity& session) {
  auto rank = std::make_unique<Rank>();
  setting.options(rank->options);
  rank->group.identity = session;
  rank->group.identity.rank = r;
  rank->group.identity.size = setting.size;
  rank->group.hosts =
      setting.hosts.empty() ? std::vector<std::string>(setting.size, "host") : setting.hosts;
  rank->group.options = &rank->options;
  rank->group.store = &store;
  rank->group.wait_set = rank->wait_set.get();
  if (const std::string address = setting.address(r); !address.empty()) {
    rank->listener = listen(rank->group.identity, address, rank->options);
    rank->group.listener = rank->listener.get();
  }
  rank->group.deadline = testing::patiently();
  return rank;
}

inline void connect(Rank& rank, const Setting& setting, const MakeTransport& make) {
  std::vector<bool> wanted(setting.size);
  const int me = rank.group.rank();
  for (int p = 0; p < setting.size; ++p) wanted[p] = p != me && setting.wanted(me, p);
  rank.transport = make();
  rank.links = rank.transport->connect(rank.group, wanted, setting.channels);
}

// Threads of this process, connected.
inline Ranks make_ranks(const MakeTransport& make, const Setting& setting = {}) {
  Ranks ranks;
  Identity session;
  session.session = random_session();
  session.key = random_key();
  std::vector<std::string> addresses;
  for (int r = 0; r < setting.size; ++r) {
    ranks.all.push_back(make_rank(setting, r, *ranks.store, session));
    addresses.push_back(ranks[r].listener ? to_string(ranks[r].listener->address()) : "");
  }
  for (auto& rank : ranks.all) rank->group.addresses = addresses;
  on_each(ranks, [&](Rank& rank) { connect(rank, setting, make); });
  for (auto& rank : ranks.all) rank->listener.reset();
  return ranks;
}

// The byte at `at` of message `k` from `from` to `to` on `channel`.
struct Pattern {
  uint64_t seed;
  Pattern(int from, int to, int channel, uint64_t k)
      : seed((uint64_t(from) << 48) ^ (uint64_t(to) << 32) ^ (uint64_t(channel) << 24) ^ k) {}
  std::byte at(size_t i) const {
    uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15 + (i >> 3) * 0xbf58476d1ce4e5b9;
    z ^= z >> 29;
    return static_cast<std::byte>(z >> ((i & 7) * 8));
  }
  void fill(std::span<std::byte> data) const {
    for (size_t i = 0; i < data.size(); ++i) data[i] = at(i);
  }
  std::vector<std::byte> make(size_t bytes) const {
    std::vector<std::byte> data(bytes);
    fill(data);
    return data;
  }
  // The first place that differs, or `bytes`.
  size_t compare(const std::byte* data, size_t bytes, size_t offset = 0) const {
    for (size_t i = 0; i < bytes; ++i) {
      if (data[i] != at(offset + i)) return i;
    }
    return bytes;
  }
};

}  // namespace ringwood
