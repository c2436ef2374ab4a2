#include "collectives/verify/verify_execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace ringwood {
namespace {

using Completed = std::function<void(const Event&)>;

class Runner {
 public:
  Runner(GroupSchedules all, const Graphs& graphs, const Messages& messages,
         const Completed& completed)
      : all_(all),
        graphs_(graphs),
        messages_(messages),
        completed_(completed),
        waits_for_(messages.steps()),
        posted_(messages.links(), kNone) {}

  std::optional<std::string> run() {
    for (int rank = 0; rank < all_.size(); ++rank) {
      for (const int32_t later : graphs_[rank].successor) ++waits_for(rank, later);
      const std::vector<bool> first = messages_.first_on_links(rank);
      for (size_t i = 0; i < first.size(); ++i)
        if (!first[i]) ++waits_for(rank, static_cast<int32_t>(i));
    }
    // Nothing releases a step of a rank before one of that rank's steps is posted here.
    for (int rank = 0; rank < all_.size(); ++rank) {
      for (int32_t step = 0; step < all_[rank].size(); ++step)
        if (waits_for(rank, step) == 0) post(rank, step);
      finish_what_can();
    }
    for (int rank = 0; rank < all_.size(); ++rank)
      for (int32_t step = 0; step < all_[rank].size(); ++step)
        if (waits_for(rank, step) != kDone) return deadlock({rank, step});
    return std::nullopt;
  }

 private:
  static constexpr int32_t kNone = Messages::kNone, kDone = -1;
  struct Place {
    int rank;
    int32_t step;
    bool operator==(const Place&) const = default;
  };

  int32_t& waits_for(int rank, int32_t step) {
    return waits_for_[messages_.first_step(rank) + step];
  }
  int32_t waits_for(Place at) const { return waits_for_[messages_.first_step(at.rank) + at.step]; }

  // Of a link one step of one end at most is posted and not done, because its ends keep its order.
  void post(int rank, int32_t i) {
    const Step step = all_[rank].step(i);
    if (step.peer < 0) return ready_.push_back({rank, i});
    int32_t& other = posted_[messages_.link(rank, i)];
    if (other == kNone) {
      other = i;
      return;
    }
    const int32_t mate = std::exchange(other, kNone);
    const bool sends = step.kind == StepKind::send;
    ready_.push_back(sends ? Event{rank, i, step.peer, mate} : Event{step.peer, mate, rank, i});
  }

  void finish_what_can() {
    while (!ready_.empty()) {
      const Event event = ready_.back();
      ready_.pop_back();
      if (completed_) completed_(event);
      if (event.to >= 0) complete(event.to, event.to_step);
      complete(event.rank, event.step);
    }
  }

  void release(int rank, int32_t step) {
    if (--waits_for(rank, step) == 0) post(rank, step);
  }

  void complete(int rank, int32_t step) {
    waits_for(rank, step) = kDone;
    const Graphs::View& graph = graphs_[rank];
    for (int32_t at = graph.offset[step]; at < graph.offset[step + 1]; ++at)
      release(rank, graph.successor[at]);
    const int32_t next = messages_.next(rank, step);
    if (next != kNone) release(rank, next);
  }

  // The earliest step for which `at` waits on its own rank; itself when it is posted.
  Place root_cause(Place at) const {
    const Graphs::View& graph = graphs_[at.rank];
    while (waits_for(at) > 0) {
      for (int32_t before = 0; before < at.step; ++before) {
        if (waits_for({at.rank, before}) == kDone) continue;
        const auto begin = graph.successor.begin();
        const bool hazard = std::binary_search(begin + graph.offset[before],
                                               begin + graph.offset[before + 1], at.step);
        if (!hazard && messages_.next(at.rank, before) != at.step) continue;
        at.step = before;
        break;
      }
    }
    return at;
  }

  // Every stuck step waits, on its own rank, for a posted step, whose mate is stuck in turn.
  // Following that must return to an earlier step: the cycle is the counterexample.
  std::string deadlock(Place stuck) const {
    std::vector<Place> path;
    Place at = root_cause(stuck);
    auto seen = path.end();
    while ((seen = std::find(path.begin(), path.end(), at)) == path.end()) {
      path.push_back(at);
      at = root_cause({all_[at.rank].step(at.step).peer, messages_.mate(at.rank, at.step)});
    }
    path.erase(path.begin(), seen);
    auto words = [&](Place of) {
      return std::tuple(of.rank, of.step, print(all_[of.rank].step(of.step)));
    };
    const auto [rank, step, text] = words(path[0]);
    std::string result = fmt::format("deadlock: rank {} step {} ({})", rank, step, text);
    constexpr size_t kShown = 8;
    for (size_t i = 1; i <= std::min(path.size(), kShown); ++i) {
      const auto [peer, peer_step, peer_text] = words(path[i % path.size()]);
      result += fmt::format("{} waits for rank {}, which is at step {} ({})", i > 1 ? " and" : "",
                            peer, peer_step, peer_text);
    }
    return path.size() > kShown ? result + " and so on" : result;
  }

  const GroupSchedules all_;
  const Graphs& graphs_;
  const Messages& messages_;
  const Completed& completed_;
  std::vector<int32_t> waits_for_;  // by step: the number to complete before it is posted; kDone
  std::vector<int32_t> posted_;     // by link: the step whose other end is not posted; kNone
  std::vector<Event> ready_;        // posted on all its ranks
};

}  // namespace

std::optional<std::string> run_unbuffered(GroupSchedules all, const Graphs& graphs,
                                          const Messages& messages, const Completed& completed) {
  return Runner(all, graphs, messages, completed).run();
}

}  // namespace ringwood
