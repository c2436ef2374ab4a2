#include "tools/trace/dumps.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/kernels/types.h"
#include "tools/trace/dump_file.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

std::vector<std::string> files_of(const std::string& source) {
  if (!fs::is_directory(source)) return {source};
  static const std::regex wanted(R"(.*-rank\d+\.json)");
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(source))
    if (std::regex_match(entry.path().filename().string(), wanted))
      files.push_back(entry.path().string());
  if (files.empty())
    refuse_dump(source,
                "has no file GROUP-rankN.json: run the job with RINGWOOD_TRACE_DIR=" + source);
  std::ranges::sort(files);
  return files;
}

// Those of the run that wrote last; the name of the group is that of its file.
std::vector<DumpHead> of_last_run(std::vector<DumpHead> dumps, std::vector<std::string>& remarks) {
  const auto last = std::ranges::max_element(dumps, {}, &DumpHead::written);
  const std::string session = last->session;
  const size_t before = dumps.size();
  std::erase_if(dumps, [&](const DumpHead& dump) { return dump.session != session; });
  if (dumps.size() < before)
    remarks.push_back(fmt::format("{} files of earlier runs were left out", before - dumps.size()));
  return dumps;
}

class Merge {
 public:
  explicit Merge(TracedGroup& group) : group_(group) {}

  // Ranks whose clocks are known come first.
  void add(const DumpHead& dump) try {
    const Json json = read_records(dump);
    clock_ = dump.clock;
    TracedRank& rank = group_.ranks[dump.rank];
    rank.host = dump.host;
    rank.ways = dump.ways;
    rank.error = dump.error;
    rank.aligned = clock_.known();
    rank.uncertainty = clock_.uncertainty();
    if (!rank.aligned) align(json.at("operations"));
    for (const Json& one : json.at("operations")) add_operation(dump.rank, one);
    for (const Json& one : json.at("steps")) add_step(dump.rank, one);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    refuse_dump(dump.file, error.what());
  }

  // Times so far are those of rank 0's clock; from now on they begin with the first record.
  void finish() {
    double first = std::numeric_limits<double>::infinity();
    each_time([&](double& time) { first = std::min(first, time); });
    each_time([&](double& time) { time -= first; });
    for (auto& [sequence, operation] : operations_) {
      for (auto& [rank, part] : operation.parts)
        std::ranges::sort(part.steps, {}, &TracedStep::step);
      group_.operations.push_back(std::move(operation));
    }
  }

 private:
  // Whole nanoseconds from the first time that is seen, so that no digit is lost.
  double time(const Json& json) {
    const int64_t ns = time_in(json);
    if (ns == 0) return kUnknown;
    const int64_t at = clock_.to_root(ns);
    if (base_ == 0) base_ = at - kMargin;
    return 1e-9 * static_cast<double>(at - base_);
  }

  // A collective ends on all ranks at about the same time, so one rank's clock is moved by the
  // middle difference of the ends that are known of others. That is good enough to look at, not to
  // judge by.
  void align(const Json& operations) {
    std::vector<int64_t> offsets;
    int64_t first = 0;
    for (const Json& one : operations) {
      const auto other = operations_.find(time_in(one.at("sequence")));
      const int64_t ended = time_in(one.at("ended_ns"));
      if (first == 0) first = ended;
      if (other == operations_.end() || ended == 0) continue;
      double last = kUnknown;
      for (const auto& [rank, part] : other->second.parts) last = std::max(last, part.ended);
      if (last != kUnknown) offsets.push_back(base_ + std::llround(1e9 * last) - ended);
    }
    if (offsets.empty() && base_ != 0 && first != 0) offsets = {base_ + kMargin - first};
    if (offsets.empty()) return;
    const auto middle = offsets.begin() + static_cast<std::ptrdiff_t>(offsets.size() / 2);
    std::ranges::nth_element(offsets, middle);
    clock_.assume(*middle);
  }

