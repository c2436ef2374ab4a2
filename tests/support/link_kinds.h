// What every suite of links iterates: each row of the table of transports, and what it can be
// turned into by its knobs.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/link_ranks.h"
#include "tests/support/link_talk.h"
#include "tests/support/patience.h"
#include "tests/support/transports.h"
#include "transports/memory/arena.h"

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
  for (const TransportRow& row : transport_table()) {
    all.push_back({row.name, row.name, row.make});
    for (const testing::Variant& v : testing::traits_of(row.name).variants)
      all.push_back({std::string(row.name) + "_" + v.name, row.name, v.make ? v.make : row.make,
                     v.options, v.zero_copy});
  }
  return all;
}

class Links : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    const std::string why = testing::absent_here(GetParam().transport);
    if (!why.empty()) GTEST_SKIP() << why;
  }
  Memory& memory() {
    static ArenaMemory arena;
    return GetParam().zero_copy ? arena : *std::pmr::new_delete_resource();
  }
  // How much of a suite's work it does.
  int share(int whole, int emulated) const {
    return testing::is_emulated(GetParam().transport) ? emulated : whole;
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
  const Deadline limit = testing::patiently();
  while (now.sent < wanted.sent || now.received < wanted.received) {
    if (Status s = link.poll(now); !s) throw s.error();
    if (limit.passed()) throw std::runtime_error("not finished");
    std::this_thread::yield();
  }
  return now;
}

}  // namespace ringwood
