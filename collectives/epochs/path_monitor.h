// Watches what the paths between hosts carry while a group runs, and has the network measured again
// where that is not what was expected (epochs/rate_watch.h, epochs/measuring.h).
//
//   every rank: a path contradicts its parameter, twice in a row  ->  report to rank 0
//   rank 0:     1 s later                       ->  all ranks agree on a number (epochs/epochs.h)
//   all ranks:  before the collective with that number, behind a barrier  ->  the probe
//   rank 0:     another row would be faster by 10 %, or all is as it was at first  ->  a change
//
// The links' own counts only say when to measure: how fast a path seems depends on who else sends,
// and on the peer. The probe knows both. So a false alarm costs up to 0.1 s, and not much more.
//
// Thread safety: the control thread, except use(), measure() and renew(), which any thread may
// call.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/epochs/measuring.h"
#include "collectives/epochs/planner.h"
#include "collectives/epochs/rate_watch.h"
#include "collectives/machine/machine_model.h"
#include "transports/base/options.h"
#include "transports/mesh.h"

namespace ringwood {

class PathMonitor final {
 public:
  explicit PathMonitor(const Options& options) : options_(options), measuring_(options.remeasure) {}

  // The group is set up. `mesh` and its links exist as long as the control thread. Where the
  // options want no measurement, this rank reports nothing, and rank 0 begins none.
  void use(Mesh& mesh);
  // What was expected of the paths does not count any more.
  void renew() { renewed_.store(true); }
  // The probe, by all ranks at the same point of a channel on which nothing is under way. Throws
  // Error.
  void measure(int channel);

  // As Control::Handlers.
  std::vector<PathReport> look();
  void reported(const PathReport& report);
  Proposal next_change(const Planner* planner);
  // As Control::Handlers::abandon.
  void abandoned() { measuring_.give_up(Clock::now()); }

 private:
  struct Watched {
    int peer;
    RateWatch rate;
  };

  // The group's, where paths are watched.
  const Mesh* watched_mesh() const;
  void watch(const Mesh& mesh);

  const Options options_;
  std::atomic<Mesh*> mesh_{nullptr};
  std::atomic<bool> renewed_{false};
  std::vector<Watched> watched_;
  Measuring measuring_;  // rank 0's
  std::mutex mutex_;
  std::optional<NetworkParameters> measured_;  // guarded by mutex_; not weighed yet
};

}  // namespace ringwood
