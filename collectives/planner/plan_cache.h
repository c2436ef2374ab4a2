// The plans of calls that were made before: a repeated call costs one look-up.
//
// Their number and their bytes are limited; those that were not used for the longest time make
// room for others. Plans of uneven blocks are kept apart: those of a mixture of experts change with
// every call and would evict the others.
//
// Not thread-safe: guarded by the planner's lock, under which nothing is made.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <unordered_map>

#include "collectives/plan/plan.h"

namespace ringwood {

// The memory of a plan, about.
size_t bytes_of(const Plan& plan);

struct PlanKeyHash {
  size_t operator()(const PlanKey& key) const;
};

class PlanCache final {
 public:
  // Null: it is not kept.
  std::shared_ptr<const Plan> find(const PlanKey& key);
  // Takes the place of the plan with this key, unless that is of a later epoch.
  void add(const PlanKey& key, std::shared_ptr<const Plan> plan);
  template <class Each>
  void for_each_even(Each each) const {
    even_.for_each(each);
  }
  size_t bytes() const { return even_.bytes() + uneven_.bytes(); }
  size_t size() const { return even_.size() + uneven_.size(); }

 private:
  // By use, the last one used first. At least that one is kept.
  class Kept {
   public:
    Kept(size_t max_bytes, size_t max_plans) : max_bytes_(max_bytes), max_plans_(max_plans) {}
    std::shared_ptr<const Plan> find(const PlanKey& key);
    void add(const PlanKey& key, std::shared_ptr<const Plan> plan);
    template <class Each>
    void for_each(Each each) const {
      for (const Entry& entry : by_use_) each(entry.plan);
    }
    size_t bytes() const { return bytes_; }
    size_t size() const { return plans_.size(); }

   private:
    struct Entry {
      const PlanKey* key;  // of plans_
      std::shared_ptr<const Plan> plan;
      size_t bytes;
    };
    const size_t max_bytes_, max_plans_;
    size_t bytes_ = 0;
    std::list<Entry> by_use_;
    std::unordered_map<PlanKey, std::list<Entry>::iterator, PlanKeyHash> plans_;
  };
  Kept& place_of(const PlanKey& key);

  // A training step uses a few dozen sets of arguments, and a plan has some 140 bytes a step: 9
  // MiB for a ring of 16,384 ranks. Beyond this the sizes do not repeat, and keeping the plans is
  // waste.
  Kept even_{64 << 20, 4096};
  Kept uneven_{16 << 20, 32};
};

}  // namespace ringwood
