#include "collectives/point_to_point.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace ringwood {
namespace {

Error protocol_error(int peer, std::string what) {
  Error e(ErrorCode::peer_lost, fmt::format("rank {} broke the message protocol: {}", peer, what));
  e.peer = peer;
  return e;
}

}  // namespace

PointToPoint::PointToPoint(Mesh& mesh) : mesh_(mesh), peers_(mesh.size) {
  for (int r = 0; r < mesh.size; ++r)
    peers_[r].link = mesh.peers[r].link[kPointToPointChannel].get();
}

void PointToPoint::add(std::shared_ptr<MessageState> message) {
  ++pending_;
  all_.push_back(message);
  fresh_.push_back(std::move(message));
}

void PointToPoint::settle(std::shared_ptr<MessageState> message, int from,
                          std::vector<std::shared_ptr<OperationState>>& finished) {
  --pending_;
  if (!message->sending) message->from = from;
  all_.erase(std::find(all_.begin(), all_.end(), message));  // mostly the first
  finished.push_back(std::move(message));
}

Status PointToPoint::step(bool listening, bool& progressed,
                          std::vector<std::shared_ptr<OperationState>>& finished) {
  auto fresh = std::move(fresh_);
  fresh_.clear();
  for (auto& message : fresh) {
    progressed = true;
    Status s;
    if (message->sending) {
      Peer& peer = peers_[message->peer];
      peer.held.push_back(message);
      s = start_held(peer);
    } else {
      s = match_early(message, finished);
    }
    if (!s) return s;
  }
  for (int r = 0; r < mesh_.size; ++r)
    if (watched(r) || (listening && peers_[r].link))
      if (Status s = poll(r, listening, progressed, finished); !s) return s;
  return {};
}

// Without listening, a peer is looked at only while something can come of it: an idle layer costs
// the collectives nothing.
bool PointToPoint::watched(int rank) const {
  const Peer& p = peers_[rank];
  if (!p.link) return false;
  if (!p.outgoing.empty() || !p.announced.empty() || !p.granted.empty() || p.reading_payload)
    return true;
  return std::any_of(receives_.begin(), receives_.end(),
                     [&](const auto& m) { return m->peer == rank || m->peer == kAnySource; });
}

bool PointToPoint::needs(int rank) const {
  const Peer& p = peers_[rank];
  if (!p.announced.empty() || !p.granted.empty() || !p.outgoing.empty() || p.payload_for)
    return true;
  return std::any_of(receives_.begin(), receives_.end(),
                     [&](const auto& m) { return m->peer == rank; });
}

std::shared_ptr<MessageState> PointToPoint::late(Clock::time_point now) const {
  for (const auto& m : all_)
    if (m->late(now)) return m;
  return nullptr;
}

void PointToPoint::drop(std::vector<std::shared_ptr<OperationState>>& dropped) {
  for (auto& m : all_) dropped.push_back(m);
  all_.clear();
  receives_.clear();
  fresh_.clear();
  // A message holds on to its engine, which holds this.
  for (Peer& p : peers_) {
    p.announced.clear();
    p.granted.clear();
    p.held.clear();
    p.outgoing.clear();
    p.early.clear();
    p.payload_for = nullptr;
  }
  pending_ = 0;
}

// ---- sending
// ------------------------------------------------------------------------------------------------

// One that need not be is announced when half of the room is used: its grant says what is free
// again.
bool PointToPoint::eager(const Peer& peer, size_t bytes) {
  if (bytes > kEagerBytes) return false;
  const uint64_t used = peer.sent - peer.known_taken + bytes + kEagerCharge;
  return used <= (peer.announced.empty() ? kEagerRoom : 2 * kEagerRoom);
}

bool PointToPoint::can_start(const Peer& peer, const MessageState& message) {
  return eager(peer, message.bytes) || peer.announced.size() < kMostAnnounced;
}

Status PointToPoint::start_send(Peer& peer, std::shared_ptr<MessageState> message) {
  Header header;
  header.tag = message->tag;
  header.bytes = message->bytes;
  if (eager(peer, message->bytes)) {
    header.kind = kEager;
    peer.sent += message->bytes + kEagerCharge;
    return post(peer, header, std::move(message));
  }
  header.kind = kAnnounce;
  header.id = peer.next_id++;
  peer.announced[header.id] = std::move(message);
  return post(peer, header, nullptr);
}

