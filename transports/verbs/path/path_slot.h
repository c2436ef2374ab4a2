// The place of a path in its link, which outlives its queue pairs: when one fails, both ends close
// it, and a new one may follow in its place. Plain data of PathSet and Reopener. Not thread safe,
// except that `path` may be stopped; it changes only while an Access of the link's gate is held.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "transports/verbs/path/attempts.h"
#include "transports/verbs/path/path.h"
#include "transports/verbs/rail/completion_queue.h"

namespace ringwood::verbs {

// A pair of rails of a link: ours, and the matching one of the peer.
struct RailPair {
  std::shared_ptr<Rail> rail;
  RailAddress peer;
  int far = 0;  // far_ends()
};

// A rail pair in use by a link.
struct LinkRail {
  LinkRail(RailPair pair, int entries)
      : rail(std::move(pair.rail)), peer(pair.peer), far(pair.far), queue(rail, entries) {}
  int mtu() const { return std::min(rail->address().mtu, peer.mtu); }
  std::string in_words() const;  // for the log: "rxe0/1 (GID 10.0.0.1) to rxe0/1 (GID 10.0.0.2)"

  const std::shared_ptr<Rail> rail;
  RailAddress peer;
  const int far;
  uint32_t key = 0;  // of the peer's memory
  CompletionQueue queue;
};

// Which ends have closed a path. Once both have, what was not acknowledged is written again over
// other paths, and it is over.
//
//   from \ event   closed here   the peer says so   written again   another queue pair
//   open           here          there
//   here           -             both
//   there          both          -
//   both           -             -                  over
//   over           -             -                                  open
enum class PathEnds : uint8_t { open, here, there, both, over };

// Closed here: the peer has been told.
inline bool closed_here(PathEnds ends) {
  return ends == PathEnds::here || ends == PathEnds::both || ends == PathEnds::over;
}
// After the event of that column.
inline PathEnds after_closing_here(PathEnds ends) {
  return ends == PathEnds::open ? PathEnds::here : ends == PathEnds::there ? PathEnds::both : ends;
}
inline PathEnds after_closing_there(PathEnds ends) {
  return ends == PathEnds::open ? PathEnds::there : ends == PathEnds::here ? PathEnds::both : ends;
}

struct PathSlot {
  size_t index = 0;  // in the link, the same at both ends
  LinkRail* rail = nullptr;
  std::unique_ptr<Path> path;
  bool carrying = true;  // it may have data that is not acknowledged
  PathEnds ends = PathEnds::open;

  // For opening it again.
  struct {
    std::unique_ptr<Path> fresh;  // whose address was sent to the peer
    bool probe_arrived = false, probe_landed = false;
    uint64_t peer_scrap = 0;  // where the peer takes our probe
    unsigned returns = 0;     // of the rail, at the last look
    Attempts attempts;
  } reopening;
};

}  // namespace ringwood::verbs
