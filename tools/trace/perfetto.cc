#include "tools/trace/perfetto.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "collectives/kernels/types.h"
#include "tools/trace/blame.h"
#include "tools/trace/predicted.h"

namespace ringwood::tools {
namespace {

// Process ids: of a group's ranks, and behind them of the same ranks as predicted.
constexpr int kGroupIds = 1 << 16, kPredictedIds = 1 << 15;
// Thread ids: tracks of operations, then of steps.
constexpr int kStepThreads = 16;
constexpr size_t kMaxThreads = 4096;

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string name_of(StepKind kind, double bytes, int peer) {
  switch (kind) {
    case StepKind::send: return fmt::format("send {:.0f} B to rank {}", bytes, peer);
    case StepKind::recv: return fmt::format("recv {:.0f} B from rank {}", bytes, peer);
    case StepKind::recv_reduce:
      return fmt::format("recv_reduce {:.0f} B from rank {}", bytes, peer);
    case StepKind::reduce: return "reduce";
    case StepKind::copy: return "copy";
  }
  return "?";
}

// Large traces have millions: each is written as it is known.
class Events {
 public:
  explicit Events(std::ostream& out) : out_(out) {}
  void add(const std::string& event) {
    out_ << (first_ ? "\n" : ",\n") << event;
    first_ = false;
  }

 private:
  std::ostream& out_;
  bool first_ = true;
};

// The events of one rank, measured or predicted. Times are seconds.
class Process {
 public:
  Process(Events& events, int id) : events_(events), id_(id) {}

  void name(const std::string& name, int order) {
    metadata("process_name", 0, fmt::format(R"("name":{})", quoted(name)));
    metadata("process_sort_index", 0, fmt::format(R"("sort_index":{})", order));
  }
  void name_threads() {
    for (size_t i = 0; i < ends_.size(); ++i)
      metadata("thread_name", kStepThreads + static_cast<int>(i), R"("name":"steps")");
  }
  void operation(const TracedOperation& o, double begin, double end, const std::string& more) {
    slice(quoted(fmt::format("{} #{}", tools::name_of(o), o.sequence)), "operation", o.track, begin,
          end,
          fmt::format(R"("sequence":{},"bytes":{},"type":"{}","op":"{}","algorithm":{},)"
                      R"("segments":{},"predicted_us":{:.3f}{})",
                      o.sequence, o.bytes, to_string(o.type), to_string(o.op), quoted(o.algorithm),
                      o.segments, o.predicted * 1e6, more));
  }
  // Returns its thread: the first that is free then.
  int step(const std::string& name, int step, double begin, double end, int peer, double bytes,
           const std::string& way) {
    size_t thread = 0;
    while (thread < ends_.size() && ends_[thread] > begin) ++thread;
    if (thread == ends_.size() && thread < kMaxThreads) ends_.push_back(0);
    thread = std::min(thread, kMaxThreads - 1);
    ends_[thread] = std::max(begin, end);
    const int id = kStepThreads + static_cast<int>(thread);
    slice(quoted(name), "step", id, begin, end,
          fmt::format(R"("step":{},"peer":{},"bytes":{:.0f}{})", step, peer, bytes,
                      way.empty() ? "" : fmt::format(R"(,"way":{})", quoted(way))));
    return id;
  }
  // `phase`: s at a send, f at its receive.
  void arrow(const char* phase, uint64_t id, int thread, double time) {
    events_.add(fmt::format(
        R"({{"name":"message","cat":"message","ph":"{}","bp":"e","id":{},"pid":{},"tid":{},)"
        R"("ts":{:.3f}}})",
        phase, id, id_, thread, time * 1e6));
  }

 private:
  void metadata(const char* what, int thread, const std::string& arguments) {
    events_.add(fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{{}}}}})", what,
                            id_, thread, arguments));
  }
  void slice(const std::string& name, const char* category, int thread, double begin, double end,
             const std::string& arguments) {
    events_.add(fmt::format(
        R"({{"name":{},"cat":"{}","ph":"X","ts":{:.3f},"dur":{:.3f},"pid":{},"tid":{},)"
        R"("args":{{{}}}}})",
        name, category, begin * 1e6, std::max(0.0, end - begin) * 1e6, id_, thread, arguments));
  }

  Events& events_;
  const int id_;
  std::vector<double> ends_;  // by thread of steps
};

class Writer {
 public:
  Writer(Events& events, const TracedGroup& group, int number, uint64_t& arrows)
      : events_(events), group_(group), first_id_(number * kGroupIds), arrows_(arrows) {}

  void write(Predictions& predictions, const DumpsProgress& tell) {
    for (const auto& [rank, traced] : group_.ranks) {
      process(measured_, rank, 0)
          .name(fmt::format("{} rank {} ({})", group_.name, rank, traced.host), 2 * rank);
      process(predicted_, rank, kPredictedIds)
          .name(fmt::format("{} rank {} predicted", group_.name, rank), 2 * rank + 1);
    }
    size_t done = 0;
    for (const TracedOperation& operation : group_.operations) {
      if (tell)
        tell(fmt::format("{}: operation {} of {}", group_.name, ++done, group_.operations.size()));
      write(operation);
      if (const auto predicted = predictions.of(operation)) write(operation, *predicted);
    }
    for (auto* all : {&measured_, &predicted_})
      for (auto& [rank, process] : *all) process.name_threads();
  }

