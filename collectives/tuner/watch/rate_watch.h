// Whether a path between two ranks still carries what is expected of it. Pure: the caller samples.
//
// Judged are windows in which much was sent, or bytes were on their way for long: 1,000 pieces of
// 64 KiB, or 1 s. Only where two consecutive windows say the same is it reported, once; then that
// rate is what is expected.
//
// What a path carries depends on what else is sent at the time, and so on the collectives in use.
// Hence a first rate is compared with the parameters, and each later one only with the first. Short
// messages say nothing of a rate: they are on their way for the path's latency.
//
// Where a link has several paths and not all of them carry any more, or again, it is reported at
// once.
//
// More than the parameters say is always a contradiction, since nothing but the network limits it.
//
// A measurement of the network answers what was reported, but it may be wrong. Where it finds the
// path as it was before, so is what is expected, and a path that still contradicts is reported
// again; else what is expected changes as the path has. But what a path has never carried is not
// insisted on.
#pragma once

#include <cstddef>
#include <optional>

#include "collectives/tuner/machine/machine_model.h"
#include "transports/link.h"

namespace ringwood {

class RateWatch final {
 public:
  // 1,000 pieces (transports/verbs/data_path.cc), and the times of a window in seconds.
  static constexpr double kWindowBytes = 1000.0 * (64 << 10);
  static constexpr double kMinSeconds = 0.02, kWindowSeconds = 1;
  // A first rate contradicts the parameters beyond the one, and a later one the first beyond the
  // other.
  static constexpr double kContradicts = 0.2, kChanged = 2;
  // Of the parameters' rate, what is still a first rate where the path is shared in an unknown way.
  static constexpr double kOtherwise = (1 - kContradicts) / kChanged;
  // In windows that count, messages are as long on average, or as the path carries in so many
  // latencies.
  static constexpr double kMessage = 64 << 10, kLatencies = 8;

  // `path`: by the parameters. `sharing`: ranks of this host, which may share its rate.
  RateWatch(const PathParameters& path, double sharing) : path_(path), sharing_(sharing) {}

  struct Change {
    double rate, expected;  // bytes/s
  };
  // `port_busy`: the time in which this rank's paths over the same port were busy, added up. Both
  // grow from call to call.
  std::optional<Change> look(const LinkTraffic& total, double port_busy = 0);
  // The network was measured, and this is the path now.
  void measured(const PathParameters& path);
  // The collectives are carried out in another way: the next rate is what is expected, if the
  // parameters allow it at all.
  void renew();

 private:
  double contradicted(double rate, bool above, double at_once) const;

  PathParameters path_;
  const double sharing_;
  LinkTraffic window_;    // the total as the present window began
  double port_busy_ = 0;  // likewise
  double expected_ = 0;   // 0: by the parameters
  // What was expected before it was first reported that it is not so; nothing: all is answered.
  std::optional<double> doubted_;
  double carrying_ = 1;                 // LinkTraffic::carrying
  double min_part_ = 1 - kContradicts;  // of the parameters' rate, for a first rate
  bool restarts_ = false;               // the window
  bool above_ = false;                  // reported: more than the parameters say
  int direction_ = 0;                   // of the last window's rate: -1 too low, 1 too high
};

}  // namespace ringwood
