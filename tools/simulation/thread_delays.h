// What late and slow ranks add to the delays of waves.h, of which this is a part. Ranks are given
// by their index on their host. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/simulation/delays.h"
#include "tools/simulation/faults.h"
#include "tools/simulation/recording.h"

namespace ringwood {

class ThreadDelays final {
 public:
  // `symmetry` is memory of the caller. `agreed`: as in Traffic. Throws Error(invalid_argument) for
  // a rank that there is not.
  ThreadDelays(const HostSymmetry& symmetry, const Faults& faults, double agreed);

  // When the rank calls, and when it may receive: all have agreed when the last one has called.
  const Delay& call(int rank) const { return late_[rank]; }
  const Delay& agreed() const { return agreed_; }

  // The delays of a job of one thread at its end, from those at its beginning.
  Delay end(const JobRecord& job, const Delay& begun);
  // A flow is slowed down by the threads at both ends, which it takes so many seconds: adds to the
  // delays at its end, which are by sender.
  bool slows(int from, int to) const { return !slow_[from].empty() || !slow_[to].empty(); }
  struct End {
    int rank;
    double seconds;
  };
  void end_flow(const JobRecord& flow, End from, End to, int far, HostDelays& delays);

 private:
  struct Slow {
    int host = 0;
    double times = 1;  // its thread takes that many times as long
    double busy = 0;   // until then, by what it has done
  };
  size_t host_of(int rank) const;
  // What one job adds on a slow host to the delay that it has there.
  template <class DelayOf>
  void add(const JobRecord& job, End end, double thread, const DelayOf& delay_of);

  const HostMoves moves_;
  const HostSymmetry& symmetry_;
  const size_t hosts_;
  std::vector<std::vector<Slow>> slow_;
  std::vector<Delay> late_;
  std::vector<double> busy_;  // by rank: as Slow::busy, in the recording
  Delay agreed_;
};

// The same delay a time later in the recording, where the time in between cannot be made up.
inline Delay after(Delay delay, double seconds) {
  delay.at += seconds;
  return delay;
}

}  // namespace ringwood
