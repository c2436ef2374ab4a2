// The door to prediction: what runs asks here which algorithm carries out a call, and reports what
// the network carries. Nothing else of collectives/tuner is visible to it (tools/arrows.py).
//
//   while a group is made:  TunerSetup   rank 0's parameters and tuning file become everybody's
//   for each new call:      Tuner        choose(query) -> TuningChoice
//   while it runs:          NetworkWatch look(), measure() -> a Proposal of other parameters,
//                                        by which all ranks choose from one sequence number on
//                                        (epochs/epochs.h): Tuner::with(parameters)
//
// Invariants
// 1. Every rank makes the same choice: a Tuner computes from the query and from what is equal on
//    all ranks. The fingerprint of a call finds a rank with other options.
// 2. A Tuner is immutable, as seen from here. Any thread; a choice that was made before is a
//    look-up, and never waits for one that is being computed.
// 3. Weighing other parameters takes as long as choosing anew for every call in use. It runs on a
//    thread of its own, never on the control thread and never under a lock that a call takes.
//
// A user's tuner (tuner_plugin.h) is asked first, then the tuning file, and prediction where
// neither has an answer.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/kernels/reduce.h"
#include "collectives/kernels/wire_format.h"
#include "collectives/plan/group_facts.h"
#include "collectives/plan/proved_schedules.h"
#include "collectives/schedule/collective.h"
#include "collectives/tuner/candidate.h"
#include "transports/base/options.h"
#include "transports/control/control.h"
#include "transports/mesh.h"

struct ringwood_tuner;  // tuner_plugin.h

namespace ringwood {

struct NetworkParameters;  // machine/machine_model.h
class GroupTuning;         // tuning/group_tuning.h

// A call, as far as the choice depends on it. Equal on all ranks.
struct TuningQuery {
  Collective collective = Collective::all_reduce;
  size_t bytes = 0;  // of the whole buffer, or of one block; uneven: the mean, or 0
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;  // only a tuning file and a user's tuner tell roots apart
  int n = 1;
  bool uneven = false;   // block sizes differ
  double tolerance = 0;  // of the error between hosts; negative: that of the options
};

// What decided. `given`: the call, or its schedules; `only`: there was nothing to choose from.
enum class ChosenBy { prediction, given, options, only, tuning_file, plugin };

struct TuningChoice {
  std::string algorithm;
  int segments = 1;
  WireFormat wire = WireFormat::exact;
  double seconds = 0;  // predicted for private buffers of the size's class; 0: not known
  // Schedules of a tuning file, by what it calls them, with kUserSchedules as the algorithm.
  std::shared_ptr<const ProvedSchedules> own = nullptr;
  std::string own_name = {};
  ChosenBy by = ChosenBy::prediction;
  // Whether the same is run.
  bool operator==(const TuningChoice& o) const {
    return algorithm == o.algorithm && segments == o.segments && wire == o.wire && own == o.own;
  }
};
// "the shortest prediction, 81.3 us".
std::string why(const TuningChoice& choice);

// The bytes that represent a class of sizes, within which the same is chosen: its smallest size.
// Powers of two represent themselves; there are eight classes for each doubling.
size_t size_class(size_t bytes);

// A choice that is used at present.
struct UsedChoice {
  TuningQuery query;
  TuningChoice choice;
};

// Chooses for one group by one set of parameters.
class Tuner {
 public:
  virtual ~Tuner() = default;

  // `algorithm` and `segments` that the call names override the options', which override the
  // choice; "" and 0: none. Throws Error(invalid_argument) for a name that is not in the table or
  // does not accept the ranks, listing those that do, and for a tolerance of 1 and more.
  virtual TuningChoice choose(const TuningQuery& query, const std::string& algorithm = "",
                              int segments = 0) const = 0;
  // Every row of the table with its predicted time; the chosen one is that of choose().
  virtual std::vector<Candidate> explain(const TuningQuery& query) const = 0;
  virtual const GroupFacts& group() const = 0;

  // The tuner by other parameters of the network, as a Proposal has them. Throws
  // Error(invalid_argument).
  virtual std::shared_ptr<const Tuner> with(const std::string& parameters) const = 0;
  // What to do about a network that was measured again: go back to the parameters with which the
  // group began where they describe it, or else take these if another row is then faster by kGain
  // (watch/row_changes.h). Without parameters: nothing. Takes long; ends early, with nothing, once
  // `stop` is set.
  virtual Proposal weigh(const NetworkParameters& measured, const std::vector<UsedChoice>& used,
                         const std::atomic<bool>& stop) const = 0;
};

// One rank's part while its group is made: in this order, by one thread. `options` outlives it.
class TunerSetup final {
 public:
  // Loads the user's tuner. Throws Error(invalid_argument) with the reason.
  TunerSetup(int rank, int size, const Options& options);
  ~TunerSetup();
  // Rank 0's parameters, for make_mesh(); "" on the others.
  std::string announcement() const;
  // For make_mesh(). This object outlives it.
  LinkAgreement links();
  // Then: what else the announcement says is taken from it.
  void read(Mesh& mesh);
  // The ranks agree on the parameters of hosts and network, and on the tuning file. Collective;
  // throws Error.
  void agree(Mesh& mesh);
  std::shared_ptr<const Tuner> tuner(const Mesh& mesh) const;

 private:
  const Options& options_;
  const std::unique_ptr<GroupTuning> tuning_;
  const ringwood_tuner* const plugin_;
};
// The same for a group that announces nothing: the parameters are the defaults, but for those of
// the network. Collective; throws Error.
void agree_on_network(Mesh& mesh, const Options& options);
// The parameters of a group as text, for recordings. After agree().
std::string parameters_of(const Mesh& mesh);

// Who chooses at present, and what is in use.
struct TunerInUse {
  std::shared_ptr<const Tuner> tuner;
  std::vector<UsedChoice> choices;
};

// Watches what the paths between hosts carry while a group runs, and proposes other parameters
// where that is not what was expected (watch/path_monitor.h). Thread safety: the handlers are for
// the control thread, which they never hold up; all else is for any thread.
class NetworkWatch {
 public:
  // Ends its thread. No handler runs any more.
  virtual ~NetworkWatch() = default;
  // The group is set up. `mesh` and its links outlive this object. `in_use` is called on a thread
  // of this object; one without a tuner has nothing to weigh.
  virtual void use(Mesh& mesh, std::function<TunerInUse()> in_use) = 0;
  // The collectives are carried out in another way from now on.
  virtual void renew() = 0;
  // Measures the network, by all ranks at the same point of a channel on which nothing is under
  // way. Throws Error.
  virtual void measure(int channel) = 0;

  // As Control::Handlers.
  virtual std::vector<PathReport> look() = 0;
  virtual void reported(const PathReport& report) = 0;
  virtual Proposal next_change() = 0;
  virtual void abandoned() = 0;
};
std::unique_ptr<NetworkWatch> make_network_watch(const Options& options);

// In place of a Proposal's parameters: the same again, but the epoch begins with measure().
inline constexpr std::string_view kMeasureAgain = "measure again";

}  // namespace ringwood
