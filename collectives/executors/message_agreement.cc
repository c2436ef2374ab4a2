#include "collectives/executors/message_agreement.h"

#include <utility>

namespace ringwood {

void MessageAgreement::start(const PlanExecution& execution, std::span<QueuedLink> links) {
  execution_ = &execution;
  links_ = links;
  next_ = 0;
  talks_.assign(links.size(), Talk{});
  begin_order(execution);
}

Status MessageAgreement::step(bool& progressed, bool& agreed) {
  const auto& exchanges = execution_->plan->agreement;
  while (next_ < exchanges.size()) {
    size_t end = next_;
    for (; end < exchanges.size() && exchanges[end].stage == exchanges[next_].stage; ++end)
      if (Status s = post(exchanges[end], progressed); !s) return s;
    for (size_t i = next_; i < end; ++i) {
      bool heard = false;
      if (exchanges[i].from < 0) continue;
      if (Status s = wait_for(exchanges[i], heard); !s || !heard) return s;
    }
    progressed = true;
    next_ = end;
  }
  agreed = true;
  return {};
}

Status MessageAgreement::post(const Plan::Exchange& exchange, bool& progressed) {
  if (exchange.from >= 0 && links_[exchange.from].preambles_in == exchange.nth_from) {
    QueuedLink& from = links_[exchange.from];
    Preamble& theirs = talks_[exchange.from].theirs[from.preambles_in++];
    if (Status s = from.link->post_recv(&theirs, sizeof theirs); !s) return s;
  }
  if (exchange.to >= 0 && links_[exchange.to].preambles_out == exchange.nth_to) {
    QueuedLink& to = links_[exchange.to];
    Preamble& mine = talks_[exchange.to].mine[to.preambles_out++];
    mine.fingerprint = fingerprint_to(*execution_, to.queue->peer);
    if (states_order(*execution_)) mine.fingerprint.blocks = order();
    progressed = true;
    if (Status s = to.link->post_send(&mine, sizeof mine); !s) return s;
  }
  return {};
}

// Reads the fingerprints that have arrived: what they say takes precedence over how the link ended.
Status MessageAgreement::hear(int queue) {
  const QueuedLink& link = links_[queue];
  Talk& talk = talks_[queue];
  while (talk.heard < link.preambles_in && link.received() > static_cast<uint64_t>(talk.heard)) {
    const Fingerprint& theirs = talk.theirs[talk.heard++].fingerprint;
    const int peer = link.queue->peer;
    const Fingerprint expected = fingerprint_from(*execution_, peer, theirs);
    if (Status s = check_fingerprint(expected, rank_, theirs, peer); !s) return s;
    hear_order(theirs);
  }
  return {};
}

Status MessageAgreement::wait_for(const Plan::Exchange& exchange, bool& heard) {
  const Talk& talk = talks_[exchange.from];
  QueuedLink& from = links_[exchange.from];
  if (talk.heard <= exchange.nth_from) {
    Status polled = from.link->poll(*from.totals);
    if (Status s = hear(exchange.from); !s) return s;
    if (!polled && from.outstanding()) return polled;
  }
  heard = talk.heard > exchange.nth_from;
  return {};
}

Status MessageAgreement::check() {
  for (size_t i = 0; i < links_.size(); ++i)
    if (Status s = hear(static_cast<int>(i)); !s) return s;
  return {};
}

void MessageAgreement::add_waits(WaitList& waits) const {
  for (size_t i = 0; i < links_.size(); ++i)
    if (talks_[i].heard < links_[i].preambles_in) waits.add_fingerprint(links_[i].queue->peer);
}

int MessageAgreement::waits_for() const {
  for (size_t i = 0; i < links_.size(); ++i)
    if (talks_[i].heard < links_[i].preambles_in) return links_[i].queue->peer;
  return -1;
}

}  // namespace ringwood
