// The paths of a link that come back: see reopen.h.
#include <fmt/format.h>

#include <algorithm>

#include "transports/log.h"
#include "transports/verbs/link.h"

namespace ringwood::verbs {

std::string VerbsLink::path_name(const End& end) const {
  return fmt::format("rank {}: path {} of {} to rank {}", rank_, &end - ends_.data() + 1,
                     ends_.size(), peer_);
}

// Seldom, so it may cost something.
void VerbsLink::reopen_paths() {
  if (!in_use_ || wire_.closed()) return;
  const auto now = Clock::now();
  for (End& end : ends_) {
    if (!end.replayed || end.fresh) continue;
    const unsigned returns = lanes_[end.lane].rail->events().returns();
    if (returns != end.returns) {
      end.returns = returns;
      end.attempts.hurry(now);
      if (rank_ > peer_) tell(FrameType::path_ready, end);
    }
    if (rank_ < peer_ && end.attempts.due(now)) offer_path(end);
  }
}

void VerbsLink::tell(FrameType type, const End& end, std::string_view text) {
  wire_.queue({.type = type, .path = static_cast<uint8_t>(&end - ends_.data())},
              std::as_bytes(std::span(text)));
}

std::string VerbsLink::offer_of(const Path& path) const {
  const RailOffer& rail = path.rail().offer();
  return print(PathOffer{path.end(), rail.gid, rail.lid, rail.mtu,
                         path.rail().memory().rings()->rkey, reinterpret_cast<uintptr_t>(scrap_)});
}

std::unique_ptr<Path> VerbsLink::fresh_path(const End& end, std::string& why) {
  const Lane& lane = lanes_[end.lane];
  if (lane.unreadable) why = kUnreadable;
  if (lane.unreadable || !lane.rail->revive(options_.verbs, why)) return nullptr;
  auto path = std::make_unique<Path>(lane.rail);
  return path->make(lane.queue, setting(), why) ? std::move(path) : nullptr;
}

bool VerbsLink::connect_fresh(Path& path, const PathOffer& theirs, End& end, std::string& why) {
  Lane& lane = lanes_[end.lane];
  lane.peer.gid = theirs.gid;
  lane.peer.lid = theirs.lid;
  lane.peer.mtu = theirs.mtu;
  lane.key = theirs.key;
  end.peer_scrap = theirs.scrap;
  path.agree(theirs.end.ece);
  PathSetting used = setting();
  used.mtu = std::min(lane.rail->offer().mtu, lane.peer.mtu);
  return path.connect(theirs.end, lane.peer, used, Deadline::after(Duration::zero()), why);
}

// What the old queue pair left in the completion queue is read before another can get its number.
// Not while abort() looks at the paths: false after it.
bool VerbsLink::replace_path(End& end, std::unique_ptr<Path> fresh) {
  {
    AbortGate::Pass pass(gate_);
    if (!pass) return false;
    end.path = std::move(fresh);
  }
  end.told = end.peer_closed = end.replayed = end.probe_arrived = end.probe_landed = false;
  read_queues();
  return true;
}

void VerbsLink::offer_path(End& end) {
  std::string why;
  end.fresh = fresh_path(end, why);
  if (!end.fresh) return not_reopened(end, why);
  tell(FrameType::path_offer, end, offer_of(*end.fresh));
}

bool VerbsLink::take_reopening(const Frame& frame, std::span<const std::byte> payload) try {
  if (!in_use_ || frame.path >= ends_.size()) return false;
  End& end = ends_[frame.path];
  switch (frame.type) {
    case FrameType::path_ready: end.attempts.hurry(Clock::now()); return true;
    case FrameType::path_offer: return take_offer(end, payload);
    case FrameType::path_answer: return take_answer(end, payload);
    case FrameType::path_refused: return take_refusal(end, payload);
    default: return false;
  }
} catch (const Error&) {
  return false;
}

bool VerbsLink::take_offer(End& end, std::span<const std::byte> payload) {
  if (rank_ < peer_ || !end.told || !end.peer_closed) return false;
  const PathOffer theirs = parse_path_offer(payload);
  if (!end.replayed) end_life(end);
  std::string why;
  std::unique_ptr<Path> path = fresh_path(end, why);
  if (!path || !connect_fresh(*path, theirs, end, why)) {
    tell(FrameType::path_refused, end, why);
    not_reopened(end, why);
    return true;
  }
  const std::string ours = offer_of(*path);
  if (replace_path(end, std::move(path))) tell(FrameType::path_answer, end, ours);
  return true;
}

// From the answer on the peer has a queue pair, so the attempt ends by path_down of both.
bool VerbsLink::take_answer(End& end, std::span<const std::byte> payload) {
  if (!end.fresh) return false;
  const PathOffer theirs = parse_path_offer(payload);
  std::string why;
  const bool connected = connect_fresh(*end.fresh, theirs, end, why);
  if (!replace_path(end, std::move(end.fresh))) return true;
  if (connected) {
    send_probe(end);
  } else {
    end.path->close();
    not_reopened(end, why);
  }
  return true;
}

bool VerbsLink::take_refusal(End& end, std::span<const std::byte> payload) {
  if (!end.fresh) return false;
  end.fresh = nullptr;
  not_reopened(end, "at the peer: " + printable(payload));
  return true;
}

void VerbsLink::send_probe(End& end) {
  if (end.path->write({.from = scrap_,
                       .bytes = kProbeBytes,
                       .to = end.peer_scrap,
                       .key = lanes_[end.lane].key,
                       .own_key = lanes_[end.lane].rail->memory().rings()->lkey,
                       .signalled = true}) == 0)
    fail_path(end, system_message("ibv_post_send"));
}

// False: it is data already, of a peer that has both probes.
bool VerbsLink::take_probe(End& end, bool receive, uint64_t number) {
  if (receive && end.probe_arrived) return false;
  if (receive) {
    end.probe_arrived = true;
    if (rank_ > peer_) send_probe(end);
  } else {
    end.path->completed(number);
    end.probe_landed = true;
  }
  if (!end.probe_arrived || !end.probe_landed) return true;
  end.path->use();
  end.carrying = true;
  end.attempts.used(Clock::now());
  const Lane& lane = lanes_[end.lane];
  log(LogLevel::warn, "verbs",
      fmt::format("{} is used again, {} (GID {}) to {} (GID {})", path_name(end),
                  lane.rail->offer().name, to_string(lane.rail->offer().gid), lane.peer.name,
                  to_string(lane.peer.gid)));
  return true;
}

// Once in a row: it may be tried for days.
void VerbsLink::not_reopened(End& end, const std::string& why) {
  end.attempts.failed(Clock::now());
  const bool first = end.attempts.failures() == 1;
  log(first ? LogLevel::warn : LogLevel::debug, "verbs",
      fmt::format("{} could not be opened again{}: {}", path_name(end),
                  first ? " yet, it is tried until it can" : "", why));
}

}  // namespace ringwood::verbs
