#include "tools/replay/perf_replay.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "collectives/tuner/choice/choose.h"
#include "tools/counted.h"
#include "tools/perf/group_clock.h"
#include "tools/perf/perf_environment.h"
#include "tools/perf/perf_requirements.h"
#include "tools/replay/replay_report.h"

namespace ringwood::tools {
namespace {

// What every rank has to know, as rank 0 sends it: numbers alone.
struct Script {
  struct Kind {
    Collective collective;
    DataType type;
    ReduceOp op;
    int root;
    size_t bytes;
  };
  std::vector<Kind> kinds;
  std::vector<size_t> calls;    // by call: its kind
  std::vector<int64_t> pauses;  // by call, before it; ns
};

std::vector<int64_t> print(const RecordedRun& run) {
  std::vector<int64_t> numbers{static_cast<int64_t>(run.kinds.size())};
  for (const auto& [call, count] : run.kinds)
    numbers.insert(numbers.end(),
                   {static_cast<int64_t>(call.collective), static_cast<int64_t>(call.type),
                    static_cast<int64_t>(call.op), call.root, static_cast<int64_t>(call.bytes)});
  for (size_t i = 0; i < run.calls.size(); ++i)
    numbers.insert(numbers.end(), {static_cast<int64_t>(run.calls[i]),
                                   static_cast<int64_t>(run.times[i].pause * 1e9)});
  return numbers;
}

Script parse(const std::vector<int64_t>& numbers, int ranks) {
  Script script;
  size_t at = 1;
  for (int64_t kind = 0; kind < numbers[0]; ++kind, at += 5)
    script.kinds.push_back(
        {static_cast<Collective>(numbers[at]), static_cast<DataType>(numbers[at + 1]),
         static_cast<ReduceOp>(numbers[at + 2]), static_cast<int>(numbers[at + 3] % ranks),
         static_cast<size_t>(numbers[at + 4])});
  for (; at + 1 < numbers.size(); at += 2) {
    script.calls.push_back(static_cast<size_t>(numbers[at]));
    script.pauses.push_back(numbers[at + 1]);
  }
  return script;
}

// Rank 0's, on every rank.
std::vector<int64_t> broadcast(Communicator& group, std::vector<int64_t> numbers) {
  auto count = static_cast<int64_t>(numbers.size());
  finish(group.broadcast(&count, 1, DataType::int64, 0, synchronous_call()));
  numbers.resize(static_cast<size_t>(count));
  finish(group.broadcast(numbers.data(), numbers.size(), DataType::int64, 0, synchronous_call()));
  return numbers;
}

// One kind of call with its buffers on this rank.
struct KindCall {
  const OperationRow* row;
  Call call;
  Pattern pattern;
};

class Replay {
 public:
  Replay(const PerfOptions& perf, const Script& script, double tolerance, Communicator& group)
      : perf_(perf),
        script_(script),
        group_(group),
        hosts_(gather_hosts(group)),
        clock_(group, hosts_),
        wrong_(script.kinds.size(), 0) {
    for (const Script::Kind& kind : script.kinds) kinds_.push_back(made(kind, tolerance));
    size_t in = 1, out = 1;
    for (const KindCall& one : kinds_) {
      const size_t block = one.call.block_bytes();
      in = std::max(in, block * static_cast<size_t>(one.row->inputs(one.call)));
      out = std::max(out, block * static_cast<size_t>(one.row->outputs(one.call)));
    }
    in_.emplace(std::max(in, out), perf.memory);
    out_.emplace(out, perf.memory);
    for (KindCall& one : kinds_) {
      one.call.in = in_->data();
      one.call.out = one.row->in_place() ? in_->data() : out_->data();
    }
  }

  const std::vector<HostRanks>& hosts() const { return hosts_; }
  const std::vector<int64_t>& wrong() const { return wrong_; }

  // Each kind once: its results are compared, and links and plans are made.
  void check() {
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      const KindCall& one = kinds_[kind];
      Trial trial(*one.row, one.call, perf_.trial, clock_);
      if (perf_.check) wrong_[kind] += trial.check(one.pattern);
      trial.warm_up();
    }
  }

  // By call, of this pass.
  std::vector<CallTime> pass() {
    // Zeros stay zeros however often they are reduced in place.
    for (const KindCall& one : kinds_) write_input(*one.row, one.call);
    clock_.align();
    std::vector<double> called, ended;
    finish(group_.barrier(synchronous_call()));
    for (size_t i = 0; i < script_.calls.size(); ++i) {
      const KindCall& one = kinds_[script_.calls[i]];
      if (perf_.replay.gaps)
        std::this_thread::sleep_for(std::chrono::nanoseconds(script_.pauses[i]));
      called.push_back(clock_.now_s());
      one.row->run(one.call);
      ended.push_back(clock_.now_s());
    }
    for (std::vector<double>* times : {&called, &ended})
      finish(group_.all_reduce(times->data(), times->size(), DataType::float64, ReduceOp::max,
                               synchronous_call()));
    return times_of(called, ended);
  }

  // What this group runs, and how long it is predicted to take: rank 0's.
  Candidate choice_of(size_t kind) const {
    const auto& [row, call, pattern] = kinds_[kind];
    Candidate choice;
    choice.algorithm = "none";
    choice.seconds = std::nan("");
    if (call.size() == 1) return choice;
    for (const Candidate& c :
         group_.explain(*row->collective, call.block_bytes(), call.type, call.op))
      if (c.chosen) choice = c;
    if (perf_.memory != BufferKind::ordinary) choice.seconds = choice.zero_copy_seconds;
    if (std::isinf(choice.seconds)) choice.seconds = std::nan("");
    return choice;
  }

