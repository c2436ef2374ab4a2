// Plans by shape: a repeated call costs one look-up. Thread safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>

#include "collectives/algorithms.h"
#include "collectives/choose.h"
#include "collectives/plan.h"
#include "collectives/plan/checker.h"
#include "collectives/proved_schedules.h"

namespace ringwood {

class PlanCache final {
 public:
  // `fabric`: the group's, equal on all ranks, with the host of each. `slots`: every rank has eager
  // slots to every other.
  PlanCache(int rank, int n, const Fabric& fabric, const Options& options, bool slots = false);
  // A negative tolerance: the options'. `private_source`: peers could read this rank's scratch in
  // place, but not what it sends. Throws Error(invalid_argument) for an unusable algorithm.
  // `own`: what runs instead of an algorithm.
  std::shared_ptr<const Plan> get(const Shape& shape, const std::string& algorithm, int lanes,
                                  bool private_source, double tolerance = -1,
                                  const std::shared_ptr<const ProvedSchedules>& own = nullptr);
  Answer answer(const Shape& shape, const std::string& algorithm, int lanes,
                double tolerance = -1) const;
  std::vector<Candidate> explain(const Shape& shape) const;
  // Kinds of plans that have been checked and found sound (plan/checker.h).
  size_t checked() const;
  // Whether a call in a group whose packed buffer has so many bytes is carried out together with
  // others.
  bool packs(size_t bytes) const { return bytes <= limits().packed; }
  // Whether so many bytes of a private source are copied once for all peers.
  bool publishes(size_t bytes) const {
    return bytes >= limits().published_from && bytes <= limits().published_up_to;
  }

 private:
  const ProtocolLimits& limits() const { return chooser_.fabric().limits; }
  struct Key {
    Shape shape;
    std::string algorithm;
    int lanes;
    double tolerance;
    bool private_source;
    std::shared_ptr<const ProvedSchedules> own;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  // Where schedules come from.
  struct Source {
    const AlgorithmRow* row = nullptr;  // null: they are the user's own
    const ProvedSchedules* own = nullptr;
  };
  Schedule schedule(const Source& source, int rank, int root) const;
  // Of rank_, but for check_all().
  std::shared_ptr<Plan> make(const Key& key, int rank) const;
  std::shared_ptr<Plan> make_chosen(const Key& key, int rank) const;
  std::shared_ptr<Plan> make_own(const Key& key, int rank) const;
  std::shared_ptr<Plan> make_exact(const Source& source, const Key& key, const Answer& answer,
                                   int rank) const;

  // Checks the plans of all ranks (plan/checker.h) before the first of its kind is used. Throws
  // Error(internal) with what is wrong. Not when the group is made: the choices for a set of shapes
  // that may never come cost ten times as much as all checks of those that do.
  void check_once(const Plan& mine, const Key& key);
  PlanCheck check_all(const Plan& mine, const Key& key) const;
  Shape shape_of(const Shape& mine, int rank) const;

  Question question(const Shape& shape, double tolerance) const;
  Opener opener(const Source& source, const Shape& shape, int lanes) const;
  Where where(int rank, int root) const {
    return {rank, n_, root, chooser_.fabric().hosts, chooser_.fabric().nodes};
  }

  // Of all ranks' schedules as they are bound, or null where they do not matter. Remembered by row:
  // sizes do not change them.
  std::shared_ptr<const Sums> sums(const Source& source, const Shape& shape, WireFormat wire) const;
  std::shared_ptr<const Sums> trace(const Source& source, const Shape& shape,
                                    WireFormat wire) const;

  const int rank_, n_;
  const double tolerance_;
  mutable std::map<std::tuple<const AlgorithmRow*, int, WireFormat>, std::shared_ptr<const Sums>>
      sums_;
  const bool apart_;  // every message goes through sockets
  const bool slots_;
  mutable Chooser chooser_;
  mutable std::mutex mutex_;
  using Plans = std::unordered_map<Key, std::shared_ptr<const Plan>, Hash>;
  // Uneven ones apart: those of a mixture of experts change with every call and would drive out
  // the others.
  Plans plans_, uneven_;
  // Kinds of plans, whatever their size; false: too large to be checked.
  std::map<std::string, bool> checked_;
};

}  // namespace ringwood
