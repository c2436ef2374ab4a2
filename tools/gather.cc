#include "tools/gather.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <fmt/ranges.h>

#include "tools/perf/perf_operations.h"
#include "transports/base/host.h"

namespace ringwood::tools {

std::vector<std::string> gather_texts(Communicator& group, const std::string& mine) {
  if (group.size() == 1) return {mine};
  const int64_t size = static_cast<int64_t>(mine.size());
  std::vector<int64_t> sizes(static_cast<size_t>(group.size()));
  finish(group.all_gather(&size, sizes.data(), 1, DataType::int64, synchronous_call()));
  std::vector<std::string> texts;
  for (const int64_t bytes : sizes) texts.emplace_back(static_cast<size_t>(bytes), '\0');
  std::vector<Block> out;
  for (std::string& text : texts) out.push_back({text.data(), text.size()});
  finish(group.all_gather({mine.data(), mine.size()}, out, DataType::uint8, synchronous_call()));
  return texts;
}

std::vector<HostRanks> gather_hosts(Communicator& group) {
  const auto texts = gather_texts(group, host_token() + '\n' + host_name());
  std::vector<HostRanks> hosts;
  std::map<std::string, size_t> known;
  for (size_t r = 0; r < texts.size(); ++r) {
    const auto [it, first] = known.try_emplace(texts[r], hosts.size());
    if (first) hosts.push_back({texts[r].substr(texts[r].find('\n') + 1), {}});
    hosts[it->second].ranks.push_back(static_cast<int>(r));
  }
  return hosts;
}

bool leads_host(const std::vector<HostRanks>& hosts, int rank) {
  return std::ranges::any_of(hosts,
                             [rank](const HostRanks& host) { return host.ranks.front() == rank; });
}

bool at_any_rank(Communicator& group, bool mine) {
  int64_t any = mine;
  finish(group.all_reduce(&any, 1, DataType::int64, ReduceOp::max, synchronous_call()));
  return any != 0;
}

std::string gather_names(Communicator& group, const std::string& mine) {
  if (group.size() == 1) return mine;
  std::vector<std::string> all;
  for (const std::string& text : gather_texts(group, mine)) {
    std::istringstream names(text);
    for (std::string name; std::getline(names, name, '+');)
      if (std::ranges::count(all, name) == 0) all.push_back(name);
  }
  return fmt::format("{}", fmt::join(all, "+"));
}

}  // namespace ringwood::tools