Status PointToPoint::start_held(Peer& peer) {
  while (!peer.held.empty() && can_start(peer, *peer.held.front())) {
    auto message = std::move(peer.held.front());
    peer.held.pop_front();
    if (Status s = start_send(peer, std::move(message)); !s) return s;
  }
  return {};
}

Status PointToPoint::post(Peer& peer, const Header& header, std::shared_ptr<MessageState> payload) {
  const bool has_payload = payload && payload->bytes > 0;
  peer.outgoing.push_back({header, has_payload ? nullptr : payload, false});
  peer.outgoing.back().header.taken = peer.taken;
  ++peer.posted_sends;
  if (Status s = peer.link->post_send(&peer.outgoing.back().header, sizeof(Header)); !s) return s;
  if (!has_payload) return {};
  ++peer.posted_sends;
  const void* data = payload->data;
  const size_t bytes = payload->bytes;
  peer.outgoing.push_back({{}, std::move(payload), true});
  return peer.link->post_send(data, bytes);
}

// ---- receiving
// ----------------------------------------------------------------------------------------------

// An error counts only if something is still wanted of this peer: one that has finished and left is
// no fault.
Status PointToPoint::poll(int rank, bool listening, bool& progressed,
                          std::vector<std::shared_ptr<OperationState>>& finished) {
  Peer& p = peers_[rank];
  while (true) {
    Status s;
    if (p.posted_receives == p.totals.received && !p.reading_payload) {
      s = p.link->post_recv(&p.incoming, sizeof p.incoming);
      if (s) ++p.posted_receives;
    }
    const Completions before = p.totals;
    if (s) s = p.link->poll(p.totals);
    for (uint64_t i = before.sent; i < p.totals.sent; ++i) {
      if (p.outgoing.front().message) settle(p.outgoing.front().message, -1, finished);
      p.outgoing.pop_front();
    }
    const bool arrived = p.totals.received != before.received;
    if (arrived)
      if (Status bad = received(rank, finished); !bad) return bad;
    progressed |= arrived || p.totals.sent != before.sent;
    if (!s) return needs(rank) ? std::move(s) : Status();
    const bool quiet = !arrived && p.totals.sent == before.sent;
    if (quiet || (!listening && !watched(rank))) return {};
  }
}

// Exactly one receive is posted at a time, so this is it.
Status PointToPoint::received(int rank, std::vector<std::shared_ptr<OperationState>>& finished) {
  Peer& p = peers_[rank];
  if (p.reading_payload) {
    p.reading_payload = false;
    if (p.payload_for) {
      settle(std::move(p.payload_for), rank, finished);
      p.payload_for = nullptr;
      return {};
    }
    // It may have become wanted while it arrived.
    auto receive = take_receive(rank, p.early.back().tag);
    if (!receive) return {};
    receives_.push_front(receive);
    return match_early(receive, finished);
  }
  Status s = on_header(rank);
  if (!s || p.reading_payload) return s;
  if (p.payload_for) {  // an empty message needs no payload
    settle(std::move(p.payload_for), rank, finished);
    p.payload_for = nullptr;
  }
  return {};
}

Status PointToPoint::read_into(Peer& peer, void* data, size_t bytes) {
  if (bytes == 0) return {};
  peer.reading_payload = true;
  ++peer.posted_receives;
  return peer.link->post_recv(data, bytes);
}

Status PointToPoint::on_header(int rank) {
  Peer& p = peers_[rank];
  const Header h = p.incoming;
  if (h.taken < p.known_taken || h.taken > p.sent)
    return protocol_error(rank, "it has taken what it was not sent");
  p.known_taken = h.taken;
  switch (h.kind) {
    case kEager: return on_eager(rank, h);
    case kAnnounce: return on_offer(rank, h);
    case kGrant: return on_grant(rank, h);
    case kData: {
      auto it = p.granted.find(h.id);
      if (it == p.granted.end()) return protocol_error(rank, "data that was not granted");
      p.payload_for = std::move(it->second);
      p.granted.erase(it);
      return read_into(p, p.payload_for->data, p.payload_for->bytes);
    }
    default: return protocol_error(rank, fmt::format("a header of kind {}", h.kind));
  }
}

