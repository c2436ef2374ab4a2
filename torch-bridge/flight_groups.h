// The groups that calls in the flight recorder belong to: those that live, and those that have
// ended but have a call that is kept. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ringwood {

struct FlightGroup {
  std::string name, description;
  int rank;                     // of this process
  std::vector<uint64_t> ranks;  // in the job, by rank of the group
};

class FlightGroups final {
 public:
  // Returns its number, which no other group of the process has.
  int add(FlightGroup group) {
    groups_.emplace(made_, std::move(group));
    return made_++;
  }
  // It makes no further calls.
  void end(int group) { ended_.insert(group); }
  // So many have ended that it is worth to look which of them have a call.
  bool many_ended() const { return ended_.size() >= 64; }
  void forget_ended_but(const std::set<int>& kept) {
    std::erase_if(ended_, [&](int group) { return !kept.contains(group) && groups_.erase(group); });
  }
  const std::map<int, FlightGroup>& all() const { return groups_; }

 private:
  std::map<int, FlightGroup> groups_;
  std::set<int> ended_;  // of them
  int made_ = 0;
};

}  // namespace ringwood
