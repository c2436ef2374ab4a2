#include "transports/control/status/report_rounds.h"

#include <unistd.h>

#include <algorithm>

#include "transports/base/host.h"

namespace ringwood {
namespace {

// Watchers ask once a second, by clocks of their own.
constexpr std::chrono::milliseconds kPeriod{900};

}  // namespace

std::string bounded_report(std::string report) {
  if (report.size() > kMaxReport) report.clear();
  return report;
}

ReportRow own_row(int rank, std::string report) {
  ReportRow row{.rank = rank, .state = RankState::reported, .host = host_name(), .report = {}};
  row.pid = getpid();
  row.report = bounded_report(std::move(report));
  return row;
}

ReportRounds::ReportRounds(asio::io_context& io, OobConnections& connections,
                           const Heartbeats& heartbeats, const std::function<std::string()>& own)
    : connections_(connections),
      heartbeats_(heartbeats),
      own_(own),
      timer_(io),
      ranks_(static_cast<size_t>(connections.size())) {}

void ReportRounds::ask(int first, ReportReply reply) {
  if (first > 0) return reply(page(std::min(first, connections_.size())));
  const auto now = Clock::now();
  const auto period = std::max(kPeriod, std::chrono::milliseconds(connections_.size()));
  if (!under_way_ && now - begun_ < period) return reply(page(0));
  waiting_.push_back(std::move(reply));
  if (!under_way_) begin(now);
}

ReportPage ReportRounds::own_page() const {
  ReportPage page{.first = 0, .size = connections_.size(), .relayed = true, .rows = {}};
  page.rows.push_back(own_row(0, own_()));
  return page;
}

void ReportRounds::begin(Clock::time_point now) {
  begun_ = now;
  under_way_ = true;
  for (Rank& rank : ranks_) rank.answered = rank.awaited = false;
  ranks_[0].report = bounded_report(own_());
  for (int rank = 1; rank < connections_.size(); ++rank) {
    if (!connections_.present(rank) || ranks_[rank].asked) continue;
    ranks_[rank].asked = ranks_[rank].awaited = true;
    connections_.send(rank, MessageType::report_request);
  }
  timer_.expires_at(now + heartbeats_.patience(kPatience));
  timer_.async_wait([this](asio::error_code error) {
    if (!error) conclude();
  });
  conclude_when_complete();
}

bool ReportRounds::on_report(int rank, std::string report) {
  if (!ranks_[rank].asked || report.size() > kMaxReport) return false;
  ranks_[rank].asked = ranks_[rank].awaited = false;
  // After the end of the round it counts for that one.
  (under_way_ ? ranks_[rank].answered : ranks_[rank].reported) = true;
  ranks_[rank].report = std::move(report);
  conclude_when_complete();
  return true;
}

void ReportRounds::conclude_when_complete() {
  if (!under_way_) return;
  for (int rank = 1; rank < connections_.size(); ++rank)
    if (ranks_[rank].awaited && connections_.present(rank)) return;
  conclude();
}

void ReportRounds::conclude() {
  if (!std::exchange(under_way_, false)) return;
  timer_.cancel();
  for (Rank& rank : ranks_) rank.reported = rank.answered;
  for (const ReportReply& reply : std::exchange(waiting_, {})) reply(page(0));
}

ReportPage ReportRounds::page(int first) const {
  ReportPage page{.first = first, .size = connections_.size(), .relayed = true, .rows = {}};
  fill_page(page, [this](int rank) { return row(rank); });
  return page;
}

ReportRow ReportRounds::row(int rank) const {
  if (rank == 0) return own_row(rank, ranks_[rank].report);
  ReportRow row{.rank = rank, .host = {}, .report = ranks_[rank].report};
  row.pid = connections_.who(rank).pid;
  row.host = connections_.who(rank).host;
  row.silent_ms = static_cast<uint32_t>(std::min(heartbeats_.silent_s(rank) * 1e3, 4e9));
  if (connections_.left(rank))
    row.state = RankState::departed;
  else if (!connections_.present(rank))
    row.state = RankState::lost;
  else if (ranks_[rank].reported)
    row.state = RankState::reported;
  return row;
}

}  // namespace ringwood
