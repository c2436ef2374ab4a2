#include "tools/trace/blame.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "tools/trace/lateness.h"
#include "tools/trace/quantiles.h"

namespace ringwood::tools {
namespace {

// A link is slow if its messages take, in the quicker quarter of operations, this many times as
// long as those of the middle link, measured by their predictions.
constexpr double kSlow = 2;
constexpr size_t kMinOperations = 4;  // that it is judged by
// A message whose receiver began later than its sender, by more than this part of its time, may
// have lain in a buffer, so that it tells nothing of its link.
constexpr double kMaxLead = 0.25;
// What a slow link costs at least to be named: of the time of all operations, and of the cost of
// the worst link, on whose ends it may only have waited.
constexpr double kMinCost = 0.05, kMinOfWorst = 0.25;
constexpr size_t kLongestPath = 100'000;

// Walks back from the last step, each time to what was waited for last.
class CriticalPath {
 public:
  // `messages`: of ranks whose times can be compared.
  CriticalPath(const TracedGroup& group, const TracedOperation& operation,
               const std::vector<TracedMessage>& messages)
      : group_(group), operation_(operation) {
    for (const TracedMessage& m : messages) arrivals_[{m.to, m.recv_step}] = &m;
  }

  std::vector<const TracedMessage*> messages() const {
    std::vector<const TracedMessage*> path;
    int rank = -1;
    double end = -1;
    for (const auto& [one, part] : operation_.parts)
      if (is_comparable(group_, one) && part.ended > end) {
        end = part.ended;
        rank = one;
      }
    std::set<std::pair<int, int>> seen;
    while (rank >= 0 && path.size() < kLongestPath) {
      const TracedStep* const step = last_before(rank, end, seen);
      if (!step) break;
      seen.insert({rank, step->step});
      end = step->posted == kUnknown ? step->done : step->posted;
      const auto arrival = arrivals_.find({rank, step->step});
      if (arrival == arrivals_.end()) continue;
      const TracedMessage& message = *arrival->second;
      path.push_back(&message);
      // It waited for the later end, or for the message before it on the link.
      const TracedStep* const sent = step_of(message.from, message.send_step);
      const double later = sent ? std::max(end, sent->posted) : end;
      if (message.begin > later) {
        end = message.begin;
      } else if (sent && sent->posted > end) {
        rank = message.from;
        end = sent->posted;
      }
    }
    return path;
  }

 private:
  const TracedStep* step_of(int rank, int step) const {
    const auto& steps = operation_.parts.at(rank).steps;
    const auto found = std::ranges::lower_bound(steps, step, {}, &TracedStep::step);
    return found != steps.end() && found->step == step ? &*found : nullptr;
  }
  // Sends are done when the link has taken them: nobody waits for them longer than for what
  // arrives.
  const TracedStep* last_before(int rank, double time,
                                const std::set<std::pair<int, int>>& seen) const {
    const TracedStep* last = nullptr;
    for (const TracedStep& step : operation_.parts.at(rank).steps)
      if (step.kind != StepKind::send && step.done <= time && !seen.contains({rank, step.step}) &&
          (!last || step.done > last->done))
        last = &step;
    return last;
  }

  const TracedGroup& group_;
  const TracedOperation& operation_;
  std::map<std::pair<int, int>, const TracedMessage*> arrivals_;  // by receiver and its step
};

// What all operations say about links.
class Links {
 public:
  explicit Links(const TracedGroup& group) : group_(group) {}

  void add(const TracedMessage& message, double predicted) {
    Use& use = uses_[{message.from, message.to}];
    const double measured = message.end - message.sent;
    use.blame.from = message.from;
    use.blame.to = message.to;
    ++use.blame.messages;
    use.blame.bytes += message.bytes;
    use.blame.measured += measured;
    use.blame.predicted += predicted;
    if (message.begin - message.sent > kMaxLead * measured) return;
    use.now_measured += message.end - message.begin;  // a late receiver makes no link slow
    use.now_predicted += predicted;
  }
  // All messages of an operation are added. They count together: of two that arrive at once, the
  // second seems to take no time.
  void end_operation() {
    for (auto& [ends, use] : uses_) {
      if (use.now_predicted > 0) use.ratios.push_back(use.now_measured / use.now_predicted);
      use.now_measured = use.now_predicted = 0;
    }
  }
  void blame(const Blame& operation) {
    std::map<std::pair<int, int>, double> costs;
    for (const SlowMessage& m : operation.slow)
      costs[{m.measured.from, m.measured.to}] += m.excess();
    for (const auto& [ends, cost] : costs) uses_[ends].costs.push_back(cost);
  }

