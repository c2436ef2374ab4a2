// What an executor waits for, in words for errors: "rank 3 (step 7: recv_reduce of 65536 bytes),
// rank 5 (its fingerprint: ...)".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/plan/plan.h"

namespace ringwood {

class WaitList final {
 public:
  // A peer already in the list keeps its entry: the first thing listed is what it must do first.
  void add_fingerprint(int peer);
  void add_data(int peer, size_t step);
  void add_message(int peer, const Plan& plan, int32_t step);
  // This rank's own device, which is no peer.
  void add_device(const char* what);

  const std::vector<int>& peers() const { return peers_; }
  const std::string& text() const { return text_; }

 private:
  void add(int peer, const std::string& what);

  std::vector<int> peers_;
  std::string text_;
};

}  // namespace ringwood
