#include "tools/top/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "collectives/schedule/collective.h"
#include "tools/top/ras/ras_facts.h"

namespace ringwood::tools {
namespace {

std::string label_value(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return text + "\"";
}

// Prometheus drops a whole page for one byte that is no UTF-8.
std::string valid_utf8(const std::string& text) {
  using Json = nlohmann::json;
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace))
      .get<std::string>();
}

// One metric with its lines; all lines of a name stand together, as the format demands.
class Metric {
 public:
  Metric(const char* name, const char* type, const char* help)
      : name_(name), text_(fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type)) {}
  void add(const std::string& labels, double value) {
    text_ += fmt::format("{}{{{}}} {:.9g}\n", name_, labels, value);
  }
  const std::string& text() const { return text_; }

 private:
  const char* name_;
  std::string text_;
};

size_t hosts_of(const GroupView& group) {
  std::set<std::string> hosts;
  for (const RankView& rank : group.ranks)
    hosts.insert(rank.report ? rank.report->host_token : rank.host);
  return hosts.size();
}

std::string labels_of(const GroupLines& group, const RankLine& rank) {
  return fmt::format("node={},comm_name={},rank=\"{}\"", label_value(rank.host),
                     label_value(group.name), rank.rank);
}

// Inspector has a name of its own for one of them.
std::string inspector_name(Collective collective) {
  return collective == Collective::all_to_all ? "All2All" : nccl_name(collective);
}

std::string inspector_labels(const GroupView& view, const RankView& rank, const KindReport& kind,
                             const std::string& slurm_job) {
  return fmt::format(
      "version={},slurm_job_id={},node={},gpu=\"none\",comm_name={},n_nodes=\"{}\",nranks=\"{}\","
      "collective={},message_size={},algo_proto={},rank=\"{}\"",
      label_value("ringwood-" RINGWOOD_VERSION),
      label_value(slurm_job.empty() ? "unknown" : slurm_job), label_value(rank.host),
      label_value(view.name), hosts_of(view), view.ranks.size(),
      label_value(inspector_name(static_cast<Collective>(kind.collective))),
      label_value(size_range(kind.bytes)), label_value(kind.algorithm), rank.rank);
}

// Two sizes may share a range, and then a line: the time is their mean, by operations.
struct Bucket {
  double us = 0, bus_gbs = 0, operations = 0;
};

std::string inspector_metrics(const Sample& sample, const std::string& slurm_job) {
  Metric bandwidth("nccl_bus_bandwidth_gbs", "gauge", "Bus bandwidth in GB/s, of the last 30 s");
  Metric time("nccl_collective_exec_time_microseconds", "gauge",
              "Mean time of an operation, with the wait for other ranks, of the last 30 s");
  for (const GroupView& view : sample.view.groups) {
    for (const RankView& rank : view.ranks) {
      if (!rank.report || rank.state != RankState::reported) continue;
      std::map<std::string, Bucket> buckets;
      for (const KindReport& kind : rank.report->kinds) {
        Bucket& bucket = buckets[inspector_labels(view, rank, kind, slurm_job)];
        const double us = static_cast<double>(kind.mean_ns) * 1e-3;
        const double factor =
            kCollectiveTraits[kind.collective].bus_factor(static_cast<double>(view.ranks.size()));
        const double bus = us > 0 ? static_cast<double>(kind.bytes) * factor * 1e-3 / us : 0;
        bucket.us += us * kind.operations;
        bucket.bus_gbs += bus * kind.operations;
        bucket.operations += kind.operations;
      }
      for (const auto& [labels, bucket] : buckets) {
        bandwidth.add(labels, bucket.bus_gbs / bucket.operations);
        time.add(labels, bucket.us / bucket.operations);
      }
    }
  }
  return bandwidth.text() + time.text();
}

struct Gauge {
  const char *name, *help;
  double (*value)(const RankLine&);
};
constexpr std::array kGauges = {
    Gauge{"ringwood_rank_up", "1: the rank answers",
          [](const RankLine& line) {
            return line.condition == Condition::stopped || line.condition == Condition::lost ||
                           line.condition == Condition::unknown
                       ? 0.0
                       : 1.0;
          }},
    Gauge{"ringwood_rank_late_seconds", "How much later than the others it comes to an operation",
          [](const RankLine& line) { return line.late_s; }},
    Gauge{"ringwood_rank_in_trouble", "1: late, behind, stopped, lost or failed",
          [](const RankLine& line) { return is_trouble(line.condition) ? 1.0 : 0.0; }},
    Gauge{"ringwood_waited_ratio", "Share of the last second in which it waited for other ranks",
          [](const RankLine& line) { return line.waited; }},
    Gauge{"ringwood_inside_ratio", "Share of the last second in operations of any group",
          [](const RankLine& line) { return line.inside; }},
    Gauge{"ringwood_operation_wait_seconds", "How long the operation under way has waited",
          [](const RankLine& line) { return line.waits_s; }},
    Gauge{"ringwood_measured_over_predicted",
          "Time of operations, without the wait for others, by the predicted one; 0: not known",
          [](const RankLine& line) { return line.ratio; }},
};

std::string rank_gauges(const Sample& sample) {
  std::string text;
  for (const Gauge& gauge : kGauges) {
    Metric metric(gauge.name, "gauge", gauge.help);
    for (const GroupLines& group : sample.groups)
      for (const RankLine& line : group.ranks)
        metric.add(labels_of(group, line), gauge.value(line));
    text += metric.text();
  }
  return text;
}

std::string totals(const Sample& sample) {
  Metric operations("ringwood_collective_operations_total", "counter", "Operations that ended");
  Metric bytes("ringwood_collective_bytes_total", "counter", "Bytes of their buffers");
  Metric path("ringwood_path_bytes_total", "counter", "Bytes sent over a port or an interface");
  Metric repeats("ringwood_path_retransmissions_total", "counter",
                 "Retransmissions and lost packets of a port or of its connections");
  for (size_t i = 0; i < sample.groups.size(); ++i) {
    for (const RankLine& line : sample.groups[i].ranks) {
      const auto& report = sample.view.groups[i].ranks[static_cast<size_t>(line.rank)].report;
      if (!report) continue;
      const std::string labels = labels_of(sample.groups[i], line);
      for (const CallCount& count : report->counts) {
        const std::string which = labels + ",collective=" +
                                  label_value(nccl_name(static_cast<Collective>(count.collective)));
        operations.add(which, static_cast<double>(count.operations));
        bytes.add(which, static_cast<double>(count.bytes));
      }
      for (const PathOfRank& one : report->paths) {
        const std::string which = fmt::format("{},transport={},port={}", labels,
                                              label_value(one.transport), label_value(one.port));
        path.add(which, static_cast<double>(one.bytes));
        repeats.add(which, static_cast<double>(one.retransmissions));
      }
    }
  }
  return operations.text() + bytes.text() + path.text() + repeats.text();
}

}  // namespace

std::string size_range(uint64_t bytes) {
  if (bytes == 0) return "0B";
  constexpr std::array kUnits = {"B", "KB", "MB", "GB", "TB"};
  size_t unit = 0;
  uint64_t value = bytes;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{}-{}{}", value, value + 1, kUnits[unit]);
}

std::string prometheus_text(const Sample& sample, const std::string& slurm_job) {
  return valid_utf8(inspector_metrics(sample, slurm_job) + rank_gauges(sample) + totals(sample));
}

}  // namespace ringwood::tools