 private:
  using Processes = std::map<int, Process>;
  using Threads = std::map<std::pair<int, int>, int>;  // of steps by rank and step

  Process& process(Processes& all, int rank, int offset) {
    return all.try_emplace(rank, events_, first_id_ + offset + rank).first->second;
  }

  static double begin_of(const TracedPart& part) {
    if (part.entered != kUnknown) return part.entered;
    return part.waiting != kUnknown ? part.waiting : part.ended;
  }

  void write(const TracedOperation& operation) {
    Threads threads;
    for (const auto& [rank, part] : operation.parts) {
      Process& process = this->process(measured_, rank, 0);
      std::string more;
      if (part.waited_for >= 0) more += fmt::format(R"(,"waited_for":{})", part.waited_for);
      if (part.entered == kUnknown) more += R"(,"recorded":"because it waited")";
      if (part.failed) more += R"(,"failed":true)";
      process.operation(operation, begin_of(part), part.ended, more);
      std::vector<const TracedStep*> steps;
      for (const TracedStep& step : part.steps) steps.push_back(&step);
      std::ranges::stable_sort(steps, {}, &begin_of_step);
      for (const TracedStep* s : steps)
        threads[{rank, s->step}] =
            process.step(name_of(s->kind, s->bytes, s->peer), s->step, begin_of_step(s), s->done,
                         s->peer, s->bytes, way_of_step(rank, *s));
    }
    for (const TracedMessage& m : messages_of(operation)) {
      const TracedStep* const send = step_of(operation, m.from, m.send_step);
      arrow(measured_, m, threads, std::min(m.end, send ? begin_of_step(send) : m.begin));
    }
  }

  std::string way_of_step(int rank, const TracedStep& step) const {
    if (step.peer < 0) return "";
    const bool sends = step.kind == StepKind::send;
    return way_of(group_, sends ? rank : step.peer, sends ? step.peer : rank);
  }
  static double begin_of_step(const TracedStep* step) {
    return step->posted == kUnknown ? step->done : step->posted;
  }
  static const TracedStep* step_of(const TracedOperation& operation, int rank, int step) {
    for (const TracedStep& one : operation.parts.at(rank).steps)
      if (one.step == step) return &one;
    return nullptr;
  }

  void write(const TracedOperation& operation, const PredictedSteps& predicted) {
    double begin = kUnknown;  // the last rank's call
    for (const auto& [rank, part] : operation.parts) begin = std::max(begin, part.entered);
    if (begin == kUnknown) return;
    for (const auto& [rank, part] : operation.parts)
      process(predicted_, rank, kPredictedIds)
          .operation(operation, begin, begin + predicted.seconds, "");
    if (!has_steps(operation)) return;
    std::vector<const Interval*> steps;
    for (const Interval& step : predicted.steps)
      if (group_.ranks.contains(step.rank)) steps.push_back(&step);
    std::ranges::stable_sort(steps, {}, &Interval::begin);
    Threads threads;
    for (const Interval* s : steps) {
      const BoundStep& step =
          predicted.model.plans[static_cast<size_t>(s->rank)].steps[static_cast<size_t>(s->step)];
      threads[{s->rank, s->step}] =
          process(predicted_, s->rank, kPredictedIds)
              .step(name_of(step.kind, static_cast<double>(step.bytes), step.peer), s->step,
                    begin + s->begin, begin + s->end, step.peer, static_cast<double>(step.bytes),
                    "");
    }
    for (const auto& [ends, m] : predicted.messages) {
      TracedMessage shown = m;
      shown.end += begin;
      arrow(predicted_, shown, threads, begin + m.begin);
    }
  }

  static bool has_steps(const TracedOperation& operation) {
    return std::ranges::any_of(operation.parts,
                               [](const auto& part) { return !part.second.steps.empty(); });
  }

  void arrow(Processes& processes, const TracedMessage& m, const Threads& threads, double sent) {
    const auto from = threads.find({m.from, m.send_step}), to = threads.find({m.to, m.recv_step});
    if (from == threads.end() || to == threads.end()) return;
    const uint64_t id = ++arrows_;
    processes.at(m.from).arrow("s", id, from->second, sent);
    processes.at(m.to).arrow("f", id, to->second, m.end);
  }

  Events& events_;
  const TracedGroup& group_;
  const int first_id_;
  uint64_t& arrows_;
  Processes measured_, predicted_;
};

}  // namespace

void write_perfetto(std::ostream& out, const std::vector<TracedGroup>& groups,
                    std::deque<Predictions>& predictions, const DumpsProgress& tell) {
  out << R"({"displayTimeUnit":"ns","traceEvents":[)";
  Events events(out);
  uint64_t arrows = 0;
  for (size_t i = 0; i < groups.size(); ++i)
    Writer(events, groups[i], static_cast<int>(i), arrows).write(predictions[i], tell);
  out << "\n]}\n";
}

}  // namespace ringwood::tools
