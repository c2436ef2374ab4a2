// A store that reports every call but has() before it is made ("get KEY", "set KEY", "add KEY",
// "remove KEY"; "poll KEY": an addition of 0), so that a test can fail or end its process at
// exactly this moment.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "transports/base/clock.h"
#include "transports/bootstrap/store.h"

namespace ringwood::testing {

class ToldStore final : public Store {
 public:
  using Tell = std::function<void(const std::string& call)>;
  ToldStore(std::shared_ptr<Store> store, Tell tell)
      : store_(std::move(store)), tell_(std::move(tell)) {}

  void set(const std::string& key, const std::string& value, Deadline deadline) override {
    tell_("set " + key);
    store_->set(key, value, deadline);
  }
  std::string get(const std::string& key, Deadline deadline) override {
    tell_("get " + key);
    return store_->get(key, deadline);
  }
  bool has(const std::string& key, Deadline deadline) override {
    return store_->has(key, deadline);
  }
  int64_t add(const std::string& key, int64_t delta, Deadline deadline) override {
    tell_((delta == 0 ? "poll " : "add ") + key);
    return store_->add(key, delta, deadline);
  }
  void remove(const std::string& key) override {
    tell_("remove " + key);
    store_->remove(key);
  }

 private:
  const std::shared_ptr<Store> store_;
  const Tell tell_;
};

}  // namespace ringwood::testing
