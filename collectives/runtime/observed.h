// What others may know of a group's operations: the control connection, which asks for what runs,
// and those who read the records. See the parts for who may call what.
#pragma once

#include "collectives/recorder/group_trace.h"
#include "collectives/runtime/running_status.h"
#include "collectives/status/group_status.h"

namespace ringwood {

struct Observed {
  explicit Observed(const Options& options)
      : status(options.in_flight), trace(std::make_shared<GroupTrace>(options.trace_dir)) {}

  RunningStatus status;
  const std::shared_ptr<GroupTrace> trace;  // its thread may outlive the group
  GroupStatus watched;
};

}  // namespace ringwood
