// The agreement by messages over the links: the plan's exchanges, stage by stage.
#pragma once

#include <vector>

#include "collectives/executors/agreement.h"

namespace ringwood {

class MessageAgreement final : public Agreement {
 public:
  explicit MessageAgreement(int rank) : rank_(rank) {}

  void start(const PlanExecution& execution, std::span<QueuedLink> links) override;
  Status step(bool& progressed, bool& agreed) override;
  bool heard(size_t link) const override {
    const int wanted = links_[link].queue->preambles_in;
    return wanted > 0 && talks_[link].heard == wanted;
  }
  Status check() override;
  void finish() override {}
  void add_waits(WaitList& waits) const override;
  int waits_for() const override;

 private:
  // The exchange with one peer.
  struct Talk {
    Preamble mine[2], theirs[2];  // at most two in each direction
    int heard = 0;
  };

  Status post(const Plan::Exchange& exchange, bool& progressed);
  Status hear(int queue);
  Status wait_for(const Plan::Exchange& exchange, bool& heard);

  const int rank_;
  const PlanExecution* execution_ = nullptr;
  std::span<QueuedLink> links_;
  std::vector<Talk> talks_;  // by link; not moved while their fingerprints are posted
  size_t next_ = 0;          // exchange of the plan that is the first of its stage
};

}  // namespace ringwood
