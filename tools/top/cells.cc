#include "tools/top/cells.h"
#include "tools/counted.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace ringwood::tools {
namespace {

size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string path_text(const PathRate& one) {
  std::string text = one.path.transport;
  if (!one.path.port.empty()) text += " " + one.path.port;
  if (!one.path.up) return text + " DOWN";
  if (one.path.transport == "shm" || one.path.transport == "loopback")
    return fmt::format("{} to {}", text, counted(one.path.peers, "rank"));
  text += fmt::format(" {} GB/s", rate_text(one.bytes_per_s));
  if (one.retransmissions_per_s > 0)
    text += fmt::format(" ({:.0f} retransmissions/s)", one.retransmissions_per_s);
  if (one.path.carrying < 1)
    text += fmt::format(", {:.0f} % of its paths", one.path.carrying * 100);
  if (one.path.fallbacks > 0) text += ", in part by way of tcp";
  return text;
}

// Counters of a port are the same for all ranks of its host; those of connections add up.
std::vector<PathRate> paths_of(const std::vector<const RankLine*>& ranks) {
  std::map<std::pair<std::string, std::string>, PathRate> all;
  for (const RankLine* rank : ranks) {
    for (const PathRate& one : rank->paths) {
      auto [at, fresh] = all.try_emplace({one.path.transport, one.path.port}, one);
      if (fresh) continue;
      PathRate& sum = at->second;
      sum.path.carrying = std::min(sum.path.carrying, one.path.carrying);
      sum.path.fallbacks += one.path.fallbacks;
      sum.path.up = sum.path.up && one.path.up;
      if (one.path.whole_port) continue;
      sum.bytes_per_s += one.bytes_per_s;
      sum.retransmissions_per_s += one.retransmissions_per_s;
    }
  }
  std::vector<PathRate> paths;
  for (auto& [key, path] : all) paths.push_back(std::move(path));
  return paths;
}

Block block_of(const std::string& host, std::vector<const RankLine*> ranks) {
  Block block{.title = host, .ranks = std::move(ranks)};
  for (const PathRate& path : paths_of(block.ranks)) {
    block.title += fmt::format("{}{}", block.title == host ? ": " : ", ", path_text(path));
    block.path_bytes_per_s += path.bytes_per_s;
  }
  return block;
}

}  // namespace

const std::vector<Column>& columns() {
  static const std::vector<Column> all = {
      {"rank", 5, true},        {"pid", 7, true},   {"state", 9, false}, {"operation", 0, false},
      {"algorithm", 14, false}, {"done", 5, true},  {"op/s", 6, true},   {"GB/s", 6, true},
      {"inside", 6, true},      {"waits", 5, true}, {"for", 4, true},    {"late", 7, true},
      {"x pred", 6, true},
  };
  return all;
}

std::vector<std::string> cells_of(const RankLine& line) {
  const auto percent = [](double share) { return fmt::format("{:.0f} %", share * 100); };
  const bool counts = line.operations_per_s > 0 || line.condition != Condition::left;
  return {std::to_string(line.rank),
          line.pid > 0 ? std::to_string(line.pid) : "",
          to_string(line.condition),
          line.operation,
          line.algorithm,
          line.progress >= 0 ? percent(line.progress) : "",
          counts ? fmt::format("{:.0f}", line.operations_per_s) : "",
          line.bus_bytes_per_s > 0 ? rate_text(line.bus_bytes_per_s) : "",
          percent(line.inside),
          percent(line.waited),
          line.waits_for >= 0 ? std::to_string(line.waits_for) : "",
          line.condition == Condition::late ? time_text(line.late_s) : "",
          line.ratio > 0 ? fmt::format("{:.1f}", line.ratio) : ""};
}

const char* to_string(SortBy order) {
  switch (order) {
    case SortBy::host: return "host";
    case SortBy::late: return "lateness";
    case SortBy::rate: return "GB/s";
    case SortBy::trouble: return "trouble";
  }
  return "";
}

