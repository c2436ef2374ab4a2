#include "collectives/verify/verify_execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace ringwood {
namespace {

class Runner {
 public:
  Runner(const std::vector<Schedule>& all, const std::vector<Graph>& graphs, const Messages& m)
      : all_(all),
        graphs_(graphs),
        first_(m.first),
        mate_(m.mate),
        link_next_(m.first.back(), -1),
        waits_for_(m.first.back()),
        state_(m.first.back(), State::blocked) {
    for (size_t r = 0; r < all_.size(); ++r) {
      std::copy(graphs_[r].predecessors.begin(), graphs_[r].predecessors.end(),
                waits_for_.begin() + first_[r]);
    }
    for (size_t i = 0; i < m.messages.size(); ++i) {
      const auto& message = m.messages[i];
      if (i == 0) continue;
      const auto& before = m.messages[i - 1];
      if (before.from != message.from || before.to != message.to) continue;
      link_next_[before.send] = message.send;
      link_next_[before.recv] = message.recv;
      ++waits_for_[message.send];
      ++waits_for_[message.recv];
    }
  }

  Execution run() {
    for (int32_t step = 0; step < first_.back(); ++step) post_if_free(step);
    for (size_t at = 0; at < posted_.size(); ++at) {
      const int32_t step = posted_[at], mate = mate_[step];
      if (mate < 0) {
        const int rank = rank_of(step);
        execution_.events.push_back({rank, step - first_[rank]});
      } else if (state_[mate] == State::posted && state_[step] == State::posted) {
        record_message(step, mate);
        complete(mate);
      } else {
        continue;
      }
      complete(step);
    }
    for (int32_t step = 0; step < first_.back(); ++step) {
      if (state_[step] != State::done) {
        execution_.flaw = deadlock(step);
        break;
      }
    }
    return std::move(execution_);
  }

 private:
  enum class State : uint8_t { blocked, posted, done };

  int rank_of(int32_t step) const {
    return static_cast<int>(std::upper_bound(first_.begin(), first_.end(), step) - first_.begin()) -
           1;
  }

  bool sends(int32_t step) const {
    const int rank = rank_of(step);
    return all_[rank].steps[step - first_[rank]].kind == StepKind::send;
  }

  void record_message(int32_t a, int32_t b) {
    const auto [send, recv] = sends(a) ? std::pair(a, b) : std::pair(b, a);
    const int from = rank_of(send), to = rank_of(recv);
    execution_.events.push_back({from, send - first_[from], to, recv - first_[to]});
  }

  void post_if_free(int32_t step) {
    if (waits_for_[step] != 0) return;
    state_[step] = State::posted;
    posted_.push_back(step);
  }

  void release(int32_t step) {
    --waits_for_[step];
    post_if_free(step);
  }

  void complete(int32_t step) {
    state_[step] = State::done;
    const int rank = rank_of(step), i = step - first_[rank];
    const Graph& graph = graphs_[rank];
    for (int32_t at = graph.offset[i]; at < graph.offset[i + 1]; ++at) {
      release(first_[rank] + graph.successor[at]);
    }
    if (link_next_[step] >= 0) release(link_next_[step]);
  }

  // The earliest step for which `step` waits on its own rank; itself when it is posted.
  int32_t root_cause(int32_t step) const {
    while (state_[step] == State::blocked) {
      const int rank = rank_of(step);
      const Graph& graph = graphs_[rank];
      for (int32_t before = first_[rank]; before < step; ++before) {
        if (state_[before] == State::done) continue;
        const auto begin = graph.successor.begin();
        const int32_t i = before - first_[rank];
        const bool hazard = std::binary_search(begin + graph.offset[i], begin + graph.offset[i + 1],
                                               step - first_[rank]);
        if (!hazard && link_next_[before] != step) continue;
        step = before;
        break;
      }
    }
    return step;
  }

  // Every stuck step waits, on its own rank, for a posted step, whose mate is stuck in turn.
  // Following that must return to an earlier step: the cycle is the counterexample.
  std::string deadlock(int32_t stuck) const {
    std::vector<int32_t> path;
    int32_t at = root_cause(stuck);
    auto seen = path.end();
    while ((seen = std::find(path.begin(), path.end(), at)) == path.end()) {
      path.push_back(at);
      at = root_cause(mate_[at]);
    }
    path.erase(path.begin(), seen);
    auto words = [&](int32_t step) {
      const int rank = rank_of(step);
      return std::tuple(rank, step - first_[rank], print(all_[rank].steps[step - first_[rank]]));
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

  const std::vector<Schedule>& all_;
  const std::vector<Graph>& graphs_;
  const std::vector<int32_t>& first_;
  const std::vector<int32_t>& mate_;  // -1: a local step
  std::vector<int32_t> link_next_;    // the next step of the same link direction, -1: the last
  std::vector<int32_t> waits_for_;    // number of steps to complete before this one is posted
  std::vector<State> state_;
  std::vector<int32_t> posted_;  // in order of posting
  Execution execution_;
};

}  // namespace

Execution run_unbuffered(const std::vector<Schedule>& all, const std::vector<Graph>& graphs,
                         const Messages& messages) {
  return Runner(all, graphs, messages).run();
}

}  // namespace ringwood
