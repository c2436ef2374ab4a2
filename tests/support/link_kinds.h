// What every suite of links iterates: each row of the table of transports, and what it can be
// turned into by its knobs.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/link_ranks.h"
#include "tests/support/link_talk.h"
#include "tests/support/verbs_here.h"
#include "transports/loopback/loopback.h"
#include "transports/memory/arena.h"
#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"

namespace ringwood {

struct Kind {
  std::string name;       // of the test
  std::string transport;  // as errors name it
  MakeTransport make;
  std::function<void(Options&)> options = [](Options&) {};
  bool zero_copy = false;  // the messages lie in the arena
};

class ArenaMemory final : public Memory {
  void* do_allocate(size_t bytes, size_t) override { return Arena::of_process()->allocate(bytes); }
  void do_deallocate(void* data, size_t, size_t) override { Arena::of_process()->release(data); }
  bool do_is_equal(const Memory& other) const noexcept override { return this == &other; }
};

inline void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

// The rows, and what they can be turned into by their knobs.
inline std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const TransportRow& row : transport_table()) all.push_back({row.name, row.name, row.make});
  all.push_back(
      {"loopback_late", "loopback", [] { return make_loopback({.seed = 7, .delay = 5}); }});
  all.push_back({"shm_small_rings", "shm", make_shm, [](Options& o) { o.shm_ring_bytes = 65536; }});
  all.push_back({"tcp_three_sockets", "tcp", [] { return make_tcp(); },
                 [](Options& o) { o.tcp_sockets = 3; }});
  all.push_back({"tcp_zero_copy", "tcp", [] { return make_tcp({.always_zero_copy = true}); }});
  all.push_back({"verbs_small_rings", "verbs", make_verbs, [](Options& o) {
                   o.verbs.ring_bytes = 65536;
                   o.verbs.queue_pairs = 3;
                 }});
  all.push_back({"verbs_zero_copy", "verbs", make_verbs, [](Options&) {}, true});
  return all;
}

class Links : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam().transport == "verbs" && !verbs_here()) GTEST_SKIP() << "no RDMA device works";
  }
  Memory& memory() {
    static ArenaMemory arena;
    return GetParam().zero_copy ? arena : *std::pmr::new_delete_resource();
  }
  Ranks ranks(int size, int channels = 2) {
    Setting setting;
    setting.size = size;
    setting.channels = channels;
    setting.options = GetParam().options;
    return make_ranks(GetParam().make, setting);
  }
};

inline std::string show(const Status& status) { return status ? "ok" : status.error().message(); }

// Polls one link until `wanted` are finished.
inline Completions until(Link& link, Completions wanted) {
  Completions now;
  const Deadline limit = Deadline::after(std::chrono::seconds(60));
  while (now.sent < wanted.sent || now.received < wanted.received) {
    if (Status s = link.poll(now); !s) throw s.error();
    if (limit.passed()) throw std::runtime_error("not finished within 60 s");
    std::this_thread::yield();
  }
  return now;
}

}  // namespace ringwood
