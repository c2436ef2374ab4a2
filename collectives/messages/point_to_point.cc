#include "collectives/messages/point_to_point.h"

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

PointToPoint::PointToPoint(Mesh& mesh, GroupDevices& devices)
    : mesh_(mesh), devices_(devices), peers_(mesh.size) {
  for (int r = 0; r < mesh.size; ++r) {
    peers_[r].link = mesh.peers[r].link[kPointToPointChannel].get();
    peers_[r].sender = MessageSender(peers_[r].link);
  }
}

void PointToPoint::add(std::shared_ptr<MessageState> message) {
  ++pending_;
  all_.push_back(message);
  fresh_.push_back(std::move(message));
}

void PointToPoint::arrived(std::shared_ptr<MessageState> receive, int from,
                           std::vector<std::shared_ptr<OperationState>>& finished) {
  receive->from = from;
  if (receive->on_device())
    devices_.received(std::move(receive));
  else
    finish(std::move(receive), finished);
}

void PointToPoint::finish(std::shared_ptr<MessageState> message,
                          std::vector<std::shared_ptr<OperationState>>& finished) {
  --pending_;
  if (message->on_device()) devices_.end(*message);
  all_.erase(std::find(all_.begin(), all_.end(), message));  // usually the first
  finished.push_back(std::move(message));
}

Status PointToPoint::serve_devices(bool& progressed,
                                   std::vector<std::shared_ptr<OperationState>>& finished) {
  std::vector<DeviceMessages::Granted> sends;
  std::vector<std::shared_ptr<MessageState>> receives;
  if (Status s = devices_.step(progressed, sends, receives); !s) return s;
  for (auto& receive : receives) finish(std::move(receive), finished);
  for (auto& [message, id] : sends) {
    MessageSender& sender = peers_[message->peer].sender;
    if (Status s = sender.send_data(id, std::move(message)); !s) return s;
  }
  return {};
}

Status PointToPoint::step(bool listening, bool& progressed,
                          std::vector<std::shared_ptr<OperationState>>& finished) {
  auto fresh = std::move(fresh_);
  fresh_.clear();
  for (auto& message : fresh) {
    progressed = true;
    if (message->sending && message->on_device()) devices_.add(message);
    if (Status s = message->sending ? peers_[message->peer].sender.send(message)
                                    : match_early(message, finished);
        !s)
      return s;
  }
  if (!devices_.empty())
    if (Status s = serve_devices(progressed, finished); !s) return s;
  for (int r = 0; r < mesh_.size; ++r)
    if (watched(r) || (listening && peers_[r].link))
      if (Status s = poll(r, listening, progressed, finished); !s) return s;
  return {};
}

// Without `listening`, a peer is polled only while something may result: an idle layer costs the
// collectives nothing.
bool PointToPoint::watched(int rank) const {
  const Peer& p = peers_[rank];
  if (!p.link) return false;
  if (!p.sender.idle() || !p.granted.empty() || p.reading_payload) return true;
  return std::any_of(receives_.begin(), receives_.end(),
                     [&](const auto& m) { return m->peer == rank || m->peer == kAnySource; });
}

bool PointToPoint::needs(int rank) const {
  const Peer& p = peers_[rank];
  if (!p.sender.idle() || !p.granted.empty() || p.payload_for || devices_.sends_to(rank))
    return true;
  return std::any_of(receives_.begin(), receives_.end(),
                     [&](const auto& m) { return m->peer == rank; });
}

const MessageState* PointToPoint::with(int rank) const {
  for (const auto& m : all_)
    if (m->peer == rank) return m.get();
  const Peer& p = peers_[rank];
  if (p.payload_for) return p.payload_for.get();
  return p.granted.empty() ? nullptr : p.granted.begin()->second.get();
}

const MessageState* PointToPoint::from_any() const {
  const auto it = std::ranges::find(receives_, kAnySource, [](const auto& m) { return m->peer; });
  return it == receives_.end() ? nullptr : it->get();
}

std::shared_ptr<MessageState> PointToPoint::late(Clock::time_point now) const {
  for (const auto& m : all_) {
    if (devices_.waits_for_stream(*m)) m->wait_anew(now);
    if (m->late(now)) return m;
  }
  return nullptr;
}

std::vector<const MessageState*> PointToPoint::on_devices() const {
  std::vector<const MessageState*> found;
  for (const auto& m : all_)
    if (m->on_device()) found.push_back(m.get());
  return found;
}

void PointToPoint::drop(std::vector<std::shared_ptr<OperationState>>& dropped) {
  for (auto& m : all_) {
    if (m->on_device()) devices_.drop(*m);
    dropped.push_back(m);
  }
  devices_.clear();
  all_.clear();
  receives_.clear();
  fresh_.clear();
  // A message holds a reference to its engine, which owns this.
  for (Peer& p : peers_) {
    p.sender.drop();
    p.granted.clear();
    p.early.clear();
    p.payload_for = nullptr;
  }
  pending_ = 0;
}

