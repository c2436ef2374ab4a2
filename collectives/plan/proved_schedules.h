// Schedules of all ranks that are in no table: read from a text (`ringwood schedule run`), or built
// by a user who tries a new algorithm. A call that brings them runs them instead of an algorithm.
//
// They are verified when the set is made, so only proved schedules run. Ranks that call different
// ones find out by the fingerprint.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood {

class ProvedSchedules final {
 public:
  // `schedules[r]` is that of rank r, before segments(). Throws Error(invalid_argument) with the
  // counterexample of verify().
  static std::shared_ptr<const ProvedSchedules> create(Collective collective,
                                                       std::vector<Schedule> schedules,
                                                       int root = 0);
  // From the text form (schedule.h) of all ranks, one after the other.
  static std::shared_ptr<const ProvedSchedules> parse(Collective collective, std::string_view text,
                                                      int root = 0);

  Collective collective() const { return collective_; }
  int root() const { return root_; }
  int size() const { return static_cast<int>(schedules_.size()); }
  std::span<const Schedule> schedules() const { return schedules_; }
  uint32_t hash() const { return hash_; }  // of all schedules

 private:
  ProvedSchedules(Collective collective, std::vector<Schedule> schedules, int root);

  const Collective collective_;
  const std::vector<Schedule> schedules_;
  const int root_;
  const uint32_t hash_;
};

// The name of such schedules in the fingerprint and the plan.
inline constexpr std::string_view kUserSchedules = "schedules";

}  // namespace ringwood
