// NetworkWatch (tuner.h): what the paths between hosts carry while a group runs; the network is
// measured again where that is not what was expected (rate_watch.h, measuring.h).
//
//   who         thread          what
//   every rank  control thread  a path contradicts its rate, twice running: report to rank 0
//   rank 0      control thread  1 s later: all ranks agree on a number (epochs/epochs.h)
//   all ranks   the driver      before the collective with that number, behind a barrier: the probe
//   rank 0      its own         weighs it: another row is faster by 10 %, or all is as at first
//   rank 0      control thread  with the next heartbeat: proposes a change
//
// The links' own counts only say when to measure: how fast a path seems depends on who else sends,
// and on the peer. The probe knows both. So a false alarm costs up to 0.1 s, and not much more.
// Nor is one probe enough: the table changes for a report and a probe, or for two probes that
// agree.
//
// Thread safety: as NetworkWatch; found() and weighs() are for any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/tuner/machine/machine_model.h"
#include "collectives/tuner/tuner.h"
#include "collectives/tuner/watch/measuring.h"
#include "collectives/tuner/watch/rate_watch.h"
#include "transports/base/options.h"
#include "transports/mesh.h"

namespace ringwood {

class PathMonitor final : public NetworkWatch {
 public:
  using Now = Clock::time_point (*)();
  explicit PathMonitor(const Options& options, Now now = &Clock::now)
      : options_(options), now_(now), measuring_(options.remeasure) {}
  ~PathMonitor() override;

  // Where the options want no measurement, this rank reports nothing, and rank 0 begins none.
  void use(Mesh& mesh, std::function<TunerInUse()> in_use) override;
  // RateWatch::renew().
  void renew() override { renewed_.store(true); }
  // The probe, whose result is found().
  void measure(int channel) override;
  // The probe's result, as on all ranks.
  void found(const NetworkParameters& measured);
  // Rank 0: a measurement is weighed, or its outcome not proposed yet.
  bool weighs() const;

  std::vector<PathReport> look() override;
  void reported(const PathReport& report) override;
  Proposal next_change() override;
  void abandoned() override { measuring_.give_up(now_()); }

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
  // What follows from a measurement.
  struct Weighed {
    Found found;
    Proposal change;
  };

  // The group's, where paths are watched.
  const Mesh* watched_mesh() const;
  void watch(const Mesh& mesh);
  void take_over_measured(const Mesh& mesh);
  void start_weighing();
  void weigh_until_stopped();
  // Rank 0's control thread.
  Proposal conclude(Weighed weighed);

  const Options options_;
  const Now now_;
  std::atomic<Mesh*> mesh_{nullptr};
  std::function<TunerInUse()> in_use_;  // set before mesh_
  NetworkParameters first_;             // likewise: those with which the group began
  std::atomic<bool> renewed_{false};
  std::vector<Watched> watched_;
  // Rank 0's, and the last measurement that it has weighed.
  Measuring measuring_;
  std::optional<NetworkParameters> last_;
  // Guarded by mutex_: a measurement that this rank's paths are not compared with yet; one that
  // rank 0 has not begun to weigh yet; and the outcome.
  mutable std::mutex mutex_;
  std::optional<NetworkParameters> news_;
  std::optional<Found> found_;
  std::optional<Weighed> weighed_;
  bool weighing_ = false;
  std::condition_variable weigh_;
  std::atomic<bool> stop_{false};
  std::thread weigher_;  // from the first measurement on
};

}  // namespace ringwood
