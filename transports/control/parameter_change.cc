#include "transports/control/parameter_change.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "transports/base/log.h"
#include "transports/control/explain_error.h"

namespace ringwood {

ParameterChange::ParameterChange(asio::io_context& io, OobConnections& connections,
                                 const ErrorDelivery& delivery, const Control::Handlers& handlers,
                                 Duration patience)
    : connections_(connections),
      delivery_(delivery),
      handlers_(handlers),
      patience_(patience),
      timer_(io) {}

void ParameterChange::propose(Proposal proposal) {
  if (proposal.parameters.empty() || stopped_) return;
  if (under_way())
    next_ = std::move(proposal);
  else
    begin(std::move(proposal));
}

void ParameterChange::begin(Proposal proposal) {
  if (delivery_.begun()) return;
  present_ = std::move(proposal);
  ++epoch_;
  ready_.clear();
  from_ = 0;
  connections_.send_to_present(MessageType::prepare_change,
                               encode(PrepareChange{epoch_, present_.parameters}));
  timer_.expires_after(patience_);
  timer_.async_wait([this, epoch = epoch_](asio::error_code error) {
    if (!error && under_way() && epoch == epoch_ && !delivery_.begun())
      abandon(fmt::format("{} did not answer within {} s", missing(), seconds_in(patience_)));
  });
  const auto first = handlers_.prepare(epoch_, present_.parameters);
  (void)on_reply(0, {epoch_, first.has_value(), first.value_or(0)});
}

bool ParameterChange::on_reply(int rank, const ChangeReply& reply) {
  if (reply.epoch > epoch_) return false;
  if (reply.epoch != epoch_ || !under_way()) return true;  // of an abandoned change
  if (!reply.ready) {
    abandon(fmt::format("rank {} cannot use the parameters", rank));
    return true;
  }
  ready_.insert(rank);
  from_ = std::max(from_, reply.first);
  conclude_when_complete();
  return true;
}

std::string ParameterChange::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < connections_.size(); ++rank)
    if (!ready_.contains(rank) && connections_.present(rank)) ranks.push_back(rank);
  return list_ranks(ranks);
}

void ParameterChange::on_goodbye() {
  if (under_way()) conclude_when_complete();
}

void ParameterChange::conclude_when_complete() {
  if (delivery_.begun()) return;
  for (int rank = 1; rank < connections_.size(); ++rank)
    if (connections_.present(rank) && !ready_.contains(rank)) return;
  if (ready_.contains(0)) commit();
}

void ParameterChange::commit() {
  connections_.send_to_present(MessageType::commit_change, encode(CommitChange{epoch_, from_}));
  (void)handlers_.commit(epoch_, from_);
  log(LogLevel::warn, "parameters",
      fmt::format("from #{} on (epoch {}): {}", from_, epoch_, present_.words));
  end();
}

void ParameterChange::abandon(const std::string& why) {
  connections_.send_to_present(MessageType::abandon_change, encode(AbandonChange{epoch_}));
  handlers_.abandon(epoch_);
  log(LogLevel::info, "parameters", fmt::format("epoch {} is abandoned: {}", epoch_, why));
  end();
}

void ParameterChange::end() {
  timer_.cancel();
  present_ = {};
  if (auto next = std::exchange(next_, std::nullopt); next && !stopped_) begin(std::move(*next));
}

void ParameterChange::stop() {
  stopped_ = true;
  if (under_way() && !delivery_.begun()) abandon("rank 0 leaves");
}

}  // namespace ringwood