  void add_operation(int rank, const Json& one) {
    const int64_t sequence = time_in(one.at("sequence"));
    TracedOperation& operation = operations_[sequence];
    if (operation.parts.empty()) describe(operation, sequence, one);
    TracedPart& part = operation.parts[rank];
    part.entered = time(one.at("entered_ns"));
    part.begun = time(one.at("begun_ns"));
    part.agreed = time(one.at("agreed_ns"));
    part.ended = time(one.at("ended_ns"));
    part.waiting = time(one.at("waiting_ns"));
    part.waited_for = number_in(one, "waited_for", -1, group_.size - 1);
    part.steps_planned = number_in(one, "steps", 0, INT_MAX);
    part.failed = one.at("end").get<std::string>() != "done";
  }

  void describe(TracedOperation& operation, int64_t sequence, const Json& one) {
    operation.sequence = sequence;
    operation.collective = parse_collective(one.at("collective").get<std::string>());
    operation.type = parse_data_type(one.at("type").get<std::string>());
    operation.op = parse_reduce_op(one.at("op").get<std::string>());
    operation.root = number_in(one, "root", 0, group_.size - 1);
    operation.segments = number_in(one, "segments", 1, 65535);
    operation.track = number_in(one, "track", 0, 255);
    operation.bytes = one.at("bytes").get<uint64_t>();
    operation.count = one.at("count").get<uint64_t>();
    operation.algorithm = one.at("algorithm").get<std::string>();
    const auto wire = one.at("wire").get<std::string>();
    for (const WireFormat format : {WireFormat::exact, WireFormat::bf16, WireFormat::int8})
      if (wire == to_string(format)) operation.wire = format;
    operation.predicted = one.at("predicted_s").get<double>();
  }

  void add_step(int rank, const Json& one) {
    const auto found = operations_.find(one.at(0).get<int64_t>());
    if (found == operations_.end()) return;  // its operation is older than the last 4,096
    const auto part = found->second.parts.find(rank);
    if (part == found->second.parts.end()) return;
    TracedStep step;
    step.step = one.at(1).get<int>();
    const int kind = one.at(2).get<int>(), peer = one.at(3).get<int>();
    if (kind < 0 || kind > static_cast<int>(StepKind::copy) || peer < -1 || peer >= group_.size)
      throw std::runtime_error("a step of a kind or a peer that there is not");
    step.kind = static_cast<StepKind>(kind);
    step.peer = peer;
    step.bytes = one.at(4).get<double>();
    step.posted = time(one.at(5));
    step.done = time(one.at(6));
    part->second.steps.push_back(step);
  }

  void each_time(const auto& use) {
    const auto known = [&](double& time) {
      if (time != kUnknown) use(time);
    };
    for (auto& [sequence, operation] : operations_)
      for (auto& [rank, part] : operation.parts) {
        for (double* time : {&part.entered, &part.begun, &part.agreed, &part.ended, &part.waiting})
          known(*time);
        for (TracedStep& step : part.steps) {
          known(step.posted);
          known(step.done);
        }
      }
  }

  // Earlier records than the first that is read are no further back.
  static constexpr int64_t kMargin = int64_t{1} << 50;

  TracedGroup& group_;
  RankClock clock_;
  int64_t base_ = 0;
  std::map<int64_t, TracedOperation> operations_;
};

MachineModel machine_of(const DumpHead& dump) try {
  MachineModel machine = parse_machine_model(dump.machine);
  for (const std::vector<int>* places : {&machine.hosts, &machine.nodes})
    if (!places->empty() && places->size() != static_cast<size_t>(dump.size))
      throw std::runtime_error("has a machine of another number of ranks than its group");
  return machine;
} catch (const std::exception& error) {
  refuse_dump(dump.file, error.what());
}

// What has not ended for so many seconds is worth a word.
constexpr double kLongRunning = 1;
constexpr size_t kMaxListed = 8;

void add_running(TracedGroup& group, const std::vector<DumpHead>& dumps) {
  size_t told = 0;
  for (const DumpHead& dump : dumps)
    for (const RunningCall& call : dump.running) {
      if (call.seconds < kLongRunning || told++ >= kMaxListed) continue;
      std::string more;
      if (call.agreed)
        more = "; all ranks have called it";
      else if (call.waited_for >= 0)
        more = fmt::format(" and waits for rank {}", call.waited_for);
      group.remarks.push_back(fmt::format("rank {} has been in {}, sequence {}, for {:.1f} s{}",
                                          dump.rank, call.name, call.sequence, call.seconds, more));
    }
}

