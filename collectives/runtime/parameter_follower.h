// This rank's part in a change of parameters (epochs/epochs.h): what the handlers of the control
// connection do.
//
// Thread safety: the control thread, except use() and plan_again(), which any thread may call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "collectives/epochs/planner.h"
#include "collectives/runtime/role.h"
#include "collectives/runtime/work_queue.h"
#include "transports/base/clock.h"

namespace ringwood {

class ParameterFollower final {
 public:
  ParameterFollower(Role& role, WorkQueue& queue) : role_(role), queue_(queue) {}

  // Before the first change; without a planner this rank is not ready for any.
  void use(const EngineLock&, std::shared_ptr<Planner> planner) { planner_ = std::move(planner); }
  std::shared_ptr<Planner> planner() const;

  // As Control::Handlers.
  std::optional<uint64_t> prepare(uint32_t epoch, const std::string& parameters);
  bool commit(uint32_t epoch, uint64_t from);
  void abandon(uint32_t epoch);
  // To be called with each heartbeat: how many collectives are submitted in a time.
  void note_pace();

 private:
  uint64_t ahead(uint64_t next) const;

  Role& role_;
  WorkQueue& queue_;
  std::shared_ptr<Planner> planner_;  // guarded by the engine's lock
  uint64_t noted_ = 0;                // number of the next collective at that time
  Clock::time_point noted_at_ = Clock::now();
  double pace_ = 0;  // collectives in a second, before
};

}  // namespace ringwood
