// Carries out a reduction in one pass over memory where all operands lie in memory that can be
// read, and written with puts, in place (fusion.h). A part of QueuedExecutor, used by its thread.
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
  // `additions` belongs to the same execution and lives as long.
  explicit FusedPass(Additions& additions) : additions_(additions) {}

  // `links`, of Plan::peers, live until the execution has ended.
  void start(const PlanExecution& execution, std::span<QueuedLink> links);

  enum class Attempt {
    waiting,    // for operands, or for messages that precede the puts, or for room
    done,       // its receives are consumed and its sends posted, on all its links
    one_by_one  // its steps must run one by one; nothing has been consumed
  };
  // To be called when a link shows the first byte of one of the fusion's receives. It reads about
  // `room` bytes of each operand, takes them from `room`, and is called again for the rest.
  // one_by_one is final: the memory of the peers does not allow the fusion, or some operands have
  // waited for the others longer than Fusion::patience.
  Attempt attempt(int32_t fusion, size_t& room);
  // Fusions carried out, over all executions.
  uint64_t count() const { return count_; }

 private:
  enum class Operand { absent, present, not_in_place };
  Operand look(const Fusion& fusion, size_t k);
  Attempt gather(const Fusion& fusion);
  // The next bytes from `done` on. False: a peer has given up.
  bool carry_out(const Fusion& fusion, size_t& done, size_t& room);
  void pass_on(const Fusion& fusion, size_t bytes);

  Additions& additions_;
  const PlanExecution* execution_ = nullptr;
  std::span<QueuedLink> links_;
  std::vector<char> one_by_one_;       // by fusion
  std::vector<size_t> done_;           // by fusion: bytes of each operand
  Clock::time_point waiting_since_{};  // since when some peers' operands wait for the others'
  std::vector<void*> places_;          // of the current fusion, this rank's first
  std::vector<const void*> operands_;  // likewise
  uint64_t count_ = 0;
};

}  // namespace ringwood
