// Reopens a path that failed, when its rail is back: when to try (attempts.h), and the messages
// between the two ends (path_address.h).
//
//   lower rank                         higher rank
//       |  <------- path_ready --------   |     its rail is up again: do not wait any longer
//       |  ------- path_address ------>   |     a queue pair is made; made and connected there
//       |  <------- path_reply --------   |     or path_refused, with the reason
//       |  ========== probe ==========>   |     over the path, with packets of full size
//       |  <========= probe ===========   |     only now: before, the lower rank's was not ready
//
// The lower rank begins, so addresses never cross, and only when both ends have closed the path
// (path_down went both ways). The fallback connection is in order, so no frame can be of an
// earlier attempt. An end uses the path once its own probe is acknowledged and the peer's has come.
// Either may close it at any time with path_down, as always; the next attempt follows that.
//
// There is no time limit but the RDMA device's own: a peer that computes for minutes replies after
// that. An attempt takes some milliseconds of the rank's own time. If both ports are up but the
// peer's address is not resolved, the kernel blocks the rank for about a second, which is one more
// reason to try less and less often.
//
// Why nothing old can overwrite anything new:
//   - What was posted to the old queue pair is void: both ends have closed it, and the new one has
//     another number and another first packet.
//   - Probes hit a page of their own (Rings::scrap), which is never read. The first message of a
//     path that is being proven is the probe, whatever it says it is.
//   - A piece that went over the fallback connection is not written again: TCP loses nothing. It
//     may be the second copy of a piece whose first landed by the failed path, and come late: then
//     the receiver may have read the first and given the place back, and the sender may have
//     written a newer piece to it over the path that is back. A place is given back only when
//     everything up to its end has arrived, so such a late copy lies before the end of what has
//     arrived, and is dropped (Incoming::take). A copy beyond that end can only hit bytes that
//     equal its own, or none.
//   - A piece that was written again over a path keeps its place in the sender's ring until that
//     write is acknowledged (ring/outgoing.h), whichever path it is.
//
// Not thread safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "transports/verbs/path/path_address.h"
#include "transports/verbs/path/path_set.h"

namespace ringwood::verbs {

class Reopener final {
 public:
  // `scrap`: kProbeBytes that are never read.
  Reopener(LinkState& link, PathSet& paths, std::byte* scrap)
      : link_(link), paths_(paths), scrap_(scrap) {}

  // Begins the attempts that are due. Called seldom, so it may take time.
  void look();
  // Handles a frame of the peer. False: it is invalid.
  bool take(const Frame& frame, std::span<const std::byte> payload);

  // As in PathEvents.
  bool proving(PathSlot& slot, bool receive, uint64_t number);
  void not_proven(PathSlot& slot, const std::string& why);
  void lost(PathSlot& slot) { slot.reopening.attempts.lost(Clock::now()); }

 private:
  void address(PathSlot& slot);
  bool take_address(PathSlot& slot, std::span<const std::byte> payload);
  bool take_reply(PathSlot& slot, std::span<const std::byte> payload);
  bool take_refusal(PathSlot& slot, std::span<const std::byte> payload);
  std::unique_ptr<Path> make(const PathSlot& slot, std::string& why) const;
  bool connect(Path& path, const PathAddress& theirs, PathSlot& slot, std::string& why) const;
  std::string address_of(const Path& path) const;
  void send_probe(PathSlot& slot);
  void tell(FrameType type, const PathSlot& slot, std::string_view text = {});

  LinkState& link_;
  PathSet& paths_;
  std::byte* const scrap_;
};

}  // namespace ringwood::verbs
