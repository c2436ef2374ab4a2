#include "tools/top/top_json.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace ringwood::tools {
namespace {

using Json = nlohmann::ordered_json;

// Figures are read by people, too: six digits.
double short_of(double value) {
  return std::isfinite(value) ? std::stod(fmt::format("{:.6g}", value)) : 0;
}

Json or_null(double value, bool known) { return known ? Json(short_of(value)) : Json(nullptr); }

Json json_of(const PathRate& one) {
  return {{"transport", one.path.transport},
          {"port", one.path.port},
          {"up", one.path.up},
          {"peers", one.path.peers},
          {"carrying", short_of(one.path.carrying)},
          {"fallbacks", one.path.fallbacks},
          {"whole_port", one.path.whole_port},
          {"bytes", one.path.bytes},
          {"gbs", short_of(one.bytes_per_s * 1e-9)},
          {"retransmissions", one.path.retransmissions},
          {"retransmissions_per_s", short_of(one.retransmissions_per_s)}};
}

Json json_of(const RankLine& line) {
  Json paths = Json::array();
  for (const PathRate& path : line.paths) paths.push_back(json_of(path));
  return {{"rank", line.rank},
          {"host", line.host},
          {"pid", line.pid},
          {"condition", to_string(line.condition)},
          {"why", line.why},
          {"operation", line.operation},
          {"algorithm", line.algorithm},
          {"progress", or_null(line.progress, line.progress >= 0)},
          {"operations_per_s", short_of(line.operations_per_s)},
          {"busbw_gbs", short_of(line.bus_bytes_per_s * 1e-9)},
          {"inside", short_of(line.inside)},
          {"waited", short_of(line.waited)},
          {"late_ms", short_of(line.late_s * 1e3)},
          {"waits_for", line.waits_for < 0 ? Json(nullptr) : Json(line.waits_for)},
          {"waits_s", short_of(line.waits_s)},
          {"measured_over_predicted", or_null(line.ratio, line.ratio > 0)},
          {"retransmissions_per_s", short_of(line.retransmissions_per_s)},
          {"paths", std::move(paths)}};
}

}  // namespace

std::string utc(std::time_t time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time));
}

std::string json_line(const Sample& sample) {
  Json groups = Json::array();
  for (const GroupLines& group : sample.groups) {
    Json ranks = Json::array();
    for (const RankLine& line : group.ranks) ranks.push_back(json_of(line));
    groups.push_back({{"group", group.name},
                      {"id", fmt::format("{:016x}", group.id)},
                      {"size", group.ranks.size()},
                      {"relayed", group.relayed},
                      {"measured_over_predicted", or_null(group.ratio, group.ratio > 0)},
                      {"alarm", group.alarm},
                      {"ranks", std::move(ranks)}});
  }
  Json events = Json::array();
  for (const JobEvent& event : sample.fresh)
    events.push_back({{"time", utc(event.time)},
                      {"group", event.group},
                      {"rank", event.rank < 0 ? Json(nullptr) : Json(event.rank)},
                      {"text", event.text}});
  const Json line = {{"time", utc(sample.time)},
                     {"job", sample.view.id},
                     {"trouble", sample.trouble},
                     {"groups", std::move(groups)},
                     {"events", std::move(events)}};
  // What a peer calls itself need not be UTF-8.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ringwood::tools
