// Two ranks joined by shared memory.
#pragma once

#include "tests/support/link_ranks.h"
#include "transports/shm/shm.h"

namespace ringwood {

struct Pair {
  Ranks two = make_ranks(make_shm, Setting{2, 1, {}, [](int, int) { return true; }});
  Link& link(int rank) { return *two[rank].links[0][1 - rank]; }
  Completions now[2];
  Status poll(int rank) { return link(rank).poll(now[rank]); }
};

}  // namespace ringwood
