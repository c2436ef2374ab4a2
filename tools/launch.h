// Where the ranks of a tool come from: its own children, or the processes of torchrun, mpirun or
// srun.
//
// Forking. The parent makes no thread and no communicator; it forks, waits, and cleans up. Rules
//   1. Whatever ends the parent ends the children (PR_SET_PDEATHSIG), so nothing is left behind.
//   2. The first rank that dies or reports an error is named; the others get a few seconds to say
//      goodbye and are then killed. The exit code is that rank's, or 1 if a signal killed it.
//   3. Ctrl-C, SIGTERM and SIGHUP kill all ranks; the parent cleans up and returns 128 + signal.
//      Where ranks finish by themselves (StopRequest), the first one is handed on to them, and only
//      another one, a second later, kills them.
// Joining. Every process is one rank already; only rank 0 speaks.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "transports/bootstrap/launch.h"
#include "transports/bootstrap/store.h"

namespace ringwood::tools {

struct LaunchOptions {
  int ranks = 0;           // 0: the launcher's, else `needed`, else 2
  int needed = 0;          // what runs is for so many ranks and no others; 0: for any
  bool pin = true;         // own children only: one core per rank where there are enough
  bool finishes = false;   // own children only: they end by themselves when they are asked to
  std::string rendezvous;  // "" = found out; a URL of store.h
  std::chrono::milliseconds init_timeout{0};
};

// Which ranks run, and how; decided before anything is started.
struct LaunchPlan {
  LaunchOptions options;
  LaunchEnvironment environment;
  int ranks = 1;
  bool joins = false;  // this process is rank environment.rank of a launcher's job
  bool speaks() const { return !joins || environment.rank == 0; }
};
// Throws Error(invalid_argument) when the launcher's variables and the options contradict each
// other, or there are not as many ranks as are needed.
LaunchPlan plan_launch(const LaunchOptions& options);

// Throws Error(invalid_argument), which says what to do, unless as many ranks are `given` as
// schedules are for. `launcher` is what has started them; "": they are those of --ranks.
void require_ranks(int needed, int given, const std::string& launcher = "");

// One rank's place in the job.
struct Place {
  int rank = 0, size = 1;
  std::shared_ptr<Store> store;
  // To be called once when all ranks have met over the store: what the rendezvous left on disk is
  // removed.
  std::function<void()> met;
};

// Runs `body` in every rank; its result, or that of an exception (2 for invalid_argument, else 1),
// is the rank's exit code. Returns the command's exit code. Errors are printed to standard error
// here.
int launch(const LaunchPlan& plan, const std::function<int(Place&)>& body);

}  // namespace ringwood::tools