// An error counts only if something is still expected from this peer: one that has finished and
// left is no error.
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
    for (uint64_t i = before.sent; i < p.totals.sent; ++i)
      if (auto message = p.sender.sent()) finish(std::move(message), finished);
    const bool arrived = p.totals.received != before.received;
    if (arrived)
      if (Status bad = received(rank, finished); !bad) return bad;
    progressed |= arrived || p.totals.sent != before.sent || p.totals.more;
    if (!s) {
      p.gone = true;
      if (!needs(rank)) return {};
      if (const MessageState* const message = with(rank)) message->name_in(s.error());
      return s;
    }
    const bool quiet = !arrived && p.totals.sent == before.sent;
    if (quiet || (!listening && !watched(rank))) return {};
  }
}

// Exactly one receive is posted at a time, so it is the one that completed.
Status PointToPoint::received(int rank, std::vector<std::shared_ptr<OperationState>>& finished) {
  Peer& p = peers_[rank];
  if (p.reading_payload) {
    p.reading_payload = false;
    if (p.payload_for) {
      arrived(std::move(p.payload_for), rank, finished);
      p.payload_for = nullptr;
      return {};
    }
    // A receive may have been made while it arrived.
    const auto receive = take_receive(rank, p.early.arrived());
    return receive ? match_early(receive, finished) : Status();
  }
  Status s = on_header(rank);
  if (!s || p.reading_payload) return s;
  if (p.payload_for) {  // an empty message needs no payload
    arrived(std::move(p.payload_for), rank, finished);
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
  const MessageHeader h = p.incoming;
  if (!p.sender.heard(h.taken))
    return protocol_error(rank, "it reports more bytes taken than it was sent");
  switch (h.kind) {
    case MessageHeader::kEager: return on_eager(rank, h);
    case MessageHeader::kAnnounce: return on_announce(rank, h);
    case MessageHeader::kData: return on_data(rank, h);
    case MessageHeader::kGrant: {
      auto message = p.sender.granted(h.id);
      if (!message) return protocol_error(rank, "a grant for a message that was not announced");
      if (message->on_device() && !devices_.may_send(message, h.id)) return {};
      return p.sender.send_data(h.id, std::move(message));
    }
    default: return protocol_error(rank, fmt::format("a header of kind {}", h.kind));
  }
}

Status PointToPoint::on_eager(int rank, const MessageHeader& h) {
  Peer& p = peers_[rank];
  if (h.bytes > kEagerBytes)
    return protocol_error(rank, fmt::format("an eager message of {} bytes", h.bytes));
  const auto bytes = static_cast<size_t>(h.bytes);
  if (auto receive = take_receive(rank, h.tag)) {
    if (Status s = check_size(*receive, rank, bytes); !s) return s;
    p.sender.took(bytes);
    p.payload_for = receive;
    return read_into(p, receive->on_host(), bytes);
  }
  std::byte* const place = p.early.keep(h.tag, bytes);
  if (!place) return protocol_error(rank, "more messages without a receive than there is room for");
  return read_into(p, place, bytes);
}

Status PointToPoint::on_announce(int rank, const MessageHeader& h) {
  if (auto receive = take_receive(rank, h.tag)) {
    if (Status s = check_size(*receive, rank, h.bytes); !s) return s;
    return grant(rank, h.id, receive);
  }
  if (!peers_[rank].early.announce(h.tag, static_cast<size_t>(h.bytes), h.id))
    return protocol_error(rank, "more announcements without a receive than allowed");
  return {};
}

Status PointToPoint::on_data(int rank, const MessageHeader& h) {
  Peer& p = peers_[rank];
  const auto it = p.granted.find(h.id);
  if (it == p.granted.end()) return protocol_error(rank, "data that was not granted");
  p.payload_for = std::move(it->second);
  p.granted.erase(it);
  return read_into(p, p.payload_for->on_host(), p.payload_for->bytes);
}

Status PointToPoint::grant(int rank, uint32_t id, const std::shared_ptr<MessageState>& receive) {
  Peer& p = peers_[rank];
  if (!p.granted.emplace(id, receive).second)
    return protocol_error(rank, "the same announcement twice");
  return p.sender.grant(id);
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

// A new receive looks first among the messages that came before it, then waits in line.
Status PointToPoint::match_early(const std::shared_ptr<MessageState>& receive,
                                 std::vector<std::shared_ptr<OperationState>>& finished) {
  for (int r = 0; r < mesh_.size; ++r) {
    if (receive->peer != r && receive->peer != kAnySource) continue;
    Peer& p = peers_[r];
    // For a message that is still arriving, received() will match the receive.
    const std::optional<EarlyMessage> early = p.early.take(receive->tag);
    if (!early) continue;
    if (Status s = check_size(*receive, r, early->bytes); !s) return s;
    if (early->announced) return grant(r, early->id, receive);
    p.sender.took(early->bytes);
    if (early->bytes) std::memcpy(receive->on_host(), early->data.get(), early->bytes);
    arrived(receive, r, finished);
    return {};
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
  receive.name_in(e);
  return e;
}

}  // namespace ringwood
