// What this rank tells those who watch its group, gathered when they ask: nothing is done for it
// before.
//
// Thread safety: use() before the first collective; report() from the control thread, also before
// use().
#pragma once

#include <atomic>
#include <string>

#include "collectives/recorder/recorder.h"
#include "collectives/status/port_counters.h"
#include "collectives/status/rank_report.h"
#include "transports/control/control.h"
#include "transports/mesh.h"

namespace ringwood {

class GroupStatus final {
 public:
  // Both outlive this.
  void use(const Mesh& mesh, const Recorder& recorder);
  // As Control::Handlers::report. `error`: with which the group has ended, or "".
  std::string report(const OpStatuses& op_statuses, const std::string& error) const;

 private:
  void add_records(RankReport& report, const OpStatuses& op_statuses) const;
  void add_paths(RankReport& report, const Mesh& mesh) const;

  std::atomic<const Mesh*> mesh_{nullptr};
  const Recorder* recorder_ = nullptr;  // set before mesh_
  PortCounters ports_;
  int64_t begun_ns_ = 0;
};

}  // namespace ringwood