Status PointToPoint::on_eager(int rank, const Header& h) {
  Peer& p = peers_[rank];
  if (h.bytes > kEagerBytes)
    return protocol_error(rank, fmt::format("an eager message of {} bytes", h.bytes));
  const auto bytes = static_cast<size_t>(h.bytes);
  if (auto receive = take_receive(rank, h.tag)) {
    if (Status s = check_size(*receive, rank, bytes); !s) return s;
    p.taken += bytes + kEagerCharge;
    p.payload_for = receive;
    return read_into(p, receive->data, bytes);
  }
  p.kept += bytes + kEagerCharge;
  if (p.kept > 2 * kEagerRoom)
    return protocol_error(rank, "more messages without a receive than there is room for");
  p.early.push_back({h.tag, bytes, false, 0, std::make_unique<std::byte[]>(bytes)});
  return read_into(p, p.early.back().data.get(), bytes);
}

Status PointToPoint::on_grant(int rank, const Header& h) {
  Peer& p = peers_[rank];
  auto it = p.announced.find(h.id);
  if (it == p.announced.end())
    return protocol_error(rank, "a grant for a message that was not announced");
  Header data;
  data.kind = kData;
  data.id = h.id;
  auto message = std::move(it->second);
  p.announced.erase(it);
  if (Status s = post(p, data, std::move(message)); !s) return s;
  return start_held(p);
}

Status PointToPoint::on_offer(int rank, const Header& header) {
  Peer& p = peers_[rank];
  if (auto receive = take_receive(rank, header.tag)) {
    if (Status s = check_size(*receive, rank, header.bytes); !s) return s;
    return grant(p, header.id, receive, rank);
  }
  if (++p.early_announced > kMostAnnounced)
    return protocol_error(rank, "more announcements without a receive than there may be");
  p.early.push_back({header.tag, static_cast<size_t>(header.bytes), true, header.id, nullptr});
  return {};
}

Status PointToPoint::grant(Peer& peer, uint32_t id, const std::shared_ptr<MessageState>& receive,
                           int rank) {
  if (!peer.granted.emplace(id, receive).second)
    return protocol_error(rank, "the same announcement twice");
  Header grant;
  grant.kind = kGrant;
  grant.id = id;
  return post(peer, grant, nullptr);
}

std::shared_ptr<MessageState> PointToPoint::take_receive(int rank, uint64_t tag) {
  for (auto it = receives_.begin(); it != receives_.end(); ++it) {
    if ((*it)->tag != tag || ((*it)->peer != rank && (*it)->peer != kAnySource)) continue;
    auto receive = *it;
    receives_.erase(it);
    return receive;
  }
  return nullptr;
}

// A new receive looks first among what came before it, then waits in line.
Status PointToPoint::match_early(const std::shared_ptr<MessageState>& receive,
                                 std::vector<std::shared_ptr<OperationState>>& finished) {
  receives_.remove(receive);
  for (int r = 0; r < mesh_.size; ++r) {
    if (receive->peer != r && receive->peer != kAnySource) continue;
    Peer& p = peers_[r];
    for (auto it = p.early.begin(); it != p.early.end(); ++it) {
      if (it->tag != receive->tag) continue;
      // Still arriving: received() will come back to it.
      if (!it->announced && p.reading_payload && !p.payload_for && it == std::prev(p.early.end()))
        break;
      if (Status s = check_size(*receive, r, it->bytes); !s) return s;
      Early early = std::move(*it);
      p.early.erase(it);
      if (!early.announced) {
        p.kept -= early.bytes + kEagerCharge;
        p.taken += early.bytes + kEagerCharge;
        if (early.bytes) std::memcpy(receive->data, early.data.get(), early.bytes);
        settle(receive, r, finished);
        return {};
      }
      --p.early_announced;
      return grant(p, early.id, receive, r);
    }
  }
  receives_.push_back(receive);
  return {};
}

Status PointToPoint::check_size(const MessageState& receive, int rank, size_t bytes) const {
  if (receive.bytes == bytes) return {};
  Error e(ErrorCode::mismatch,
          fmt::format("rank {} sent {} bytes with tag {} while rank {} receives {} bytes", rank,
                      bytes, receive.tag, mesh_.rank, receive.bytes));
  e.peer = rank;
  return e;
}

}  // namespace ringwood
