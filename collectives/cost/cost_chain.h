// Chains of steps that wait for each other, followed backwards through the schedules of single
// ranks: the path of a sketch (cost_sketch.h). Internal to the cost model.
#pragma once

#include <unordered_map>
#include <vector>

#include "collectives/cost/cost_built.h"

namespace ringwood {

class Chains final {
 public:
  // `set`: mean of the bytes that a rank goes through (Prices::working_set()). The rest is memory
  // of the caller.
  Chains(Builder& builder, const Prices& prices, const Load& load, const MachineModel& machine,
         double set, double agreed)
      : builder_(builder),
        prices_(prices),
        load_(load),
        machine_(machine),
        set_(set),
        agreed_(agreed) {}

  // Finds the longest of the chains that end at some of n ranks; sets CostBounds::path and
  // ::latencies.
  void find(int n, CostBounds& bounds);

 private:
  struct Link {
    int rank;
    size_t step;
    bool by_message;  // the next link is its receive, else a later step of the rank
  };
  struct Length {
    double whole = 0, latencies = 0;
    void add(double latency, double seconds_of_bytes);
    void begin(double time);
    void grow(double from, double times);
  };
  struct Row {
    double posts = 0, bytes = 0;  // messages until this one is posted; bytes of all
  };

  const BuiltRank& built(int rank);
  bool follow(int rank, bool from_first, CostBounds& bounds);
  double position(const Link& link);
  bool go_back(std::vector<Link>& chain, bool from_first);
  bool go_to_sender(std::vector<Link>& chain);
  bool far(const BuiltRank& one, const Step& step) const;
  Row row_of(const BuiltRank& one, size_t step) const;
  CostMessage message(const Link& link, bool reduces);
  Length length_of(const std::vector<Link>& chain);

  Builder& builder_;
  const Prices& prices_;
  const Load& load_;
  const MachineModel& machine_;
  const double set_, agreed_;
  std::unordered_map<int, BuiltRank> built_;
  size_t followed_ = 0;  // steps followed so far
};

}  // namespace ringwood
