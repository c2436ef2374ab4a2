// Ranks that are processes: for what threads cannot show (deaths, limits, namespaces).
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "tests/support/link_ranks.h"
#include "tests/support/patience.h"

namespace ringwood {

// A forked process. `body` returns its exit code; exceptions are printed and are 99.
class Process {
 public:
  explicit Process(const std::function<int()>& body) {
    std::fflush(nullptr);  // or the child would print the parent's lines again
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "process %d: %s\n", getpid(), error.what());
    }
    std::fflush(nullptr);
    ::_exit(code);
  }
  Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ~Process() {
    if (pid_ <= 0) return;
    kill();
    wait();
  }
  int pid() const { return pid_; }
  void kill() const { ::kill(pid_, SIGKILL); }
  // The exit code, or minus the signal.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  int pid_ = -1;
};

// Says one byte through a fork.
class Signal {
 public:
  Signal() { EXPECT_EQ(::pipe(ends_), 0); }
  ~Signal() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  void give(int times = 1) const {
    for (int i = 0; i < times; ++i) EXPECT_EQ(::write(ends_[1], "", 1), 1);
  }
  void await(int times = 1) const {
    char byte;
    for (int i = 0; i < times; ++i) EXPECT_EQ(::read(ends_[0], &byte, 1), 1);
  }

 private:
  int ends_[2] = {-1, -1};
};

// A session that forked processes join. Made before they are forked.
class Job {
 public:
  explicit Job(Setting setting) : setting_(std::move(setting)) {
    char path[] = "/tmp/ringwood-links-XXXXXX";
    folder_ = ::mkdtemp(path);
    session_.session = random_session();
    session_.key = random_key();
  }
  ~Job() { std::filesystem::remove_all(folder_); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  int size() const { return setting_.size; }

  // In the process of rank `r`.
  std::unique_ptr<Rank> join(int r, const MakeTransport& make) const {
    std::shared_ptr<Store> store = file_store(folder_ + "/store");
    std::unique_ptr<Rank> rank = make_rank(setting_, r, *store, session_);
    rank->store = store;
    if (rank->listener) store->set(key(r), to_string(rank->listener->address()));
    for (int p = 0; p < setting_.size && rank->listener; ++p) {
      rank->group.addresses.push_back(store->get(key(p), rank->group.deadline));
    }
    connect(*rank, setting_, make);
    return rank;
  }

 private:
  static std::string key(int rank) { return "address/" + std::to_string(rank); }
  const Setting setting_;
  std::string folder_;
  Identity session_;
};

// Sends and receives one message of `bytes` with every peer that is reached; the error, if there
// is one.
inline Status exchange(Rank& rank, size_t bytes) {
  const int me = rank.group.rank();
  for (int peer = 0; peer < rank.group.size(); ++peer) {
    Link* link = rank.links[0][peer].get();
    if (!link) continue;
    const std::vector<std::byte> out = Pattern(me, peer, 0, 0).make(bytes);
    std::vector<std::byte> in(bytes);
    Completions now;
    if (Status s = link->poll(now); !s) return s;
    const Completions before = now;
    if (Status s = link->post_send(out.data(), bytes); !s) return s;
    if (Status s = link->post_recv(in.data(), bytes); !s) return s;
    const Deadline limit = testing::patiently();
    while (now.sent == before.sent || now.received == before.received) {
      if (Status s = link->poll(now); !s) return s;
      if (limit.passed()) return Error(ErrorCode::timeout, "the exchange did not end");
      std::this_thread::yield();
    }
    if (Pattern(peer, me, 0, 0).compare(in.data(), bytes) != bytes) {
      return Error(ErrorCode::internal, "other bytes have arrived");
    }
  }
  return {};
}

}  // namespace ringwood
