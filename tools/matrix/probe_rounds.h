// Runs rounds (rounds.h) on a group and finds the rate or the latency of each of their flows.
//
// A flow's rate is that of its bytes in the time of a transfer, less what an operation costs beside
// its transfer. That follows from a second, shorter transfer. Times are those of the receiver's own
// clock. Interruptions only ever add to a time, so of each the shortest of some repetitions counts;
// the rounds take turns, so that a slow moment of a machine does not hit one of them alone.
//
// Collective; results are the same on all ranks. Throws the group's Error.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "tools/matrix/rounds.h"

namespace ringwood::tools {

// Of each round, of each of its flows; 0 where nothing sensible was measured.
using FlowValues = std::vector<std::vector<double>>;

class ProbeRounds final {
 public:
  struct Limits {
    int repeats = 5;
    double transfer_s = 20e-3;
    size_t max_bytes = 64 << 20;
  };
  // `progress` is called on rank 0; may be empty. The group outlives it.
  ProbeRounds(Communicator& group, const Limits& limits,
              std::function<void(const std::string&)> progress);

  // Bytes/s. A rank receives from at most one flow of a round.
  FlowValues rates(const std::string& what, const std::vector<std::vector<Flow>>& rounds);
  // Seconds, one way.
  FlowValues latencies(const std::string& what, const std::vector<std::vector<Flow>>& rounds);
  // Bytes/s of each flow while all of them run, however many a rank receives.
  std::vector<double> rates_at_once(const std::string& what, const std::vector<Flow>& flows);

 private:
  using Schedules = std::shared_ptr<const ProvedSchedules>;
  struct Round;

  void run(const Schedules& schedules, size_t chunk_bytes, double& best);
  // Both lengths of every round, in turns.
  void repeat(const std::string& what, std::vector<Round>& rounds, size_t chunk_bytes, int repeats);
  size_t fitting_chunk(const std::string& what, std::vector<Round>& rounds);
  void run_at_once(const std::vector<Flow>& flows, size_t bytes, std::vector<double>& best);
  static FlowValues by_round(const std::vector<Round>& rounds, const std::vector<double>& flat);
  // The longest of all ranks, by index.
  void gather(std::vector<double>& values);
  void show(const std::string& text) const;

  Communicator& group_;
  const Limits limits_;
  const std::function<void(const std::string&)> progress_;
  std::vector<std::byte> chunk_, in_, out_;
};

}  // namespace ringwood::tools
