// The work of the ranks' threads in a simulation (cost.h), one job at a time each.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace ringwood {

// Of a message: its encoding, its head, its body (by both ends), the sender's part alone, its tail.
enum class JobKind { agreeing, own_block, local, encoding, head, body, alone, tail };

struct CostJob {
  JobKind kind;
  int32_t rank = -1;   // whose thread runs it; -1: a body
  int32_t index = -1;  // step of a local job, else its message
  double seconds = 0, memory = 0;
};

// Jobs that need the whole thread of their rank, in the order in which they can begin.
class CostThreads final {
 public:
  explicit CostThreads(int n) : queues_(n), busy_(n, false) {}

  void add(const CostJob& job) { queues_[job.rank].push_back(job); }
  // Puts a job before all others that wait for the thread.
  void add_first(const CostJob& job) { queues_[job.rank].push_front(job); }
  bool busy(int rank) const { return busy_[rank]; }
  // The thread has finished its job, if it had one; returns the job that it begins now.
  std::optional<CostJob> next(int rank) {
    auto& queue = queues_[rank];
    busy_[rank] = !queue.empty();
    if (queue.empty()) return {};
    const CostJob job = queue.front();
    queue.pop_front();
    return job;
  }

 private:
  std::vector<std::deque<CostJob>> queues_;  // by rank
  std::vector<char> busy_;                   // by rank
};

}  // namespace ringwood
