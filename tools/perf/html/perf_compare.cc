#include "tools/perf/html/perf_compare.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/command/text_files.h"
#include "tools/perf/nccl_tests/nccl_call.h"
#include "tools/perf/nccl_tests/nccl_options.h"
#include "tools/perf/perf_operations.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr uintmax_t kMaxBytes = 256 << 20;

struct Point {
  double time_us = 0, busbw_gbs = 0;
};
// Of as many ranks as measure now.
class Points final {
 public:
  explicit Points(int ranks) : ranks_(ranks) {}

  // By name and operation, then size: the quickest of each.
  using Map = std::map<std::pair<std::string, Measured>, std::map<double, Point>>;
  const Map& all() const { return all_; }
  int other_ranks() const { return other_ranks_; }  // of what was left out; 0: nothing

  void take(const std::string& name, const Measured& of, int ranks, double bytes,
            const Point& point) {
    const bool other = ranks_ != kAnyRanks && ranks != ranks_;
    if (other) other_ranks_ = ranks;
    if (other || bytes <= 0 || point.time_us <= 0) return;
    const auto [it, first] = all_[{name, of}].try_emplace(bytes, point);
    if (!first && point.time_us < it->second.time_us) it->second = point;
  }

 private:
  const int ranks_;
  int other_ranks_ = 0;
  Map all_;
};

// Throws json::exception for another shape.
void read_ours(const json& report, const std::string& name, Points& points) {
  for (const json& row : report.at("rows"))
    points.take(
        name,
        {row.at("collective"), row.value("dtype", ""), row.value("op", ""), row.value("root", -1)},
        row.at("ranks"), row.at("bytes"), {row.at("time_us_median"), row.at("busbw_gbs")});
}

void read_nccl_tests(const json& report, const std::string& name, Points& points) {
  std::string collective;
  for (const std::string argument : report.at("args")) {
    if (const auto found = collective_of_program(argument)) collective = *found;
    for (const OperationRow& row : operation_table())
      if (collective.empty() && argument == row.name()) collective = argument;
  }
  if (collective.empty()) refuse(fmt::format("{} does not say which collective it is of", name));
  const int ranks = static_cast<int>(report.at("config").at("devices").size());
  const bool reduces = find_operation(collective).reduces();
  for (const json& row : report.at("results")) {
    const std::string root = row.at("root");
    const json& side = row.at("in_place");
    points.take(name,
                {collective, from_nccl_name(row.at("type")),
                 reduces ? from_nccl_name(row.at("redop")) : "none", std::atoi(root.c_str())},
                ranks, row.at("size"),
                {side.contains("time") ? side.at("time") : side.at("cpu_time"), side.at("bus_bw")});
  }
}

void read_peers(const json& report, const std::string& mode, Points& points) {
  const OperationRow& all_reduce = find_operation("all_reduce");
  for (const json& row : report.at("rows")) {
    if (row.at("mode") != mode) continue;
    const double bytes = row.at("bytes"), us = row.at("median_us");
    const double factor = all_reduce.bus_factor(row.at("ranks"));
    points.take(row.at("contestant"), {"all_reduce", "", "", -1}, row.at("ranks"), bytes,
                {us, bytes / row.at("best_us").get<double>() / 1e3 * factor});
  }
}

json parse(const std::string& file) {
  std::error_code error;
  const uintmax_t size = fs::file_size(file, error);
  if (!error && size > kMaxBytes) refuse_file("--compare", file, "it is larger than a report");
  json report = json::parse(read_all("--compare", file), nullptr, false);
  if (!report.is_object()) refuse_file("--compare", file, "it is not a JSON object");
  return report;
}

}  // namespace

std::vector<EarlierResults> read_earlier_results(const std::string& what, int ranks,
                                                 const std::string& mode) {
  const size_t equals = what.find('=');
  const std::string file = equals == std::string::npos ? what : what.substr(equals + 1);
  const std::string name =
      equals == std::string::npos ? fs::path(file).stem().string() : what.substr(0, equals);
  const json report = parse(file);
  Points points(ranks);
  try {
    if (report.contains("results"))
      read_nccl_tests(report, name, points);
    else if (report.contains("machine"))
      read_peers(report, mode, points);
    else
      read_ours(report, name, points);
  } catch (const json::exception&) {
    refuse_file("--compare", file,
                "it is a JSON of neither ringwood perf, nccl-tests nor bench/peers");
  }
  if (points.all().empty() && points.other_ranks() > 0)
    refuse_file("--compare", file,
                fmt::format("it was measured with {} ranks, and this run has {}; leave it away, or "
                            "measure with as many",
                            points.other_ranks(), ranks));
  std::vector<EarlierResults> all;
  for (const auto& [key, sizes] : points.all()) {
    EarlierResults& one = all.emplace_back(EarlierResults{key.first, key.second, {}, {}, {}});
    for (const auto& [bytes, point] : sizes) {
      one.bytes.push_back(bytes);
      one.time_us.push_back(point.time_us);
      one.busbw_gbs.push_back(point.busbw_gbs);
    }
  }
  return all;
}

}  // namespace ringwood::tools
