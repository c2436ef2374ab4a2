#include "transports/control/status/trace_relay.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ringwood {
namespace {

constexpr int kRoot = 0;
// Of those that wait, beside one for each rank: the watchers of this rank, and of others at rank 0.
constexpr size_t kMaxPending = 64;

}  // namespace

void TraceRelay::ask(const TraceQuery& query, TraceReply reply) {
  if (query.ask == TraceAsk::begin_all) return begin_all(query, reply);
  if (query.rank >= connections_.size()) return reply(piece_of(query, TraceState::absent));
  if (query.rank != rank_) return pass_on(query, std::move(reply));
  if (query.ask == TraceAsk::piece) return reply(texts_.piece(query));
  texts_.begin(query.text);
  reply(piece_of(query, TraceState::making));
}

// Rank 0 answers for itself: what the others answer is seen when their pieces are asked for.
void TraceRelay::begin_all(const TraceQuery& query, const TraceReply& reply) {
  if (rank_ != kRoot) {
    texts_.begin(query.text);
    return pass_on(query, reply);
  }
  for (int rank = 1; rank < connections_.size(); ++rank)
    pass_on({TraceAsk::begin, query.text, rank, 0}, [](const TracePiece&) {});
  texts_.begin(query.text);
  reply(piece_of(query, TraceState::making));
}

void TraceRelay::pass_on(const TraceQuery& query, TraceReply reply) {
  const int to = rank_ == kRoot ? query.rank : kRoot;
  if (!connections_.present(to)) return reply(piece_of(query, TraceState::absent));
  const size_t most = kMaxPending + 2 * static_cast<size_t>(connections_.size());
  if (pending_.size() >= most) return reply(piece_of(query, TraceState::silent));
  pending_.push_back({to, query, std::move(reply), Clock::now() + patience_});
  send_next(to);
  set_timer();
}

void TraceRelay::send_next(int to) {
  if (asked_.contains(to) || !connections_.present(to)) return;
  const auto next = std::ranges::find(pending_, to, &Pending::to);
  if (next == pending_.end()) return;
  asked_.emplace(to, next->query);
  connections_.send(to, MessageType::trace_query, encode(next->query));
}

bool TraceRelay::on_query(int from, const TraceQuery& query) {
  // Rank 0 passes on nothing that is not meant for this rank.
  if (rank_ != kRoot && (query.rank != rank_ || query.ask == TraceAsk::begin_all)) return false;
  ask(query, [this, from](const TracePiece& piece) {
    if (connections_.present(from))
      connections_.send(from, MessageType::trace_piece, encode(piece));
  });
  return true;
}

bool TraceRelay::on_piece(int from, const TracePiece& piece) {
  const auto asked = asked_.find(from);
  if (asked == asked_.end() || !answers(piece, asked->second)) return false;
  const TraceQuery query = asked->second;
  asked_.erase(asked);
  std::vector<TraceReply> replies;
  std::erase_if(pending_, [&](Pending& one) {
    if (one.to != from || one.query != query) return false;
    replies.push_back(std::move(one.reply));
    return true;
  });
  send_next(from);
  for (const TraceReply& reply : replies) reply(piece);
  return true;
}

void TraceRelay::give_up_late() {
  const auto now = Clock::now();
  while (!pending_.empty() && pending_.front().until <= now) {
    const Pending late = std::move(pending_.front());
    pending_.pop_front();
    late.reply(piece_of(late.query, TraceState::silent));
  }
  set_timer();
}

void TraceRelay::set_timer() {
  if (pending_.empty() || timed_) return;
  timed_ = true;
  timer_.expires_at(pending_.front().until);
  timer_.async_wait([this](asio::error_code error) {
    timed_ = false;
    if (!error) give_up_late();
  });
}

}  // namespace ringwood
