#include "transports/bootstrap/store.h"

#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "transports/base/error.h"
#include "transports/bootstrap/store_polls.h"
#include "transports/bootstrap/store_value.h"

namespace ringwood {
namespace {

// A live store replies at once; one that is stopped must not delay a rank for ever.
constexpr Duration kDefaultTime = std::chrono::seconds(60);

// No call but get() waits for anything, so there is no deadline to keep.
class MemoryStore final : public Store {
 public:
  void set(const std::string& key, const std::string& value, Deadline /*deadline*/) override {
    std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }

  std::string get(const std::string& key, Deadline deadline) override {
    std::unique_lock lock(mutex_);
    auto began = Clock::now();
    for (;;) {
      if (auto found = values_.find(key); found != values_.end()) return found->second;
      if (deadline.passed()) throw key_timeout(key, began, "");
      changed_.wait_for(lock, std::chrono::milliseconds(deadline.left_ms()));
    }
  }

  bool has(const std::string& key, Deadline /*deadline*/) override {
    std::lock_guard lock(mutex_);
    return values_.count(key) > 0;
  }

  int64_t add(const std::string& key, int64_t delta, Deadline /*deadline*/) override {
    std::lock_guard lock(mutex_);
    std::string& value = values_[key];
    int64_t sum = add_to_value(key, value, delta);
    value = std::to_string(sum);
    changed_.notify_all();
    return sum;
  }

  void remove(const std::string& key) override {
    std::lock_guard lock(mutex_);
    values_.erase(key);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

class PrefixStore final : public Store {
 public:
  PrefixStore(std::shared_ptr<Store> store, std::string prefix)
      : store_(std::move(store)), prefix_(std::move(prefix)) {}
  void set(const std::string& key, const std::string& value, Deadline deadline) override {
    store_->set(prefix_ + key, value, deadline);
  }
  std::string get(const std::string& key, Deadline deadline) override {
    return store_->get(prefix_ + key, deadline);
  }
  bool has(const std::string& key, Deadline deadline) override {
    return store_->has(prefix_ + key, deadline);
  }
  int64_t add(const std::string& key, int64_t delta, Deadline deadline) override {
    return store_->add(prefix_ + key, delta, deadline);
  }
  void remove(const std::string& key) override { store_->remove(prefix_ + key); }
  std::string master_address() const override { return store_->master_address(); }

 private:
  std::shared_ptr<Store> store_;
  std::string prefix_;
};

}  // namespace

void Store::set(const std::string& key, const std::string& value) {
  set(key, value, Deadline::after(kDefaultTime));
}

bool Store::has(const std::string& key) { return has(key, Deadline::after(kDefaultTime)); }

int64_t Store::add(const std::string& key, int64_t delta) {
  return add(key, delta, Deadline::after(kDefaultTime));
}

std::shared_ptr<Store> memory_store() { return std::make_shared<MemoryStore>(); }

std::shared_ptr<Store> prefix_store(std::shared_ptr<Store> store, const std::string& prefix) {
  return std::make_shared<PrefixStore>(std::move(store), prefix);
}

Duration poll_pause(Duration waited) {
  return std::clamp<Duration>(waited / 8, std::chrono::milliseconds(1),
                              std::chrono::milliseconds(250));
}

void sleep_within(Duration pause, Deadline deadline) {
  for (const Deadline over = deadline.within(pause); !over.passed();)
    std::this_thread::sleep_for(
        std::min<Duration>(over.left(), std::chrono::milliseconds(over.left_ms())));
}

std::optional<std::string> get_if_there(Store& store, const std::string& key, Deadline deadline) {
  try {
    return store.get(key, deadline);
  } catch (const Error& e) {
    if (e.code != ErrorCode::timeout) throw;
    return std::nullopt;
  }
}

}  // namespace ringwood
