#include "transports/verbs/setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "transports/base/log.h"
#include "transports/verbs/link.h"

namespace ringwood::verbs {

LinkSetup::LinkSetup(const Group& group, int peer, OwnedFd fallback, std::vector<RailPair> rails,
                     const Rings& rings, size_t number)
    : options_(*group.options),
      ring_(rings.incoming(number)),
      connection_(std::make_unique<Connection>(group, peer, std::move(fallback), rings, number)),
      link_(connection_->link()),
      paths_(connection_->paths()),
      failure_(rings.failure) {
  if (failure_.empty()) paths_.make(std::move(rails), failure_);
}

// ---- where the queue pairs are -----------------------------------------------------------------

// The lower rank sends its hello first; the higher replies.
void LinkSetup::greet() {
  if (link_.rank < link_.peer) tell_ends();
}

void LinkSetup::tell_ends() {
  Hello hello;
  hello.failure = failure_;
  hello.ring_bytes = ring_.bytes;
  hello.ring = reinterpret_cast<uintptr_t>(ring_.memory);
  hello.traffic_class = paths_.setting().traffic_class;
  hello.service_level = paths_.setting().service_level;
  if (failure_.empty()) {
    for (const LinkRail& rail : paths_.rails())
      hello.keys.push_back(rail.rail->memory().rings()->rkey);
    for (const PathSlot& slot : paths_.slots()) hello.paths.push_back(slot.path->pair().end());
  }
  const std::string text = encode(hello);
  link_.fallback.queue({.type = FrameType::hello}, std::as_bytes(std::span(text)));
  link_.fallback.flush();
}

void LinkSetup::connect(Deadline deadline, Deadline patience) {
  Frame frame;
  std::vector<std::byte> payload;
  if (!link_.fallback.await(frame, payload, deadline) || frame.type != FrameType::hello) {
    if (failure_.empty()) failure_ = "the peer did not send its queue pairs";
    return;
  }
  Hello theirs;
  if (!decode(payload, theirs) && failure_.empty())
    failure_ = "the peer's greeting over verbs is damaged";
  if (failure_.empty()) agree(theirs);
  if (link_.rank > link_.peer) tell_ends();
  if (failure_.empty()) connect_paths(theirs, patience);
}

// What both ends must agree on before the reply.
void LinkSetup::agree(const Hello& theirs) {
  std::vector<PathSlot>& slots = paths_.slots();
  if (!theirs.failure.empty()) {
    failure_ = "at the peer: " + theirs.failure;
  } else if (theirs.ring_bytes != ring_.bytes || theirs.paths.size() != slots.size() ||
             theirs.keys.size() != paths_.rails().size()) {
    failure_ = fmt::format(
        "RINGWOOD_VERBS_RING_BYTES or RINGWOOD_VERBS_QPS differ: {} and {} here, {} and {} there",
        ring_.bytes, slots.size(), theirs.ring_bytes, theirs.paths.size());
  }
  for (size_t i = 0; failure_.empty() && i < slots.size(); ++i)
    slots[i].path->pair().agree(theirs.paths[i].ece);
}

void LinkSetup::connect_paths(const Hello& theirs, Deadline patience) {
  PathSetting& setting = paths_.setting();
  // One traffic class for both directions: the lower rank's.
  if (link_.peer < link_.rank) {
    setting.traffic_class = theirs.traffic_class;
    setting.service_level = theirs.service_level;
  }
  connection_->data().lead_to(theirs.ring);
  for (size_t i = 0; i < theirs.keys.size(); ++i) paths_.rails()[i].key = theirs.keys[i];
  for (PathSlot& slot : paths_.slots()) {
    const LinkRail& rail = *slot.rail;
    if (!paths_.connect(*slot.path, rail, theirs.paths[slot.index], patience, failure_)) return;
    slot.path->use();
    log(LogLevel::info, "verbs",
        fmt::format("rank {} to {}: {} {} GID {} [{}] to {} {}, path MTU {}, traffic class {} "
                    "(DSCP {}), service level {}, timeout {}, retries {}",
                    link_.rank, link_.peer, rail.rail->address().name,
                    rail.peer.infiniband ? "InfiniBand" : "RoCE",
                    to_string(rail.rail->address().gid), rail.rail->port().gid_index(),
                    rail.peer.name, to_string(rail.peer.gid), rail.mtu(), setting.traffic_class,
                    setting.traffic_class >> 2, setting.service_level, setting.timeout,
                    setting.retries));
  }
}

// ---- the probe ---------------------------------------------------------------------------------

void LinkSetup::begin_probe() {
  if (!failure_.empty()) return;
  const size_t paths = paths_.slots().size();
  probe_out_.assign(kProbeBytes, std::byte{0x5a});
  probe_in_.assign(kProbeBytes * paths, std::byte{0});
  for (size_t i = 0; i < paths; ++i)
    connection_->data().incoming().post(probe_in_.data() + i * kProbeBytes, kProbeBytes);
}

// One message for each path; paths take turns. Polled in between, so that none is written together
// with another.
bool LinkSetup::probe_ended() {
  if (!failure_.empty()) return true;
  const std::vector<PathSlot>& slots = paths_.slots();
  Outgoing& out = connection_->data().outgoing();
  if (probes_ < slots.size() && out.idle()) {
    out.post(probe_out_.data(), kProbeBytes);
    ++probes_;
  }
  if (Status s = connection_->move(); !s) failure_ = s.error().cause;
  const auto each = [&](auto&& fits) { return std::all_of(slots.begin(), slots.end(), fits); };
  const auto alive = [](const PathSlot& slot) { return slot.path->state() == Path::State::alive; };
  if (failure_.empty() && !each(alive)) failure_ = "a path failed at once";
  if (!failure_.empty()) return true;
  return probes_ == slots.size() && connection_->data().incoming().received() == slots.size() &&
         each([](const PathSlot& slot) { return slot.path->quiet(); });
}

void LinkSetup::end_probe() {
  const size_t paths = paths_.slots().size();
  if (!failure_.empty() || (probes_ == paths && connection_->data().incoming().received() == paths))
    return;
  failure_ = fmt::format(
      "{}: nothing came through: compare both GIDs, the subnets and routes "
      "between them, VLAN and MTU of the switches, and let UDP port 4791 "
      "through",
      paths_.rails()[0].rail->address().name);
}

// ---- the result -------------------------------------------------------------------------------

void LinkSetup::tell_result() {
  link_.fallback.queue({.type = FrameType::result, .path = uint8_t(failure_.empty() ? 1 : 0)});
  link_.fallback.flush();
}

// A faster peer may have sent its result already, while this rank was probing.
void LinkSetup::take_result(Deadline deadline) {
  Frame frame;
  std::vector<std::byte> payload;
  std::optional<bool> result = connection_->take_result();
  while (!result && link_.fallback.await(frame, payload, deadline)) {
    if (!connection_->take(frame, payload)) break;
    result = connection_->take_result();
  }
  if (failure_.empty() && result != true) failure_ = "the peer failed: see its log";
}

std::unique_ptr<Link> LinkSetup::finish(WaitSet& wait_set,
                                        std::shared_ptr<const std::atomic<unsigned>> look) {
  connection_->use(wait_set, options_.heartbeat, std::move(look));
  return std::make_unique<VerbsLink>(std::move(connection_), probes_);
}

}  // namespace ringwood::verbs
