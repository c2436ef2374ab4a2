// Whether this machine has an RDMA device that works; a host of tests/roce-lab always has.
#pragma once

#include "tests/support/link_ranks.h"
#include "transports/verbs/verbs.h"

namespace ringwood {

inline bool verbs_here() {
  static const bool here = [] {
    Ranks two = make_ranks(make_verbs);
    return two[0].links[0][1] != nullptr;
  }();
  return here;
}

}  // namespace ringwood