void add_remarks(TracedGroup& group, bool live) {
  std::vector<int> missing, unaligned;
  for (int rank = 0; rank < group.size; ++rank)
    if (!group.ranks.contains(rank))
      missing.push_back(rank);
    else if (!group.ranks[rank].aligned)
      unaligned.push_back(rank);
  const auto listed = [](const std::vector<int>& ranks) {
    const size_t shown = std::min(ranks.size(), kMaxListed);
    return fmt::format("{}{}",
                       fmt::join(ranks.begin(), ranks.begin() + static_cast<int>(shown), ", "),
                       shown < ranks.size() ? ", ..." : "");
  };
  if (!missing.empty())
    group.remarks.push_back(fmt::format(
        "{} of {} ranks have {}; missing: {}: their links are not judged", group.ranks.size(),
        group.size, live ? "told their records" : "left a file", listed(missing)));
  if (!unaligned.empty())
    group.remarks.push_back(
        fmt::format("the clocks of {} ranks are not known: {}: their times are put beside the "
                    "others' by the ends of operations, and not judged",
                    unaligned.size(), listed(unaligned)));
}

TracedGroup merged(const std::string& name, std::vector<DumpHead> all, bool live,
                   const DumpsProgress& tell) {
  TracedGroup group;
  std::vector<DumpHead> dumps = of_last_run(std::move(all), group.remarks);
  const DumpHead& first = dumps.front();
  group.name = name;
  group.size = first.size;
  group.machine = machine_of(first);
  group.hosts = first.hosts;
  std::ranges::stable_sort(dumps, {}, [](const DumpHead& dump) { return !dump.clock.known(); });
  Merge merge(group);
  for (size_t i = 0; i < dumps.size(); ++i) {
    DumpHead& dump = dumps[i];
    if (tell) tell(fmt::format("{}: {} of {} ranks are read", name, i, dumps.size()));
    if (dump.size != group.size) refuse_dump(dump.file, "is of a group of another size");
    if (group.ranks.contains(dump.rank))
      refuse_dump(dump.file, fmt::format("is a second file of rank {}: name each once", dump.rank));
    merge.add(dump);
    dump.text.reset();
  }
  merge.finish();
  add_remarks(group, live);
  add_running(group, dumps);
  return group;
}

}  // namespace

std::vector<TracedGroup> read_dumps(const std::vector<std::string>& sources,
                                    const DumpsProgress& tell) {
  static const std::regex ending(R"(-rank\d+\.json$)");
  std::map<std::string, std::vector<DumpHead>> by_name;
  for (const std::string& source : sources)
    for (const std::string& file : files_of(source)) {
      if (tell) tell(file);
      by_name[std::regex_replace(fs::path(file).filename().string(), ending, "")].push_back(
          read_head(file));
    }
  std::vector<TracedGroup> groups;
  for (auto& [name, dumps] : by_name) groups.push_back(merged(name, std::move(dumps), false, tell));
  return groups;
}

TracedGroup read_live_group(LiveGroup group, const DumpsProgress& tell) {
  std::vector<DumpHead> dumps;
  for (LiveRank& one : group.ranks) {
    dumps.push_back(read_head_of(one.name, std::move(one.text)));
    if (dumps.back().rank != one.rank)
      refuse_dump(one.name, fmt::format("tells the records of rank {}", dumps.back().rank));
  }
  TracedGroup traced = merged(group.name, std::move(dumps), true, tell);
  std::ranges::move(group.remarks, std::back_inserter(traced.remarks));
  return traced;
}

std::string way_of(const TracedGroup& group, int from, int to) {
  const auto sender = group.ranks.find(from);
  if (sender == group.ranks.end() || sender->second.ways.empty()) return "";
  return sender->second.ways[static_cast<size_t>(to)];
}

std::string name_of(const TracedOperation& operation) {
  const char* const collective = to_string(operation.collective);
  if (!moves_data(operation.collective)) return collective;
  const uint64_t bytes = operation.bytes;
  if (bytes >= 1 << 20) return fmt::format("{} {:.4g} MiB", collective, bytes / double{1 << 20});
  if (bytes >= 1 << 10) return fmt::format("{} {:.4g} KiB", collective, bytes / double{1 << 10});
  return fmt::format("{} {} B", collective, bytes);
}

}  // namespace ringwood::tools
