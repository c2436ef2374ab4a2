#include "transports/control/status/report_relay.h"

#include <algorithm>

#include "transports/control/status/report_rounds.h"

namespace ringwood {
namespace {

constexpr int kRoot = 0;

}  // namespace

void ReportRelay::ask(const ReportQuery& query, ReportReply reply) {
  if (query.own || !connections_.present(kRoot)) return reply(own_page());
  pending_.push_back({query.first, std::move(reply)});
  ask_next();
  if (pending_.size() > 1) return;
  timer_.expires_after(heartbeats_.patience(kPatience));
  timer_.async_wait([this](asio::error_code error) {
    if (!error) give_up();
  });
}

void ReportRelay::ask_next() {
  if (asked_ || pending_.empty() || !connections_.present(kRoot)) return;
  asked_ = pending_.front().first;
  connections_.send(kRoot, MessageType::report_query,
                    encode(ReportQuery{.own = false, .first = *asked_}));
}

void ReportRelay::give_up() {
  for (const Pending& one : std::exchange(pending_, {})) one.reply(own_page());
}

void ReportRelay::on_request() {
  connections_.send(kRoot, MessageType::report, bounded_report(own_()));
}

bool ReportRelay::on_page(const ReportPage& page) {
  if (asked_ != page.first || page.size != connections_.size()) return false;
  for (int after = page.first - 1; const ReportRow& row : page.rows) {
    if (row.rank <= after || row.rank >= page.size) return false;
    after = row.rank;
  }
  asked_.reset();
  std::vector<Pending> mine;
  for (Pending& one : std::exchange(pending_, {}))
    (one.first == page.first ? mine : pending_).push_back(std::move(one));
  if (pending_.empty()) timer_.cancel();
  ask_next();
  for (const Pending& one : mine) one.reply(page);
  return true;
}

ReportPage ReportRelay::own_page() const {
  ReportPage page{.first = 0, .size = connections_.size(), .relayed = false, .rows = {}};
  ReportRow root{.rank = kRoot, .host = {}, .report = {}};
  root.pid = connections_.who(kRoot).pid;
  root.host = connections_.who(kRoot).host;
  root.silent_ms = static_cast<uint32_t>(std::min(heartbeats_.silent_s(kRoot) * 1e3, 4e9));
  if (connections_.left(kRoot))
    root.state = RankState::departed;
  else if (!connections_.present(kRoot))
    root.state = RankState::lost;
  page.rows.push_back(std::move(root));
  page.rows.push_back(own_row(rank_, own_()));
  return page;
}

}  // namespace ringwood
