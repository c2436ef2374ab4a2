// What is known of a job whose ranks could not be connected: over the store alone.
//
// Every rank that reaches the store says so there. The first one of each host then tells its
// snapshot, listens, and dials the first one of every other host, as groups do. So hosts between
// which something drops or refuses TCP are named (hosts-unreachable), and all others are compared
// as if the job had come together. What ranks write into the store is untrusted: bounded texts,
// parsed as such. Collective; no group is needed.
#pragma once

#include <functional>

#include "tools/doctor/all_hosts.h"
#include "transports/base/clock.h"
#include "transports/base/options.h"
#include "transports/bootstrap/store.h"

namespace ringwood::tools::doctor {

struct UnmetRank {
  int rank = 0, size = 1;
  std::function<Snapshot()> look;  // at this host
  Error error;                     // why there is no group
  Deadline arrival;                // until then a rank may still come
  Deadline roster;                 // until then rank 0 may say who has come
};

// At rank 0: all that is known, incomplete if a rank is missing or nobody knows what is wrong. At
// the others an empty one. Throws Error if the store does not answer.
Outcome gather_over_store(Store& store, const UnmetRank& me, const Options& options);

}  // namespace ringwood::tools::doctor
