// Ranks as threads of one process: each with a communicator of its own over the transports that a
// case names.
//
// run_ranks() joins all threads, rethrows the first exception of a rank (named), and bounds the
// time through the communicators' own deadlines, never with a sleep.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/communicator.h"
#include "collectives/kernels/types.h"
#include "tests/support/patience.h"
#include "tests/support/transports.h"
#include "tests/support/values.h"
#include "transports/base/clock.h"
#include "transports/base/options.h"

namespace ringwood::testing {

// "shm": every pair over shm; "zero_copy": likewise, with all Guarded buffers in the arena;
// "remapped": likewise, with their pages turned into the arena's (transports.h has the other
// names); "mixed": two pretended hosts, shm inside, tcp between.
inline Options options_for(const std::string& transports, int rank) {
  Options o;
  o.timeout = kPatience;
  o.init_timeout = kPatience;
  if (transports == "mixed") {
    o.transports = {"shm", "tcp"};
    o.host_id = rank % 2 ? "b" : "a";
  } else {
    o.transports = {transport_of(transports)};
  }
  return o;
}

// All ranks reply to the root's questions, however late they are woken.
inline Options unhurried_for(const std::string& transports, int rank) {
  Options o = options_for(transports, rank);
  o.heartbeat = kUnhurried;
  return o;
}

inline Options options_for(int rank) { return options_for(usual_transport(), rank); }

inline void run_ranks(int n, const std::function<Options(int)>& options,
                      const std::function<void(Communicator&)>& body) {
  auto store = memory_store();
  std::vector<std::thread> threads;
  std::vector<std::string> errors(n);
  for (int r = 0; r < n; ++r) {
    threads.emplace_back([&, r] {
      try {
        auto communicator = Communicator::create(store, r, n, options(r), "test");
        body(*communicator);
      } catch (const std::exception& e) {
        errors[r] = e.what();
      }
    });
  }
  for (auto& t : threads) t.join();
  for (int r = 0; r < n; ++r)
    if (!errors[r].empty()) ADD_FAILURE() << "rank " << r << ": " << errors[r];
}

inline void run_ranks(int n, const std::string& transports,
                      const std::function<void(Communicator&)>& body,
                      Options (*options)(const std::string&, int) = options_for) {
  run_ranks(
      n, [&](int rank) { return options(transports, rank); },
      [&](Communicator& c) {
        buffers_placed = transports.ends_with("zero_copy")  ? Placement::arena
                         : transports.ends_with("remapped") ? Placement::remapped
                                                            : Placement::heap;
        body(c);
      });
}

inline void run_ranks(int n, const std::function<void(Communicator&)>& body) {
  run_ranks(n, usual_transport(), body);
}

// Throws with the message, so that a failing rank does not go on into operations that its peers
// will not join.
inline void must(const Status& s) {
  if (!s) throw std::runtime_error(s.error().message());
}
inline void must(const OperationPtr& op) { must(op->wait()); }

// Before calls that end the group: no rank still makes it, and none is still in this barrier, where
// the group's error would meet it instead of in its call. `ready`: 0, of all ranks.
inline void start_together(Communicator& c, std::atomic<int>& ready) {
  must(c.barrier());
  for (++ready; ready < c.size();) std::this_thread::yield();
}

}  // namespace ringwood::testing
