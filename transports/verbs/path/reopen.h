// A path that failed is opened again when its rail is back: when that is tried, and what the two
// ends tell each other. Needs no device; reopener.cc does it.
//
//   lower rank                         higher rank
//       |  <------- path_ready --------   |     its rail is up again: do not wait any longer
//       |  -------- path_offer -------->  |     a queue pair is made; made and connected there
//       |  <------- path_answer -------   |     or path_refused, with the reason
//       |  ======== probe ============>   |     over the path, with packets of full size
//       |  <======= probe =============   |     only now: before, the lower rank's was not ready
//
// The lower rank begins, so offers never cross, and only when both ends have closed the path
// (path_down went both ways); the wire is in order, so no frame can be of an earlier attempt. An
// end uses the path once its own probe is acknowledged and the peer's has come. Either may close it
// at any time, which is said by path_down as ever, and the next attempt follows that.
//
// No time limit but the device's own: a peer that computes for minutes answers after that. An
// attempt takes some milliseconds of the rank's own time; where both ports are up but the peer's
// address is not answered for, the kernel holds it for about a second, which is one more reason
// to try more and more seldom.
//
// Why nothing old can overwrite anything new:
//   - What was posted to the queue pair before is void: both ends had closed it, and the new one
//     has another number and another first packet.
//   - Probes hit a page of their own (Rings::scrap), which nobody reads. The first message of a
//     path that is being proven is the probe, whatever it says it is.
//   - A piece that went over the wire is not written again: TCP loses nothing. It may be the second
//     copy of a piece whose first landed by the failed path, and come late: then the receiver may
//     have read the first, given the place back, and the sender may have written a newer piece to
//     it over the path that is back. A place is given back only when everything up to its end has
//     arrived, so such a late copy lies before the end of what has arrived, and is dropped
//     (Incoming::take). A copy beyond that end can only hit bytes that equal its own, or none.
//   - A piece that was written again over a path keeps its place in the sender's ring until that
//     write is acknowledged (ring/outgoing.h), whichever path it is.
#pragma once

#include <span>
#include <string>

#include "transports/clock.h"
#include "transports/verbs/path/path.h"

namespace ringwood::verbs {

// One end of a path that is to be opened again. The GID may have changed.
struct PathOffer {
  PathEnd end;
  GidBytes gid{};
  int lid = 0, mtu = 1024;
  uint32_t key = 0;    // of the memory that the other end writes to
  uint64_t scrap = 0;  // there: kProbeBytes for the probe
};
inline constexpr size_t kProbeBytes = 4096;

// Bounded and strict; parse throws Error(network).
std::string print(const PathOffer& offer);
PathOffer parse_path_offer(std::span<const std::byte> text);
// A peer's words for our log: bounded, printable.
std::string printable(std::span<const std::byte> text);

// When to try: a second after the loss, and after every failure twice as long, up to half a minute,
// without end. A path that did not last does not begin anew. Value type.
class Attempts {
 public:
  static constexpr Duration kFirst = std::chrono::seconds(1), kLast = std::chrono::seconds(30);

  bool due(Clock::time_point now) const { return now >= next_; }
  void used(Clock::time_point now) {
    since_ = now;
    failures_ = 0;
  }
  void lost(Clock::time_point now) {
    if (now - since_ >= kLast) delay_ = kFirst;
    wait(now);
  }
  void failed(Clock::time_point now) {
    ++failures_;
    wait(now);
  }
  // The rail is back: what failed before tells nothing, but it may need a moment.
  void hurry(Clock::time_point now) {
    next_ = now;
    delay_ = kFirst;
  }
  // In a row.
  int failures() const { return failures_; }

 private:
  void wait(Clock::time_point now) {
    next_ = now + delay_;
    delay_ = std::min(2 * delay_, kLast);
  }

  Clock::time_point next_{}, since_{};
  Duration delay_ = kFirst;
  int failures_ = 0;
};

}  // namespace ringwood::verbs