std::vector<Block> blocks_of(const GroupView& view, const GroupLines& group, SortBy order) {
  std::vector<const RankLine*> all;
  for (const RankLine& line : group.ranks) all.push_back(&line);
  if (order != SortBy::host) {
    std::ranges::stable_sort(all, std::ranges::greater(), [order](const RankLine* line) {
      if (order == SortBy::late) return line->late_s;
      if (order == SortBy::rate) return line->bus_bytes_per_s;
      return is_trouble(line->condition) ? 1.0 : 0.0;
    });
    return {{.title = "", .ranks = all}};
  }
  // Hosts in the order of their first ranks; several may have one name.
  std::vector<std::string> tokens;
  std::map<std::string, std::vector<const RankLine*>> by_host;
  std::map<std::string, std::set<std::string>> named;
  for (const RankLine* line : all) {
    const auto& report = view.ranks[static_cast<size_t>(line->rank)].report;
    const std::string token = report ? report->host_token : line->host;
    if (!by_host.contains(token)) tokens.push_back(token);
    by_host[token].push_back(line);
    named[line->host].insert(token);
  }
  std::vector<Block> blocks;
  std::map<std::string, int> numbers;
  for (const std::string& token : tokens) {
    const std::string& host = by_host[token].front()->host;
    const bool alone = named[host].size() == 1;
    const std::string title = alone ? host : fmt::format("{} #{}", host, ++numbers[host]);
    blocks.push_back(block_of(title.empty() ? "unknown host" : title, by_host[token]));
  }
  return blocks;
}

std::string rate_text(double bytes_per_s) {
  const double gbs = bytes_per_s * 1e-9;
  return gbs >= 100 ? fmt::format("{:.0f}", gbs)
                    : fmt::format("{:.{}f}", gbs,
                                  gbs >= 10     ? 1
                                  : gbs >= 0.01 ? 2
                                                : 4);
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.1f} s", seconds);
}

std::string fit(const std::string& text, int width, bool right) {
  const auto wide = static_cast<size_t>(std::max(0, width));
  std::string cut;
  size_t used = 0;
  for (size_t at = 0; at < text.size() && used <= wide; ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80;
    if (begins && ++used > wide) break;
    cut += text[at];
  }
  const std::string space(wide - std::min(wide, width_of(cut)), ' ');
  return right ? space + cut : cut + space;
}

std::string clock_text(std::time_t time) {
  return fmt::format("{:%H:%M:%S}", fmt::localtime(time));
}

std::string plain_text(const Sample& sample) {
  constexpr int kOperation = 40;
  std::string text = fmt::format("job {} at {}\n", sample.view.id, clock_text(sample.time));
  for (size_t i = 0; i < sample.groups.size(); ++i) {
    const GroupLines& group = sample.groups[i];
    text += fmt::format("\ngroup {}, {} ranks{}{}\n", group.name, group.ranks.size(),
                        group.ratio > 0
                            ? fmt::format(", {:.1f} times as long as predicted", group.ratio)
                            : std::string(),
                        group.relayed ? "" : "; rank 0 does not answer: only what this host knows");
    for (const Column& column : columns())
      text += fit(column.title, column.width ? column.width : kOperation, column.right) + " ";
    text += "\n";
    for (const Block& block : blocks_of(sample.view.groups[i], group, SortBy::host)) {
      text += block.title + "\n";
      for (const RankLine* line : block.ranks) {
        const std::vector<std::string> cells = cells_of(*line);
        for (size_t c = 0; c < cells.size(); ++c) {
          const Column& column = columns()[c];
          text += fit(cells[c], column.width ? column.width : kOperation, column.right) + " ";
        }
        text += "\n";
      }
    }
  }
  for (const std::string& one : sample.trouble) text += fmt::format("\n! {}\n", one);
  return text;
}

}  // namespace ringwood::tools
