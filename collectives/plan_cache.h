// Plans by shape: a repeated call costs one look-up. Thread safe.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "collectives/algorithms.h"
#include "collectives/choose.h"
#include "collectives/plan.h"

namespace ringwood {

class PlanCache final {
 public:
  // `fabric`: the group's, equal on all ranks, with the host of each.
  PlanCache(int rank, int n, const Fabric& fabric, const Options& options);
  // `private_source`: peers could read this rank's scratch in place, but not what it sends. Throws
  // Error(invalid_argument) for an unusable algorithm.
  std::shared_ptr<const Plan> get(const Shape& shape, const std::string& algorithm, int lanes,
                                  bool private_source);
  Answer answer(const Shape& shape, const std::string& algorithm, int lanes) const;

 private:
  struct Key {
    Shape shape;
    std::string algorithm;
    int lanes;
    bool private_source;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  std::shared_ptr<const Plan> make(const Shape& shape, const std::string& algorithm, int lanes,
                                   bool private_source) const;

  Opener opener(const AlgorithmRow& row, const Shape& shape, int lanes) const;
  Where where(int rank, int root) const { return {rank, n_, root, chooser_.fabric().hosts}; }

  const int rank_, n_;
  bool apart_ = false;  // no two ranks on one host
  mutable Chooser chooser_;
  std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const Plan>, Hash> plans_;
};

}  // namespace ringwood
