// The half of the star that turns the first error into the verdict of the group.

#include <fmt/format.h>

#include "transports/control_star.h"

namespace ringwood {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCensusTime{60};
// A link often sees the end of its peer before the control connection does, which knows more. And
// what a rank had sent before it left in good order may still be on its way to the others: they end
// their earlier operations with it before the verdict ends them all.
constexpr milliseconds kDeathGrace{50};
constexpr milliseconds kRootPatience{300};
// A timer that rings this late rang in a process that was itself kept from running.
constexpr milliseconds kStarved{100};

}  // namespace

void ControlStar::fail(Error error) {
  asio::post(io_, [this, error = std::move(error)] { report(error); });
}

void ControlStar::report(Error error) {
  if (delivered_ || first_) return;
  if (is_root() && !leaving_) return freeze(std::move(error));
  if (leaving_ || !members_[0].present()) return deliver_own(std::move(error));
  members_[0].channel->send(MessageType::failure, encode(error));
  first_ = std::move(error);
  await_verdict();
}

// Point: the root has its time; whatever kept this process from running is not held against it.
void ControlStar::await_verdict() {
  auto until = Clock::now() + kRootPatience;
  verdict_timer_.expires_at(until);
  verdict_timer_.async_wait([this, until](asio::error_code error) {
    if (error || delivered_) return;
    if (Clock::now() - until > kStarved) return await_verdict();
    deliver_own(*first_);
  });
}

// Root: this error it is; what remains is what everybody was doing, or how a peer ended.
void ControlStar::freeze(Error error) {
  if (delivered_ || first_) return;
  first_ = std::move(error);
  int peer = first_->peer;
  bool census = needs_census(first_->code);
  bool grace = is_loss(*first_) && peer > 0 && peer < size_ &&
               (members_[peer].present() || members_[peer].left);
  if (!census && !grace) return conclude();
  verdict_timer_.expires_after(census ? kCensusTime : kDeathGrace);
  verdict_timer_.async_wait([this](asio::error_code failed) {
    if (!failed && !delivered_) conclude();
  });
  if (!census) return;
  send_to_present(MessageType::query);
  count(0, own_standings());
}

void ControlStar::on_death(int rank, Error error) {
  bool caused = first_ && is_loss(*first_) && first_->peer == rank;
  if (caused) {
    first_->code = error.code;
    first_->cause = error.cause;
  }
  if (!is_root()) {
    // Another peer's end is most often the consequence: it has heard of the root's a moment sooner.
    if (first_ && is_loss(*first_) && !caused) {
      error.cause += fmt::format("; before it was known: {}", first_->message());
      return deliver(error);
    }
    return deliver(first_ ? Error(*first_) : error);
  }
  if (caused) return conclude();
  if (first_) return conclude_when_complete();
  freeze(std::move(error));
}

// Nobody else can see it: each waits on its channel for the other to begin. A channel is an
// operation's for good, so it does not matter that the two were asked at different times.
void ControlStar::compare_channels(int rank) {
  if (first_ || delivered_ || leaving_) return;
  const int64_t sequence = on_other_channel(ticked_at_, members_[rank].standings);
  if (sequence >= 0) freeze(different_priorities(sequence, rank_, rank));
}

void ControlStar::count(int rank, const Standings& standings) {
  members_[rank].standings = standings;
  members_[rank].counted = true;
  conclude_when_complete();
}

void ControlStar::conclude_when_complete() {
  if (!first_ || delivered_) return;
  if (!is_root()) {
    if (!members_[0].present()) deliver_own(*first_);
    return;
  }
  if (!needs_census(first_->code)) return;
  for (const Member& member : members_) {
    if (member.present() && !member.counted) return;
  }
  conclude();
}

std::vector<CensusRow> ControlStar::rows() const {
  std::vector<CensusRow> rows(size_);
  for (int rank = 0; rank < size_; ++rank) {
    const Member& member = members_[rank];
    CensusRow& row = rows[rank];
    row.standings = member.standings;
    row.heard_ago_s = std::chrono::duration<double>(Clock::now() - member.heard).count();
    if (member.counted) {
      row.state = CensusRow::State::answered;
    } else if (member.died) {
      row.state = CensusRow::State::died;
    } else if (member.left) {
      row.state = CensusRow::State::departed;
    }
  }
  return rows;
}

// Without a root: with what this rank knows of the peer.
void ControlStar::deliver_own(Error error) {
  bool departed = error.peer >= 0 && error.peer < size_ && members_[error.peer].left;
  if (is_loss(error) && departed) error.cause = left_text(error.peer);
  deliver(error);
}

// The root tells and believes the same bytes.
void ControlStar::conclude() {
  std::string body = encode(compose_verdict(*first_, rows()));
  send_to_present(MessageType::verdict, body);
  Error verdict;
  decode(body, verdict);
  deliver(verdict);
}

void ControlStar::settle_before_leaving() {
  if (!first_ || delivered_) return;
  if (is_root()) return conclude();
  deliver_own(*first_);
}

void ControlStar::deliver(const Error& error) {
  if (delivered_) return;
  delivered_ = true;
  verdict_timer_.cancel();
  if (handlers_.failed) handlers_.failed(error);
}

}  // namespace ringwood