  // All messages are added. Links are compared with those of their kind. Inside a host there is no
  // network that could be slow: what is slow there is a rank's core or the memory.
  void compare() {
    std::vector<double> of_kind[2];
    for (auto& [ends, use] : uses_) {
      if (!use.ratios.empty()) use.blame.ratio = quartile_of(use.ratios);
      of_kind[between(ends)].push_back(use.blame.ratio);
    }
    for (const int kind : {0, 1})
      if (!of_kind[kind].empty()) usual_[kind] = middle_of(of_kind[kind]);
    for (auto& [ends, use] : uses_)
      use.blame.slow = between(ends) && use.ratios.size() >= kMinOperations &&
                       use.blame.ratio >= kSlow * usual_[1];
  }
  // What the parameters promise, or less where the links of the kind keep less than that promise.
  double expected(const TracedMessage& message, double predicted) const {
    return predicted * std::min(1.0, usual_[between({message.from, message.to})]);
  }
  double usual() const { return std::max(usual_[0], usual_[1]); }

  // `whole`: what all operations took.
  std::vector<LinkBlame> slow(double whole) const {
    std::vector<LinkBlame> all;
    for (const auto& [ends, use] : uses_) {
      const double blamed = std::accumulate(use.costs.begin(), use.costs.end(), 0.0);
      if (!use.blame.slow || blamed <= kMinCost * whole) continue;
      LinkBlame& link = all.emplace_back(use.blame);
      link.way = way_of(group_, ends.first, ends.second);
      link.blamed = blamed;
      link.steady = steady_sum(use.costs);
    }
    std::ranges::sort(all, std::greater(), &LinkBlame::blamed);
    std::erase_if(all, [worst = all.empty() ? 0 : all[0].blamed](const LinkBlame& one) {
      return one.blamed < kMinOfWorst * worst;
    });
    return all;
  }

 private:
  struct Use {
    LinkBlame blame;
    std::vector<double> ratios;                  // by operation
    std::vector<double> costs;                   // by operation that it had a cost in
    double now_measured = 0, now_predicted = 0;  // in this operation
  };
  bool between(std::pair<int, int> ends) const {
    return group_.hosts[static_cast<size_t>(ends.first)] !=
           group_.hosts[static_cast<size_t>(ends.second)];
  }

  const TracedGroup& group_;
  std::map<std::pair<int, int>, Use> uses_;
  double usual_[2] = {1, 1};  // the middle link's ratio, inside hosts and between them
};

class Judge {
 public:
  Judge(const TracedGroup& group, Predictions& predictions)
      : group_(group), predictions_(predictions), links_(group) {}

  RunBlame run() {
    for (const TracedOperation& operation : group_.operations)
      if (const auto predicted = prediction_of(operation)) {
        for (const TracedMessage& m : comparable_messages(operation))
          links_.add(m, predicted_of(*predicted, m));
        links_.end_operation();
      }
    links_.compare();
    const TracedOperation* before = nullptr;
    for (const TracedOperation& operation : group_.operations) {
      const bool next = before && before->sequence + 1 == operation.sequence;
      judge(operation, next ? before : nullptr);
      before = &operation;
    }
    double whole = 0;
    for (const Blame& one : run_.operations) whole += one.measured;
    run_.links = links_.slow(whole);
    run_.usual_ratio = links_.usual();
    for (auto& [rank, seconds] : late_)
      run_.ranks.push_back({rank, static_cast<int>(seconds.size()),
                            std::accumulate(seconds.begin(), seconds.end(), 0.0),
                            steady_sum(seconds), middle_of(seconds)});
    std::ranges::sort(run_.ranks, std::greater(), [](const RankBlame& one) {
      return std::pair(one.operations > kOnce, one.blamed);
    });
    std::ranges::stable_sort(run_.operations, std::greater(), &Blame::lost);
    return std::move(run_);
  }

