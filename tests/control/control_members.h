// One rank's control connection, set up as a group would, and what its handlers were told.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/processes.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/store.h"
#include "transports/control/control.h"
#include "transports/control/status/status_socket.h"

namespace ringwood::testing {

// Any thread may look; the control thread writes.
class Told {
 public:
  Control::Handlers handlers() {
    Control::Handlers handlers;
    handlers.op_status = [this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(starve_ms.exchange(0)));
      std::lock_guard lock(mutex_);
      return op_statuses_;
    };
    handlers.failed = [this](const Error& error) {
      std::lock_guard lock(mutex_);
      failed_.push_back(error);
      if (on_failed) on_failed(error);
      changed_.notify_all();
    };
    handlers.left = [this](int rank) {
      std::lock_guard lock(mutex_);
      EXPECT_TRUE(left_.insert(rank).second) << "rank " << rank << " left twice";
      changed_.notify_all();
    };
    handlers.prepare = [this](uint32_t epoch, const std::string& parameters) {
      run(on_prepare_);
      note_change("prepare " + std::to_string(epoch) + " " + parameters);
      std::lock_guard lock(mutex_);
      return first_;
    };
    handlers.commit = [this](uint32_t epoch, uint64_t from) {
      run(on_commit_);
      note_change("commit " + std::to_string(epoch) + " " + std::to_string(from));
      return true;
    };
    handlers.abandon = [this](uint32_t epoch) { note_change("abandon " + std::to_string(epoch)); };
    handlers.paths = [this] {
      std::lock_guard lock(mutex_);
      return std::exchange(paths_, {});
    };
    handlers.reported = [this](const PathReport& path) {
      std::lock_guard lock(mutex_);
      reported_.push_back(path);
      changed_.notify_all();
    };
    handlers.next_change = [this] {
      std::lock_guard lock(mutex_);
      return std::exchange(next_change_, {});
    };
    return handlers;
  }
  void set_op_status(OpStatus op_status) { set_op_statuses({std::move(op_status)}); }
  void set_op_statuses(OpStatuses op_statuses) {
    std::lock_guard lock(mutex_);
    op_statuses_ = std::move(op_statuses);
  }
  // False at the deadline.
  bool await_failed(Deadline deadline = patiently()) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline.at(), [&] { return !failed_.empty(); });
  }
  bool await_left(const std::set<int>& ranks, Deadline deadline = patiently()) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline.at(), [&] { return left_ == ranks; });
  }
  std::vector<Error> failed() const {
    std::lock_guard lock(mutex_);
    return failed_;
  }
  // What prepare answers, and what it and commit do first.
  void set_first(std::optional<uint64_t> first) {
    std::lock_guard lock(mutex_);
    first_ = first;
  }
  void on_prepare(std::function<void()> does) {
    std::lock_guard lock(mutex_);
    on_prepare_ = std::move(does);
  }
  void on_commit(std::function<void()> does) {
    std::lock_guard lock(mutex_);
    on_commit_ = std::move(does);
  }
  // What the handlers of a change of parameters were told, in order.
  std::vector<std::string> changes() const {
    std::lock_guard lock(mutex_);
    return changes_;
  }
  bool await_changes(size_t count, Deadline deadline = patiently()) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline.at(), [&] { return changes_.size() >= count; });
  }
  // What this rank has to report once, and to propose at rank 0.
  void set_paths(std::vector<PathReport> paths) {
    std::lock_guard lock(mutex_);
    paths_ = std::move(paths);
  }
  void set_next_change(Proposal change) {
    std::lock_guard lock(mutex_);
    next_change_ = std::move(change);
  }
  std::vector<PathReport> await_reports(size_t count, Deadline deadline = patiently()) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline.at(), [&] { return reported_.size() >= count; });
    return reported_;
  }
  std::set<int> left() const {
    std::lock_guard lock(mutex_);
    return left_;
  }

  std::function<void(const Error&)> on_failed;  // set before there is a control
  // For so long the control thread gets no core: once, at its next heartbeat, which sets this to 0.
  std::atomic<int> starve_ms{0};

 private:
  void run(const std::function<void()>& guarded) const {
    std::unique_lock lock(mutex_);
    const auto does = guarded;
    lock.unlock();
    if (does) does();
  }
  void note_change(std::string what) {
    std::lock_guard lock(mutex_);
    changes_.push_back(std::move(what));
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> changes_;
  std::optional<uint64_t> first_ = 0;
  std::function<void()> on_prepare_, on_commit_;
  OpStatuses op_statuses_ = {OpStatus()};
  std::vector<Error> failed_;
  std::set<int> left_;
  std::vector<PathReport> paths_, reported_;
  Proposal next_change_;
};

