// What a row takes in a group of so many ranks that its messages cannot be simulated one by one.
//
// Without faults, on a network of which only ports are limited, one host stands for all where a
// symmetry of the hosts is found (cost/cost_quotient.h). What faults, uplinks and links of pairs
// add is that of smaller groups which have them, too (smaller_group.h), simulated exactly with and
// without them: it is extended to the group from two, the second of twice the hosts. Where hosts
// do not all do the same, so is what the row takes without.
//
//   affine       in the number of hosts, with the same bytes of a chunk: rows with n messages a
//                rank, and those whose steps wait for each other from host to host
//   logarithmic  in the number of hosts, with the same bytes of the buffer: trees and the like
//
// What a fault adds is at least what it adds to the larger of the two, and at most as many times
// that as the group is larger: a slow port delays a ring in each of its steps, a late rank once.
// Of uplinks that switches choose by a hash the worst decides, and a large group has more of them:
// so several seeds of a smaller one are simulated, of which the slowest counts.
//
// Pure: equal arguments give equal results, bit by bit. tests/simulation/extension.cc compares it
// with the simulation of every message.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/cost/placement.h"
#include "tools/simulation/events.h"
#include "tools/simulation/smaller_group.h"

namespace ringwood {

// A row's schedules in one operation, whatever the group.
struct RowRequest {
  const AlgorithmRow* row = nullptr;
  int root = 0;
  int segments = 1;
  Load load;  // of the group, which has its wire format; private buffers
};

// As it runs: with roundings, if its load has a wire format.
Schedule build_row(const RowRequest& request, const Placement& on, int root, int rank);

// Then what one host sends and what it receives do not meet, where it stands for all.
bool has_empty_chunks(const RowRequest& request, const Placement& group);

// Its seconds and what is busiest, and no more. Nothing where hosts do not all do the same, or
// chunks are empty.
std::optional<Outcome> simulate_one_host(const RowRequest& request, const SharedPlacement& group);

class Extension final {
 public:
  // Called with what is being simulated, and the part of that which is done.
  using Progress = std::function<void(int hosts, double part)>;
  struct Limits {
    // Of the larger smaller group: wanted, and where it has few leaves.
    double messages = 3e5, messages_of_few = 5e6;
  };

  // `faults`: all that run() is going to have. Nothing where the group is irregular, or no smaller
  // ones have them.
  static std::optional<Extension> of(const RowRequest& request, const SharedPlacement& group,
                                     const NetworkShape& shape, const Faults& faults,
                                     const Limits& limits);

  // Of the smaller groups, ascending.
  std::vector<int> hosts() const;

  // To be called once, before run().
  void simulate_clean(const Progress& progress);
  // Without a time line. `shape` differs from that of of() by its seed alone.
  Outcome run(const Faults& faults, const NetworkShape& shape, const Progress& progress) const;

 private:
  struct Sample {
    SmallerGroup group;
    Load load;
    Traffic traffic;
    double clean = 0;  // seconds
  };

  Extension(const RowRequest& request, SharedPlacement group)
      : request_(request), group_(std::move(group)) {}
  // False where they do not fit.
  bool sample(const std::vector<int>& hosts, const NetworkShape& shape, const Faults& faults,
              double most_messages);
  size_t messages_of_a_rank(const Placement& on, int root) const;
  bool grows_as_hosts(const SmallerGroup& smaller) const;
  Load load_of(const SmallerGroup& smaller) const;
  Outcome simulate(const Sample& sample, const NetworkShape& shape, const Faults& faults,
                   const Progress& progress) const;
  Outcome slowest(const Sample& sample, const NetworkShape& shape, const Faults& faults,
                  const Progress& progress) const;
  double extended(double shorter, double longer) const;
  double added(double shorter, double longer) const;
  Outcome of_group(Outcome outcome, double seconds, const NetworkShape& shape,
                   const Faults& faults) const;

  RowRequest request_;
  SharedPlacement group_;
  NetworkShape clean_shape_;     // only its ports are limited
  std::vector<Sample> samples_;  // two or three, ascending
  bool affine_ = false;          // what it takes grows as the hosts do
  double clean_ = 0;             // seconds of the group
};

}  // namespace ringwood
