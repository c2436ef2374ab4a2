#include "tools/perf/perf_requirements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ringwood::tools {
namespace {

// By rank.
std::vector<size_t> hosts_by_rank(const std::vector<HostRanks>& hosts, int size) {
  std::vector<size_t> places(static_cast<size_t>(size));
  for (size_t host = 0; host < hosts.size(); ++host)
    for (const int rank : hosts[host].ranks) places[static_cast<size_t>(rank)] = host;
  return places;
}

}  // namespace

void BusbwFloor::add(const std::string& line, double gbs) {
  ++lines_;
  if (gbs >= min_gbs_) return;
  if (below_++ > 0 && gbs >= worst_gbs_) return;
  worst_ = line;
  worst_gbs_ = gbs;
}

std::string BusbwFloor::why() const {
  if (below_ == 0) return "";
  return fmt::format(
      "{} reaches {:.4g} GB/s of bus bandwidth, less than the {:.4g} of --min-busbw{}", worst_,
      worst_gbs_, min_gbs_,
      lines_ > 1 ? fmt::format(" ({} of {} lines are below it)", below_, lines_) : "");
}

std::string other_transport(Communicator& group, const std::vector<HostRanks>& hosts,
                            const std::vector<std::string>& transports) {
  const std::vector<size_t> places = hosts_by_rank(hosts, group.size());
  const auto place_of = [&](int rank) { return places[static_cast<size_t>(rank)]; };
  std::string wrong;
  bool used = false;
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == group.rank()) continue;
    const std::string transport = group.transport_to(peer);
    const bool wanted = std::ranges::count(transports, transport) > 0;
    used |= wanted;
    if (wanted || place_of(peer) == place_of(group.rank()) || !wrong.empty()) continue;
    wrong = fmt::format("rank {} ({}) reaches rank {} ({}) over {}, not over {} as --require says",
                        group.rank(), hosts[place_of(group.rank())].name, peer,
                        hosts[place_of(peer)].name, transport, fmt::join(transports, " or "));
  }
  const auto texts = gather_texts(group, (used ? "+" : "-") + wrong);
  for (const std::string& text : texts)
    if (text.size() > 1) return text.substr(1);
  if (std::ranges::any_of(texts, [](const std::string& text) { return text.starts_with('+'); }))
    return "";
  return fmt::format("no rank reaches another one over {} as --require says; {}",
                     fmt::join(transports, " or "),
                     hosts.size() == 1 ? "all ranks are on one host" : "see RINGWOOD_TRANSPORTS");
}

}  // namespace ringwood::tools
