#include "transports/bootstrap/admission/admission.h"

#include <algorithm>

namespace ringwood {

Admission::Admission(size_t places)
    : places_(std::max<size_t>(places, 1)), challenges_((places_ + 1) / 2) {}

Admission::Id Admission::came(const std::string& source, Time now) {
  const Id id = next_id_++;
  Source& from = sources_.try_emplace(source, Source{source, id, {}}).first->second;
  put(from, kSilent, {now, id});
  peers_.emplace(id, Peer{&from, kSilent, now});
  return id;
}

void Admission::spoke(Id id) { move(id, kWaiting, peers_.at(id).since); }

void Admission::left(Id id) {
  const auto found = peers_.find(id);
  const Peer peer = found->second;
  peers_.erase(found);
  take(*peer.source, peer.stage, {peer.since, id});
  const auto is_empty = [](const auto& peers) { return peers.empty(); };
  if (std::ranges::all_of(peer.source->peers, is_empty)) sources_.erase(peer.source->name);
}

void Admission::move(Id id, Stage to, Time since) {
  Peer& peer = peers_.at(id);
  take(*peer.source, peer.stage, {peer.since, id});
  peer.stage = to;
  peer.since = since;
  put(*peer.source, to, {since, id});
}

void Admission::put(Source& source, Stage stage, Place place) {
  unrank(source);
  source.peers[stage].insert(place);
  all_[stage].insert(place);
  rank(source);
}

void Admission::take(Source& source, Stage stage, Place place) {
  unrank(source);
  source.peers[stage].erase(place);
  all_[stage].erase(place);
  rank(source);
}

void Admission::rank(Source& source) {
  for (const Stage stage : {kSilent, kWaiting})
    if (const size_t count = source.peers[stage].size())
      most_[stage].emplace(count, source.first, &source);
  if (!source.peers[kWaiting].empty())
    turns_.emplace(source.peers[kChallenged].size(), source.peers[kWaiting].begin()->second,
                   &source);
}

void Admission::unrank(Source& source) {
  for (const Stage stage : {kSilent, kWaiting})
    most_[stage].erase({source.peers[stage].size(), source.first, &source});
  if (!source.peers[kWaiting].empty())
    turns_.erase(
        {source.peers[kChallenged].size(), source.peers[kWaiting].begin()->second, &source});
}

std::optional<Admission::Id> Admission::expired(Time now) const {
  for (const auto& peers : all_)
    if (!peers.empty() && peers.begin()->first + kHandshakeTime <= now)
      return peers.begin()->second;
  return std::nullopt;
}

bool Admission::is_late(Time now) const {
  const auto& challenged = all_[kChallenged];
  return !challenged.empty() && challenged.begin()->first + kReplyTime <= now;
}

std::optional<Admission::Id> Admission::next_to_challenge() const {
  if (turns_.empty()) return std::nullopt;
  const auto& [challenged, id, source] = *turns_.begin();
  if (challenged >= challenges_ - all_[kChallenged].size()) return std::nullopt;
  return id;
}

std::optional<Admission::Action> Admission::next(Time now) {
  using Kind = Action::Kind;
  if (const auto id = expired(now))
    return Action{Kind::drop, *id, "it did not finish the handshake in 5 s"};
  if (const auto id = next_to_challenge()) {
    move(*id, kChallenged, now);
    return Action{Kind::challenge, *id, ""};
  }
  if (!turns_.empty() && is_late(now))
    return Action{Kind::drop, all_[kChallenged].begin()->second,
                  "it did not reply in 1 s while others waited"};
  return std::nullopt;
}

std::optional<Admission::Action> Admission::in_the_way(Time now) const {
  using Kind = Action::Kind;
  const auto of_most = [&](Stage stage) -> const std::set<Place>& {
    return std::get<Source*>(*most_[stage].rbegin())->peers[stage];
  };
  if (!most_[kSilent].empty())
    return Action{Kind::drop, of_most(kSilent).begin()->second,
                  "it was silent while others wanted its place"};
  if (is_late(now))
    return Action{Kind::drop, all_[kChallenged].begin()->second,
                  "it did not reply in 1 s while others wanted its place"};
  if (!most_[kWaiting].empty() && of_most(kWaiting).size() > 1)
    return Action{Kind::drop, of_most(kWaiting).rbegin()->second,
                  "too many from its address waited; it may try again"};
  return std::nullopt;
}

Admission::Time Admission::next_change(Time now) const {
  Time soonest = Time::max();
  for (const auto& peers : all_)
    if (!peers.empty()) soonest = std::min(soonest, peers.begin()->first + kHandshakeTime);
  const auto& challenged = all_[kChallenged];
  const auto punctual = challenged.upper_bound({now - kReplyTime, ~Id{0}});
  if (punctual != challenged.end()) soonest = std::min(soonest, punctual->first + kReplyTime);
  return soonest;
}

}  // namespace ringwood
