// Watches what the paths between hosts carry while a group runs, and has the network measured again
// where that is not what was expected (epochs/rate_watch.h, epochs/measuring.h).
//
//   every rank: a path contradicts its rate, twice in a row  ->  report to rank 0
//   rank 0:     1 s later                       ->  all ranks agree on a number (epochs/epochs.h)
//   all ranks:  before the collective with that number, behind a barrier  ->  the probe
//   rank 0:     another row would be faster by 10 %, or all is as it was at first  ->  a change
//
// The links' own counts only say when to measure: how fast a path seems depends on who else sends,
// and on the peer. The probe knows both. So a false alarm costs up to 0.1 s, and not much more.
// Nor is one probe enough: the table changes for a report and a probe, or for two probes that
// agree.
//
// Thread safety: the control thread, except use(), measure(), found() and renew(), which any thread
// may call.
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
  using Now = Clock::time_point (*)();
  explicit PathMonitor(const Options& options, Now now = &Clock::now)
      : options_(options), now_(now), measuring_(options.remeasure) {}

  // The group is set up. `mesh` and its links exist as long as the control thread. Where the
  // options want no measurement, this rank reports nothing, and rank 0 begins none.
  void use(Mesh& mesh);
  // The collectives are carried out in another way (RateWatch::renew()).
  void renew() { renewed_.store(true); }
  // The probe, by all ranks at the same point of a channel on which nothing is under way. Throws
  // Error.
  void measure(int channel);
  // The probe's result, as on all ranks.
  void found(const NetworkParameters& measured);

  // As Control::Handlers.
  std::vector<PathReport> look();
  void reported(const PathReport& report);
  Proposal next_change(const Planner* planner);
  // As Control::Handlers::abandon.
  void abandoned() { measuring_.give_up(now_()); }

 private:
  struct Watched {
    int peer;
    int port;  // of this host (machine_model.h)
    RateWatch rate;
  };

  struct Found {
    NetworkParameters network;
    Clock::time_point at;
  };

  // The group's, where paths are watched.
  const Mesh* watched_mesh() const;
  void watch(const Mesh& mesh);
  void take_over_measured(const Mesh& mesh);
  // Rank 0: what follows from a measurement.
  Proposal conclude(const Found& found, const Planner& planner);

  const Options options_;
  const Now now_;
  std::atomic<Mesh*> mesh_{nullptr};
  std::atomic<bool> renewed_{false};
  std::vector<Watched> watched_;
  // Rank 0's, and the last measurement that it has weighed.
  Measuring measuring_;
  std::optional<NetworkParameters> weighed_;
  std::mutex mutex_;
  // Guarded by mutex_: a measurement that this rank's paths are not compared with yet, and one that
  // rank 0 has not weighed yet.
  std::optional<NetworkParameters> news_;
  std::optional<Found> found_;
};

}  // namespace ringwood
