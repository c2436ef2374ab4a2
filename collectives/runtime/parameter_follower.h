// This rank's part in a change of parameters (epochs/epochs.h): what the handlers of the control
// connection do.
//
// Thread safety: the control thread, except use(), planner() and measure_if_due(), which any thread
// may call.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "collectives/epochs/path_monitor.h"
#include "collectives/epochs/planner.h"
#include "collectives/runtime/role.h"
#include "collectives/runtime/work_queue.h"
#include "transports/base/clock.h"

namespace ringwood {

class ParameterFollower final {
 public:
  ParameterFollower(Role& role, WorkQueue& queue, const Options& options)
      : role_(role), queue_(queue), timeout_(saturated(options.timeout)), paths_(options) {}

  // Before the first change; without a planner this rank is not ready for any.
  void use(const EngineLock&, std::shared_ptr<Planner> planner) { planner_ = std::move(planner); }
  std::shared_ptr<Planner> planner() const;

  // As Control::Handlers.
  std::optional<uint64_t> prepare(uint32_t epoch, const std::string& parameters);
  bool commit(uint32_t epoch, uint64_t from);
  void abandon(uint32_t epoch);
  // To be called with each heartbeat: how many collectives are submitted in a time.
  void note_pace();

  // To be called when the next number is open and its epoch has been entered. Submits a measurement
  // of the network where the epoch begins with one.
  void measure_if_due(const EngineLock& held, std::shared_ptr<OperationDriver> driver);
  PathMonitor& paths() { return paths_; }

 private:
  struct Measurement {
    uint32_t epoch = 0;
    uint64_t from = 0;
    std::shared_ptr<const Plan> barrier;  // null: there is none
  };

  uint64_t ahead(uint64_t next) const;

  Role& role_;
  WorkQueue& queue_;
  const Duration timeout_;
  PathMonitor paths_;
  std::shared_ptr<Planner> planner_;   // guarded by the engine's lock
  Measurement prepared_;               // the last one
  std::deque<Measurement> committed_;  // guarded by the engine's lock; ascending
  uint64_t noted_ = 0;                 // number of the next collective at that time
  Clock::time_point noted_at_ = Clock::now();
  double pace_ = 0;  // collectives in a second, before
};

}  // namespace ringwood
