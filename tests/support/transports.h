// The transports, as the suites iterate them. A row of the table (transport.h) joins every suite;
// traits_of() has what a suite needs to know beyond the row, for the transports that need it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/link_ranks.h"
#include "transports/loopback/loopback.h"
#include "transports/tcp/tcp.h"

namespace ringwood::testing {

// What its knobs make of a transport: a kind of link of its own to the suites.
struct Variant {
  std::string name;
  std::function<void(Options&)> options = [](Options&) {};
  MakeTransport make = nullptr;  // where no knob does it; null: as the row
  bool zero_copy = false;        // the messages lie in the arena
};

struct TransportTraits {
  std::string name = {};
  bool needs_device = false;  // ranks of a machine may be without it
  bool emulated = false;      // its laboratory is: a hundredth of the work, and more time for it
  std::vector<Variant> variants = {};
  // Groups of this name and after it "zero_copy" or "remapped": the users' buffers are memory of
  // the arena, or become such. Null: they are nothing to it.
  const char* shares = nullptr;
  std::function<std::unique_ptr<Transport>(uint64_t seed)> seeded = nullptr;  // its timing
};

inline const TransportTraits& traits_of(const std::string& transport) {
  static const std::vector<TransportTraits> all = {
      {.name = "loopback",
       .variants = {{.name = "late",
                     .make = [] { return make_loopback({.seed = 7, .delay = 5}); }}},
       .seeded =
           [](uint64_t seed) {
             return make_loopback({.seed = seed, .delay = seed % 2 ? 6u : 0u});  // polls
           }},
      {.name = "shm",
       .variants = {{.name = "small_rings",
                     .options = [](Options& o) { o.shm_ring_bytes = 65536; }}},
       .shares = ""},
      {.name = "verbs",
       .needs_device = true,
       .emulated = true,
       .variants = {{.name = "small_rings",
                     .options =
                         [](Options& o) {
                           o.verbs.ring_bytes = 65536;
                           o.verbs.queue_pairs = 3;
                         }},
                    {.name = "zero_copy", .zero_copy = true}},
       .shares = "verbs_"},
      {.name = "tcp",
       .variants = {{.name = "three_sockets", .options = [](Options& o) { o.tcp_sockets = 3; }},
                    {.name = "zero_copy",
                     .options = [](Options& o) { o.tcp_sockets = 4; },
                     .make = [] { return make_tcp({.always_zero_copy = true}); }}}},
  };
  static const TransportTraits plain;
  const auto found = std::ranges::find(all, transport, &TransportTraits::name);
  return found == all.end() ? plain : *found;
}

inline const TransportRow* row_of(const std::string& transport) {
  for (const TransportRow& row : transport_table())
    if (row.name == transport) return &row;
  return nullptr;
}

// For what is about eager slots and puts.
inline const TransportRow& shared_memory_transport() {
  return *std::ranges::find_if(transport_table(), &TransportRow::shared_memory);
}

// A group of a test has a name: a transport's, "mixed", or, of a transport that shares,
// "zero_copy" or "remapped" after its `shares`.

// The only transport of such a group; "" of a mixed one.
inline std::string transport_of(const std::string& group) {
  for (const TransportRow& row : transport_table()) {
    const char* const shares = traits_of(row.name).shares;
    if (group == row.name || (shares && (group == shares + std::string("zero_copy") ||
                                         group == shares + std::string("remapped"))))
      return row.name;
  }
  return "";
}

// Where any will do: the one with the most ways to carry a message.
inline std::string usual_transport() { return shared_memory_transport().name; }

// Each transport alone, then "mixed".
inline std::vector<std::string> every_transport() {
  std::vector<std::string> names;
  for (const TransportRow& row : transport_table()) names.emplace_back(row.name);
  names.emplace_back("mixed");
  return names;
}

// "zero_copy" or "remapped" over each that shares.
inline std::vector<std::string> every_sharing(const std::string& how) {
  std::vector<std::string> names;
  for (const TransportRow& row : transport_table())
    if (const char* const shares = traits_of(row.name).shares) names.push_back(shares + how);
  return names;
}

// Those whose ranks can be processes, without "mixed".
inline std::vector<std::string> between_processes() {
  std::vector<std::string> names;
  for (const TransportRow& row : transport_table())
    if (!row.one_process) names.emplace_back(row.name);
  return names;
}

inline bool in_one_process(const std::string& group) {
  const TransportRow* const row = row_of(transport_of(group));
  return row && row->one_process;
}
inline bool is_emulated(const std::string& group) {
  return traits_of(transport_of(group)).emulated;
}
inline bool in_shared_memory(const std::string& group) {
  const TransportRow* const row = row_of(transport_of(group));
  return row && row->shared_memory;
}

// Why ranks of one machine cannot use it; "" if they can. Of the others a failure is a failure.
inline std::string absent_here(const std::string& group) {
  static std::mutex mutex;
  static std::map<std::string, bool> reached;
  const std::string transport = transport_of(group);
  if (!traits_of(transport).needs_device) return "";
  std::lock_guard lock(mutex);
  auto found = reached.find(transport);
  if (found == reached.end()) {
    const ringwood::Ranks two = make_ranks(row_of(transport)->make);
    found = reached.emplace(transport, two.all[0]->links[0][1] != nullptr).first;
  }
  return found->second ? "" : "no device of " + transport + " works";
}

// A suite of one of them by name; left out, with the reason, where it cannot be used.
class OnTransport : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string why = absent_here(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
};
// Likewise by cases that have it as `transports`.
template <class Case>
class OnTransportOf : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::string why = absent_here(this->GetParam().transports);
    if (!why.empty()) GTEST_SKIP() << why;
  }
};

}  // namespace ringwood::testing
