#include "tools/shape.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>
#include <optional>

#include "collectives/tuner/machine/places.h"
#include "tools/command/numbers.h"
#include "tools/counted.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

constexpr const char* kForms =
    "how many (4), hosts x ranks of each (8x8), the ranks of each (8,8,4), or the host of each "
    "rank (0,0,1,1)";

[[noreturn]] void refuse_hosts(const std::string& hosts, const std::string& why) {
  refuse(fmt::format("--hosts {}{}: {}", hosts.substr(0, 40), hosts.size() > 40 ? "..." : "", why));
}

std::optional<int> count_of(std::string_view text) {
  const std::optional<int64_t> value = parse_whole(text);
  if (!value || *value < 1 || *value > kMaxRanks) return std::nullopt;
  return static_cast<int>(*value);
}

// "8x8", "8,8,4", "999x8,4": the ranks of each host.
std::vector<int> ranks_of_each(const std::string& hosts) {
  std::vector<int> each;
  int64_t ranks = 0;
  for (const std::string& item : CLI::detail::split(hosts, ',')) {
    const size_t x = item.find('x');
    const auto times = x == std::string::npos ? 1 : count_of(item.substr(0, x));
    const auto here = count_of(x == std::string::npos ? item : item.substr(x + 1));
    if (!times || !here)
      refuse_hosts(hosts, fmt::format("{:?} of it is no count from 1 to {}; write {}", item,
                                      kMaxRanks, kForms));
    ranks += int64_t{*times} * *here;
    if (ranks > kMaxRanks) refuse_hosts(hosts, fmt::format("more than {} ranks", kMaxRanks));
    each.insert(each.end(), static_cast<size_t>(*times), *here);
  }
  return each;
}

std::vector<int> listed(const Shape& shape) {
  std::vector<int> places;
  if (shape.hosts.starts_with('0')) {
    try {
      places = parse_places("hosts", shape.hosts);
    } catch (const Error&) {
      refuse_hosts(shape.hosts,
                   fmt::format("a list that begins with 0 is the host of each rank, numbered in "
                               "the order of first ranks: 0,0,1,1; else write {}",
                               kForms));
    }
  } else {
    const std::vector<int> each = ranks_of_each(shape.hosts);
    for (size_t host = 0; host < each.size(); ++host)
      places.insert(places.end(), static_cast<size_t>(each[host]), static_cast<int>(host));
  }
  const auto n = static_cast<int>(places.size());
  if (n > kMaxRanks) refuse_hosts(shape.hosts, fmt::format("more than {} ranks", kMaxRanks));
  if (shape.ranks > 0 && shape.ranks != n)
    refuse_hosts(shape.hosts, fmt::format("it places {}, which contradicts --ranks {}",
                                          counted(n, "rank"), shape.ranks));
  if (shape.ranks_per_host > 0)
    refuse_hosts(shape.hosts, "it says how many ranks each host has: leave out --ranks-per-host");
  return places;
}

// So many ranks on so many hosts, of which none has more than one more than another.
std::vector<int> spread(int ranks, int hosts) {
  std::vector<int> places(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r)
    places[static_cast<size_t>(r)] = static_cast<int>(int64_t{r} * hosts / ranks);
  return places;
}

std::vector<int> placed_by_counts(const Shape& shape, std::optional<int> hosts, int usual) {
  const int each = shape.ranks_per_host;
  if (each == 0) {
    const int n = shape.ranks > 0 ? shape.ranks : std::max(usual, hosts.value_or(1));
    if (hosts.value_or(1) > n)
      refuse_hosts(shape.hosts,
                   fmt::format("it contradicts --ranks {}: a host has one at least", n));
    return spread(n, hosts.value_or(1));
  }
  if (!hosts && shape.ranks % each != 0)
    refuse(fmt::format("--ranks {} are not whole hosts of --ranks-per-host {}", shape.ranks, each));
  const int count = hosts ? *hosts : std::max(1, shape.ranks / each);
  const int64_t n = int64_t{count} * each;
  if (n > kMaxRanks)
    refuse(fmt::format("--hosts {} with --ranks-per-host {} are more than {} ranks: take fewer",
                       count, each, kMaxRanks));
  if (shape.ranks > 0 && shape.ranks != n)
    refuse(fmt::format("--hosts {} with --ranks-per-host {} are {}, which contradicts --ranks {}",
                       count, each, counted(n, "rank"), shape.ranks));
  return spread(static_cast<int>(n), count);
}

}  // namespace

void add_shape(CLI::App& command, Shape& shape) {
  command
      .add_option("--hosts", shape.hosts,
                  "how many (1), or 8x8: hosts x ranks of each, or 8,8,4: ranks of each, or "
                  "0,0,1,1: the host of each rank")
      ->type_name("HOSTS")
      ->check(CLI::Validator(
          [](const std::string& typed) -> std::string {
            return typed.empty() ? fmt::format("\"\" names none; write {}", kForms) : "";
          },
          ""));
  command.add_option("--ranks", shape.ranks, "in all (those of the hosts, or 2)")
      ->type_name("N")
      ->check(whole(1, kMaxRanks));
  command.add_option("--ranks-per-host", shape.ranks_per_host, "instead of --ranks")
      ->type_name("N")
      ->check(whole(1, kMaxRanks));
}

std::vector<int> places_of(const Shape& shape, int usual) {
  if (shape.lists_hosts()) return listed(shape);
  if (shape.hosts.empty()) return placed_by_counts(shape, std::nullopt, usual);
  const std::optional<int> hosts = count_of(shape.hosts);
  if (!hosts)
    refuse_hosts(shape.hosts, fmt::format("no count from 1 to {}; write {}", kMaxRanks, kForms));
  return placed_by_counts(shape, hosts, usual);
}

}  // namespace ringwood::tools