class Member {
 public:
  // Collective over `store`. `host`: where this rank listens.
  Member(Store& store, int rank, int size, const Options& options = {},
         Deadline deadline = patiently(), std::function<void(const Error&)> on_failed = {},
         const std::string& host = "127.0.0.1")
      : options_(options) {
    told.on_failed = std::move(on_failed);
    group_.identity = agree(store, rank, size, deadline);
    group_.options = &options_;
    group_.deadline = deadline;
    listener_ = listen(group_.identity, host, options_);
    group_.listener = listener_.get();
    store.set("address/" + std::to_string(rank), to_string(listener_->address()));
    group_.addresses.push_back(store.get("address/0", deadline));
    Control::Handlers handlers = told.handlers();
    handlers.report = [this] {
      std::lock_guard lock(report_mutex_);
      return report_;
    };
    handlers.trace = [this](TraceDone done) {
      std::function<void(TraceDone)> make;
      {
        std::lock_guard lock(report_mutex_);
        make = make_trace_;
      }
      if (!make) throw Error(ErrorCode::unsupported, "no records here");
      make(std::move(done));
    };
    control = make_control(group_, std::move(handlers));
  }
  const Group& group() const { return group_; }
  // What it tells those who watch.
  void set_report(std::string report) {
    std::lock_guard lock(report_mutex_);
    report_ = std::move(report);
  }

  // What makes the text of its records.
  void set_trace(std::function<void(TraceDone)> make) {
    std::lock_guard lock(report_mutex_);
    make_trace_ = std::move(make);
  }

  static Identity agree(Store& store, int rank, int size, Deadline deadline) {
    Identity me;
    me.rank = rank;
    me.size = size;
    if (rank == 0) {
      auto key = random_key();
      auto session = random_session();
      store.set("key",
                std::string(key.begin(), key.end()) + std::string(session.begin(), session.end()));
    }
    std::string secret = store.get("key", deadline);
    std::memcpy(me.key.data(), secret.data(), me.key.size());
    std::memcpy(me.session.data(), secret.data() + me.key.size(), me.session.size());
    return me;
  }

 private:
  Options options_;
  Group group_;
  std::unique_ptr<Listener> listener_;
  std::mutex report_mutex_;
  std::string report_;
  std::function<void(TraceDone)> make_trace_;

 public:
  Told told;
  std::unique_ptr<Control> control;  // ends before what it tells
};

// All ranks of a group as objects of this process, each with its own control thread.
inline std::vector<std::unique_ptr<Member>> sit_down(int n, const Options& options = {}) {
  auto store = memory_store();
  std::vector<std::unique_ptr<Member>> members(n);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back(
        [&, rank] { members[rank] = std::make_unique<Member>(*store, rank, n, options); });
  }
  for (auto& thread : threads) thread.join();
  return members;
}

inline Options with_heartbeat(int ms) {
  Options options;
  options.heartbeat = std::chrono::milliseconds(ms);
  return options;
}

inline Options unhurried() { return with_heartbeat(kUnhurried.count()); }

// The status sockets of a process, by rank.
inline std::vector<StatusName> names_of(int pid = getpid()) {
  std::vector<StatusName> names = status_names();
  std::erase_if(names, [pid](const StatusName& name) { return name.pid != pid; });
  return names;
}

// Returns when the control thread of `rank`, of the only group of this process, has done what it
// was given before. Of a call and a message that come together it may see the message first.
inline void await_turn(int rank) {
  auto fd = connect_status(names_of().at(rank), patiently());
  ASSERT_TRUE(fd.ok()) << fd.error().message();
  EXPECT_TRUE(ask_status(fd->get(), {.own = true}, patiently()).ok());
}

}  // namespace ringwood::testing
