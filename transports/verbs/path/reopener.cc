#include "transports/verbs/path/reopener.h"

#include <fmt/format.h>

#include "transports/base/log.h"

namespace ringwood::verbs {

void Reopener::look() {
  if (link_.fallback.closed()) return;
  const auto now = Clock::now();
  for (PathSlot& slot : paths_.slots()) {
    auto& reopening = slot.reopening;
    if (slot.ends != PathEnds::over || reopening.fresh) continue;
    const unsigned returns = slot.rail->rail->events().returns();
    if (returns != reopening.returns) {
      reopening.returns = returns;
      reopening.attempts.hurry(now);
      if (link_.rank > link_.peer) tell(FrameType::path_ready, slot);
    }
    if (link_.rank < link_.peer && reopening.attempts.due(now)) address(slot);
  }
}

bool Reopener::take(const Frame& frame, std::span<const std::byte> payload) {
  if (frame.path >= paths_.slots().size()) return false;
  PathSlot& slot = paths_.slots()[frame.path];
  switch (frame.type) {
    case FrameType::path_ready: slot.reopening.attempts.hurry(Clock::now()); return true;
    case FrameType::path_address: return take_address(slot, payload);
    case FrameType::path_reply: return take_reply(slot, payload);
    case FrameType::path_refused: return take_refusal(slot, payload);
    default: return false;
  }
}

void Reopener::tell(FrameType type, const PathSlot& slot, std::string_view text) {
  link_.fallback.queue({.type = type, .path = static_cast<uint8_t>(slot.index)},
                       std::as_bytes(std::span(text)));
}

// ---- a queue pair ------------------------------------------------------------------------------

std::unique_ptr<Path> Reopener::make(const PathSlot& slot, std::string& why) const {
  LinkRail& rail = *slot.rail;
  if (rail.queue.unreadable()) why = kUnreadable;
  if (rail.queue.unreadable() || !rail.rail->revive(link_.options, why)) return nullptr;
  auto path = std::make_unique<Path>(rail.rail);
  return path->make(rail.queue.get(), paths_.setting(), why) ? std::move(path) : nullptr;
}

bool Reopener::connect(Path& path, const PathAddress& theirs, PathSlot& slot,
                       std::string& why) const {
  LinkRail& rail = *slot.rail;
  rail.peer.gid = theirs.gid;
  rail.peer.lid = theirs.lid;
  rail.peer.mtu = theirs.mtu;
  rail.key = theirs.key;
  slot.reopening.peer_scrap = theirs.scrap;
  path.pair().agree(theirs.end.ece);
  return paths_.connect(path, rail, theirs.end, Deadline::after(Duration::zero()), why);
}

std::string Reopener::address_of(const Path& path) const {
  const Rail& rail = path.pair().rail();
  const RailAddress& port = rail.address();
  return encode(PathAddress{path.pair().end(), port.gid, port.lid, port.mtu,
                            rail.memory().rings()->rkey, reinterpret_cast<uintptr_t>(scrap_)});
}

// ---- what the ends tell each other -------------------------------------------------------------

void Reopener::address(PathSlot& slot) {
  std::string why;
  slot.reopening.fresh = make(slot, why);
  if (!slot.reopening.fresh) return not_proven(slot, why);
  tell(FrameType::path_address, slot, address_of(*slot.reopening.fresh));
}

bool Reopener::take_address(PathSlot& slot, std::span<const std::byte> payload) {
  PathAddress theirs;
  if (link_.rank < link_.peer) return false;
  if (slot.ends != PathEnds::both && slot.ends != PathEnds::over) return false;
  if (!decode(payload, theirs)) return false;
  if (slot.ends == PathEnds::both) paths_.end_life(slot);
  std::string why;
  std::unique_ptr<Path> path = make(slot, why);
  if (!path || !connect(*path, theirs, slot, why)) {
    tell(FrameType::path_refused, slot, encode(PathRefusal{why}));
    not_proven(slot, why);
    return true;
  }
  const std::string ours = address_of(*path);
  if (paths_.replace(slot, std::move(path))) tell(FrameType::path_reply, slot, ours);
  return true;
}

// From its reply on the peer has a queue pair, so the attempt ends by path_down from both ends.
bool Reopener::take_reply(PathSlot& slot, std::span<const std::byte> payload) {
  auto& fresh = slot.reopening.fresh;
  PathAddress theirs;
  if (!fresh || !decode(payload, theirs)) return false;
  std::string why;
  const bool connected = connect(*fresh, theirs, slot, why);
  if (!paths_.replace(slot, std::move(fresh))) return true;
  if (connected) {
    send_probe(slot);
  } else {
    slot.path->close();
    not_proven(slot, why);
  }
  return true;
}

bool Reopener::take_refusal(PathSlot& slot, std::span<const std::byte> payload) {
  PathRefusal refusal;
  if (!slot.reopening.fresh || !decode(payload, refusal)) return false;
  slot.reopening.fresh = nullptr;
  not_proven(slot, "at the peer: " + refusal.why);
  return true;
}

// ---- the proof ---------------------------------------------------------------------------------

void Reopener::send_probe(PathSlot& slot) {
  if (slot.path->write({.from = scrap_,
                        .bytes = kProbeBytes,
                        .to = slot.reopening.peer_scrap,
                        .key = slot.rail->key,
                        .own_key = slot.rail->rail->memory().rings()->lkey,
                        .signalled = true}) == 0)
    paths_.fail(slot, system_message("ibv_post_send"));
}

// False: it is data already, from a peer that has both probes.
bool Reopener::proving(PathSlot& slot, bool receive, uint64_t number) {
  auto& reopening = slot.reopening;
  if (receive && reopening.probe_arrived) return false;
  if (receive) {
    reopening.probe_arrived = true;
    if (link_.rank > link_.peer) send_probe(slot);
  } else {
    slot.path->writes().complete(number);
    reopening.probe_landed = true;
  }
  if (!reopening.probe_arrived || !reopening.probe_landed) return true;
  slot.path->use();
  slot.carrying = true;
  reopening.attempts.used(Clock::now());
  log(LogLevel::warn, "verbs",
      fmt::format("{} is used again, {}", paths_.name(slot), slot.rail->in_words()));
  return true;
}

// Logged as a warning once for consecutive failures: attempts may go on for days.
void Reopener::not_proven(PathSlot& slot, const std::string& why) {
  Attempts& attempts = slot.reopening.attempts;
  attempts.failed(Clock::now());
  const bool first = attempts.failures() == 1;
  log(first ? LogLevel::warn : LogLevel::debug, "verbs",
      fmt::format("{} could not be opened again{}: {}", paths_.name(slot),
                  first ? " yet, it is tried until it can" : "", why));
}

}  // namespace ringwood::verbs
