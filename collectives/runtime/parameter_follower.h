// This rank's part in a change of parameters (epochs/epochs.h): what the handlers of the control
// connection do.
//
// Thread safety: the control thread, except use(), planner() and what concerns the measurement,
// which any thread may call.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "collectives/planner/planner.h"
#include "collectives/runtime/role.h"
#include "collectives/runtime/work_queue.h"
#include "collectives/tuner/tuner.h"
#include "transports/base/clock.h"

namespace ringwood {

class ParameterFollower final {
 public:
  ParameterFollower(Role& role, WorkQueue& queue, const Options& options)
      : role_(role),
        queue_(queue),
        timeout_(saturated(options.timeout)),
        network_(make_network_watch(options)) {}

  // Before the first change; without a planner this rank is not ready for any.
  void use(const EngineLock&, std::shared_ptr<Planner> planner) { planner_ = std::move(planner); }
  std::shared_ptr<Planner> planner() const;

  // As Control::Handlers.
  std::optional<uint64_t> prepare(uint32_t epoch, const std::string& parameters);
  bool commit(uint32_t epoch, uint64_t from);
  void abandon(uint32_t epoch);
  // To be called with each heartbeat: how many collectives are submitted in a time.
  void note_pace();

  // An epoch may begin with a measurement of the network, behind a barrier. Its number, where the
  // next operation begins such an epoch; and its plan, to be made without the lock.
  std::optional<uint32_t> measurement_due(const EngineLock&) const;
  std::shared_ptr<const Plan> barrier_of(uint32_t epoch) const;
  // To be called when that epoch has been entered: submits the measurement.
  void measure(const EngineLock& held, std::shared_ptr<const Plan> barrier,
               std::shared_ptr<OperationDriver> driver);
  NetworkWatch& network() { return *network_; }
  // Ends what runs beside the operations. No handler runs any more.
  void stop() { network_.reset(); }

 private:
  struct Prepared {
    uint32_t epoch = 0;
    uint64_t from = 0;
    bool measures = false;
  };

  uint64_t ahead(uint64_t next) const;

  Role& role_;
  WorkQueue& queue_;
  const Duration timeout_;
  std::unique_ptr<NetworkWatch> network_;
  std::shared_ptr<Planner> planner_;  // guarded by the engine's lock
  Prepared prepared_;                 // the last one
  std::deque<Prepared> measured_;     // committed ones; guarded by the engine's lock; ascending
  uint64_t noted_ = 0;                // number of the next collective at that time
  Clock::time_point noted_at_ = Clock::now();
  double pace_ = 0;  // collectives in a second, before
};

}  // namespace ringwood
