// The one pass for a reduction whose operands all lie in memory that can be read and answered in
// place (fusion.h). A part of QueuedExecutor, used by its thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/executors/additions.h"
#include "collectives/executors/peer_link.h"
#include "collectives/executors/plan_execution.h"
#include "transports/base/clock.h"

namespace ringwood {

class FusedPass final {
 public:
  // `additions`: of the same execution; lives as long.
  explicit FusedPass(Additions& additions) : additions_(additions) {}

  // `links`, of Plan::peers, live until the execution has ended.
  void start(const PlanExecution& execution, std::span<QueuedLink> links);

  enum class Attempt {
    waiting,    // for operands, or for what goes before the answers
    done,       // its receives are taken and its sends posted, on all its links
    one_by_one  // its steps are; nothing has been taken
  };
  // When a link shows the first byte of one of its receives. One by one is final: the peers'
  // memory does not allow it, or some operands have waited for the others longer than
  // Plan::fusion_patience.
  Attempt attempt(int32_t fusion);
  // Of all executions: fusions done.
  uint64_t count() const { return count_; }

 private:
  enum class Operand { absent, present, not_in_place };
  Operand look(const Fusion& fusion, size_t k);
  Attempt gather(const Fusion& fusion);
  bool carry_out(const Fusion& fusion);
  void pass_on(const Fusion& fusion, size_t bytes);

  Additions& additions_;
  const PlanExecution* execution_ = nullptr;
  std::span<QueuedLink> links_;
  std::vector<char> one_by_one_;       // by fusion
  Clock::time_point waiting_since_{};  // some peers' operands, for the others'
  std::vector<void*> places_;          // of the fusion at hand, ours first
  std::vector<const void*> operands_;  // likewise
  uint64_t count_ = 0;
};

}  // namespace ringwood