 private:
  void judge(const TracedOperation& operation, const TracedOperation* before) {
    if (operation.parts.empty()) return;
    const Lateness lateness(group_, operation, before);
    Blame blame;
    blame.sequence = operation.sequence;
    blame.name = name_of(operation);
    blame.late = lateness.late();
    for (const LateRank& one : blame.late) late_[one.rank].push_back(one.seconds);
    double begin = lateness.middle(), end = 0;
    if (begin == kUnknown) {
      begin = std::numeric_limits<double>::infinity();
      for (const auto& [rank, part] : operation.parts)
        begin = std::min(begin, part.waiting == kUnknown ? part.ended : part.waiting);
    }
    // An estimated clock is no worse than any where it is the only one.
    const bool any = std::ranges::any_of(
        operation.parts, [&](const auto& one) { return is_comparable(group_, one.first); });
    for (const auto& [rank, part] : operation.parts)
      if (!any || is_comparable(group_, rank)) end = std::max(end, part.ended);
    blame.measured = std::max(0.0, end - begin);
    blame.predicted = operation.predicted;
    judge_messages(operation, blame);
    ++run_.judged;
    run_.operations.push_back(std::move(blame));
  }

  std::vector<TracedMessage> comparable_messages(const TracedOperation& operation) const {
    std::vector<TracedMessage> all = messages_of(operation);
    std::erase_if(all, [&](const TracedMessage& m) {
      return !is_comparable(group_, m.from) || !is_comparable(group_, m.to);
    });
    return all;
  }

  // Null: not all was recorded of the ranks that have left a file, or nothing is predicted.
  std::shared_ptr<const PredictedSteps> prediction_of(const TracedOperation& operation) {
    const auto whole = [](const auto& one) { return is_whole(one.second) && !one.second.failed; };
    if (operation.parts.size() != group_.ranks.size()) return nullptr;
    return std::ranges::all_of(operation.parts, whole) ? predictions_.of(operation) : nullptr;
  }

  static double predicted_of(const PredictedSteps& predicted, const TracedMessage& m) {
    const auto found = predicted.messages.find({m.from, m.to, m.nth});
    return found == predicted.messages.end() ? 0 : found->second.end - found->second.begin;
  }

  void judge_messages(const TracedOperation& operation, Blame& blame) {
    const auto predicted = prediction_of(operation);
    if (!predicted) return;
    blame.predicted = predicted->seconds;
    const std::vector<TracedMessage> messages = comparable_messages(operation);
    for (const TracedMessage* m : CriticalPath(group_, operation, messages).messages()) {
      const SlowMessage slow{*m, links_.expected(*m, predicted_of(*predicted, *m)),
                             way_of(group_, m->from, m->to)};
      if (slow.excess() < std::max(kNotable / 2, kNotableShare / 2 * blame.predicted)) continue;
      blame.slow.push_back(slow);
    }
    links_.blame(blame);
    std::ranges::sort(blame.slow, std::greater(), &SlowMessage::excess);
  }

  const TracedGroup& group_;
  Predictions& predictions_;
  Links links_;
  RunBlame run_;
  std::map<int, std::vector<double>> late_;
};

}  // namespace

std::vector<TracedMessage> messages_of(const TracedOperation& operation) {
  // The steps of each direction, in their order: the k-th send meets the k-th receive.
  std::map<std::pair<int, int>,
           std::pair<std::vector<const TracedStep*>, std::vector<const TracedStep*>>>
      links;
  for (const auto& [rank, part] : operation.parts)
    for (const TracedStep& step : part.steps) {
      if (step.peer < 0) continue;
      if (step.kind == StepKind::send)
        links[{rank, step.peer}].first.push_back(&step);
      else
        links[{step.peer, rank}].second.push_back(&step);
    }
  std::vector<TracedMessage> messages;
  for (const auto& [ends, steps] : links) {
    const auto& [sends, receives] = steps;
    if (sends.size() != receives.size()) continue;  // some are no more recorded
    double before = 0;
    for (size_t k = 0; k < sends.size(); ++k) {
      TracedMessage m{
          ends.first,         ends.second, static_cast<int>(k), sends[k]->step, receives[k]->step,
          receives[k]->bytes, 0,           receives[k]->done};
      const double done = sends[k]->done, posted = sends[k]->posted;
      m.sent = std::min(m.end, std::max(posted == kUnknown ? done : posted, before));
      m.begin = std::min(m.end, std::max(m.sent, receives[k]->posted));
      before = m.end;
      messages.push_back(m);
    }
  }
  return messages;
}

RunBlame blame(const TracedGroup& group, Predictions& predictions) {
  return Judge(group, predictions).run();
}

}  // namespace ringwood::tools
