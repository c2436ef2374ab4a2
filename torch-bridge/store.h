// torch's rendezvous store as ours.
//
// Used as it is, not as a clone(): a communicator needs its store only while it is made, by the one
// thread that makes it, and for every new connection torch's server looks up a host name, which
// takes seconds where that service is slow. get() polls with check() until the key is there: a
// wait() of torch's TCPStore that ends in vain logs two lines and looks up two names, and one that
// does not end sees no signal and keeps the store's connection from everybody else. Only get()
// keeps its deadline: torch bounds the other calls by the timeout of its own store. Any thread may
// call; the GIL must not be held (a store written in Python takes it for itself).
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "torch-bridge/interrupt.h"
#include "transports/base/clock.h"
#include "transports/bootstrap/launch.h"
#include "transports/bootstrap/store.h"
#include "transports/bootstrap/store_polls.h"

namespace ringwood {

class TorchStore final : public Store {
 public:
  explicit TorchStore(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::string& value, Deadline /*deadline*/) override {
    guarded("set", key, [&] { store_->set(key, value); });
  }

  std::string get(const std::string& key, Deadline deadline) override {
    for (const auto began = Clock::now(); !has(key, deadline);) {
      if (deadline.passed())
        throw Error(ErrorCode::timeout,
                    "no rank has set '" + key + "' in torch's store within the time allowed");
      sleep_within(poll_pause(Clock::now() - began), deadline);
    }
    const std::vector<uint8_t> value = guarded("get", key, [&] { return store_->get(key); });
    return {value.begin(), value.end()};
  }

  // Polled by ranks that wait for others.
  bool has(const std::string& key, Deadline /*deadline*/) override {
    see_signals();
    return guarded("check", key, [&] { return store_->check({key}); });
  }

  int64_t add(const std::string& key, int64_t delta, Deadline /*deadline*/) override {
    return guarded("add", key, [&] { return store_->add(key, delta); });
  }

  // A store that cannot delete keeps a few small keys more; no reason to fail.
  void remove(const std::string& key) override {
    try {
      store_->deleteKey(key);
    } catch (const std::exception&) {
    }
  }

  std::string master_address() const override {
    c10::intrusive_ptr<c10d::Store> store = store_;
    while (auto* prefixed = dynamic_cast<c10d::PrefixStore*>(store.get()))
      store = prefixed->getUnderlyingStore();
    if (auto* tcp = dynamic_cast<c10d::TCPStore*>(store.get())) return tcp->getHost();
    return read_launch_environment().master_addr;
  }

 private:
  static Error failure(const char* what, const std::string& key, const std::exception& e) {
    auto* ours = dynamic_cast<const c10::Error*>(&e);
    const std::string why = ours ? ours->what_without_backtrace() : e.what();
    return Error(ErrorCode::network,
                 std::string("torch's store failed to ") + what + " '" + key + "': " + why);
  }

  // Now and then: it takes the GIL.
  void see_signals() {
    constexpr std::chrono::milliseconds kPeriod{500};
    if (!in_main_thread()) return;
    const auto now = Clock::now();
    if (now - seen_ < kPeriod) return;
    seen_ = now;
    if (const std::string why = run_signal_handlers(); !why.empty())
      throw Error(ErrorCode::aborted, why);
  }

  template <class F>
  static auto guarded(const char* what, const std::string& key, F&& f) -> decltype(f()) {
    try {
      return f();
    } catch (const std::exception& e) {
      throw failure(what, key, e);
    }
  }

  c10::intrusive_ptr<c10d::Store> store_;
  // The main thread's.
  Clock::time_point seen_ = Clock::now();
};

}  // namespace ringwood