 private:
  KindCall made(const Script::Kind& kind, double tolerance) const {
    const OperationRow& row = find_operation(to_string(kind.collective));
    const int ranks = group_.size();
    KindCall one{
        &row,
        {&group_, kind.type, kind.op, kind.root, 0, nullptr, nullptr, perf_.call_options()},
        row.reduces() ? Pattern(kind.type, kind.op, ranks, tolerance) : Pattern(kind.type, ranks)};
    if (row.reduces()) one.call.options.factor = Pattern::factor(kind.op, group_.rank());
    if (row.moves_data()) one.call.count = count_for(row, kind.bytes, kind.type, ranks);
    return one;
  }

  const PerfOptions& perf_;
  const Script& script_;
  Communicator& group_;
  const std::vector<HostRanks> hosts_;
  GroupClock clock_;
  std::vector<KindCall> kinds_;
  std::optional<Buffer> in_, out_;
  std::vector<int64_t> wrong_;  // by kind, of all ranks
};

// By call, the middle one of all passes.
std::vector<double> middle_of(const std::vector<std::vector<CallTime>>& passes) {
  std::vector<double> seconds;
  for (size_t i = 0; i < passes.front().size(); ++i) {
    std::vector<double> one;
    for (const std::vector<CallTime>& pass : passes) one.push_back(pass[i].seconds);
    std::ranges::nth_element(one, one.begin() + static_cast<ptrdiff_t>(one.size() / 2));
    seconds.push_back(one[one.size() / 2]);
  }
  return seconds;
}

// The time of a whole pass, the middle one of all.
double middle_run(const std::vector<std::vector<CallTime>>& passes) {
  std::vector<double> runs;
  for (const std::vector<CallTime>& pass : passes) {
    double& run = runs.emplace_back(0);
    for (const CallTime& time : pass) run += time.seconds + time.pause;
  }
  std::ranges::nth_element(runs, runs.begin() + static_cast<ptrdiff_t>(runs.size() / 2));
  return runs[runs.size() / 2];
}

ReplayReport report_of(const PerfOptions& perf, const RecordedRun& run, const Replay& replay,
                       const std::vector<std::vector<CallTime>>& passes, int ranks) {
  ReplayReport report;
  report.command = "perf";
  report.run = &run;
  report.place =
      fmt::format("{} on {}", counted(ranks, "rank"), counted(replay.hosts().size(), "host"));
  if (ranks != run.ranks)
    report.notes.push_back(
        fmt::format("recorded with {}, run again with {}: whole buffers keep their sizes",
                    counted(run.ranks, "rank"), ranks));
  if (!perf.replay.gaps)
    report.notes.emplace_back("run again without the pauses: --gaps keeps them");
  std::vector<double> predicted;
  std::vector<Candidate> choices;
  for (size_t kind = 0; kind < run.kinds.size(); ++kind) {
    choices.push_back(replay.choice_of(kind));
    report.algorithms.push_back(name_of(choices.back().algorithm, choices.back().wire));
    report.segments.push_back(choices.back().segments);
    report.why_not.emplace_back();
  }
  for (const size_t kind : run.calls) predicted.push_back(choices[kind].seconds);
  report.columns = {recorded_column(run), column_of(run, "predicted", predicted),
                    column_of(run, "measured", middle_of(passes))};
  report.columns.back().run = std::max(middle_run(passes), report.columns.back().calls);
  if (perf.check) report.wrong = replay.wrong();
  return report;
}

// The table goes to standard error where JSON goes to standard output.
void write(const PerfOptions& perf, const ReplayReport& report, int ranks) {
  const std::optional<std::string>& json = perf.report.json;
  fmt::print(json == "-" ? stderr : stdout, "{}", print_table(report));
  if (json == "-") fmt::print("{}\n", print_json(report));
  if (json && *json != "-" && !(std::ofstream(*json) << print_json(report) << "\n" << std::flush))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--json {}: the file cannot be written", *json));
  if (!perf.report.html) return;
  std::vector<EarlierResults> earlier;
  for (const std::string& what : perf.report.compare)
    for (EarlierResults& one : read_earlier_results(what, ranks, "plain"))
      earlier.push_back(std::move(one));
  html_of(report, {{"processor", processor_name()}, {"load of the last minute", load_average()}},
          earlier)
      .write(*perf.report.html);
}

}  // namespace

bool run_replay(const PerfOptions& perf, const RecordedRun& run, double tolerance,
                Communicator& group) {
  const bool first = group.rank() == 0;
  const Script script =
      parse(broadcast(group, first ? print(run) : std::vector<int64_t>()), group.size());
  Replay replay(perf, script, tolerance, group);
  replay.check();
  std::vector<std::vector<CallTime>> passes;
  for (int pass = 0; pass < perf.trial.batches; ++pass) passes.push_back(replay.pass());
  replay.check();  // once more: a late write of a pass would show
  std::string failed;
  if (!perf.require.empty()) failed = other_transport(group, replay.hosts(), perf.require);
  bool right = failed.empty();
  for (const int64_t wrong : replay.wrong()) right = right && wrong == 0;
  if (!first) return right;
  write(perf, report_of(perf, run, replay, passes, group.size()), group.size());
  if (!failed.empty()) fmt::print(stderr, "ringwood: {}\n", failed);
  return right;
}

}  // namespace ringwood::tools
