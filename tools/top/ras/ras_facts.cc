#include "tools/top/ras/ras_facts.h"

#include <cctype>

#include "collectives/schedule/collective.h"

namespace ringwood::tools {

std::string nccl_name(Collective collective) {
  if (collective == Collective::all_to_all) return "AlltoAll";
  std::string name;
  bool capital = true;
  for (const char c : std::string_view(to_string(collective))) {
    if (c != '_') name += capital ? static_cast<char>(std::toupper(c)) : c;
    capital = c == '_';
  }
  return name;
}

std::vector<RasRank> ras_ranks(const GroupView& view, const GroupLines& lines) {
  std::vector<RasRank> ranks;
  std::map<std::string, int> devices;
  for (const RankView& one : view.ranks) {
    const Condition condition = lines.ranks[static_cast<size_t>(one.rank)].condition;
    RasRank rank{
        .rank = one.rank, .pid = one.pid, .host = one.host, .node = one.host, .counts = {}};
    if (one.report) rank.node = one.report->host_token;
    rank.device = devices[rank.node]++;
    rank.unresponsive = one.state == RankState::silent;
    rank.dead = one.state == RankState::lost;
    rank.missing = one.state != RankState::reported || !one.report;
    rank.aborted = condition == Condition::failed;
    for (const CollectiveTraits& row : kCollectiveTraits)
      rank.counts[nccl_name(row.collective)] = 0;
    if (one.report) {
      for (const CallCount& count : one.report->counts)
        rank.counts[nccl_name(static_cast<Collective>(count.collective))] = count.operations;
      for (const TrackReport& track : one.report->tracks)
        if (track.inside && track.collective < kCollectives)
          ++rank.counts[nccl_name(static_cast<Collective>(track.collective))];
    }
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

}  // namespace ringwood::tools
