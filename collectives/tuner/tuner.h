// The interface of the tuner. The planner asks here which algorithm a call uses; the engine reports
// here what the network carries. Code outside of collectives/tuner includes no other header of it
// (tools/arrows.py).
//
//   while a group is made:  TunerSetup   rank 0's parameters and tuning file become everybody's
//   for each new call:      Tuner        choose(query) -> TuningChoice
//   while it runs:          NetworkWatch may propose new parameters; all ranks switch to them at
//                                        the same sequence number (epochs/epochs.h), with
//                                        Tuner::with(parameters)
//
// Who decides, in this order: what the call names, RINGWOOD_ALGORITHM, a user's tuner
// (plugin/plugin_tuner.h), a tuning file (model_tuner.h), the prediction (choice/choose.h, of which
// choice/cost_candidates.h picks the row).
//
// Invariants
// 1. Every rank makes the same choice: a Tuner computes from the query and from what is equal on
//    all ranks. A rank whose options differ is found when fingerprints are compared, before data
//    moves.
// 2. Any thread may call a Tuner; its answers never change. A choice made before is only looked up,
//    even while another one is being computed.
// 3. weigh() is slow: it chooses again for every call in use. It runs on a thread of its own, never
//    on the control thread and never under a lock that a call takes.
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
  // Of the whole buffer, or of one block. Blocks of different sizes: their mean; 0 where only pairs
  // of ranks know them.
  size_t bytes = 0;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;  // only a tuning file and a user's tuner tell roots apart
  int n = 1;
  bool uneven = false;  // block sizes differ
  // Allowed relative error of sums between hosts. Negative: Options::tolerance.
  double tolerance = 0;
};

// Who decided. given: the call named a row or brought schedules. only: there was one possibility.
enum class ChosenBy { prediction, given, options, only, tuning_file, plugin };

struct TuningChoice {
  std::string algorithm;
  int segments = 1;
  WireFormat wire = WireFormat::exact;
  double seconds =
      0;  // predicted with private buffers, for the smallest size of the class; 0: unknown
  // If a tuning file brings its own schedules: these, and their name in the file. `algorithm` is
  // kUserSchedules then.
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

// Rounds down to the smallest size of its class. All sizes of a class get the same choice. There
// are eight classes for each doubling.
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

  // `algorithm` and `segments`: named by the call; "" and 0: it names none. Throws
  // Error(invalid_argument) for a name that is not in the table or does not accept the ranks,
  // listing those that do, and for a tolerance of 1 and more.
  virtual TuningChoice choose(const TuningQuery& query, const std::string& algorithm = "",
                              int segments = 0) const = 0;
  // Every row of the table with its predicted time. The one that is marked `chosen` is what
  // choose() returns.
  virtual std::vector<Candidate> explain(const TuningQuery& query) const = 0;
  virtual const GroupFacts& group() const = 0;

  // The tuner by other parameters of the network, as a Proposal has them. Throws
  // Error(invalid_argument).
  virtual std::shared_ptr<const Tuner> with(const std::string& parameters) const = 0;
  // What to do about a network that was measured again. If it is as at the start: the first
  // parameters. Else the measured ones, if they make another row faster by kGain
  // (watch/row_changes.h). Else nothing. Slow; ends early, with nothing, once `stop` is set.
  virtual Proposal weigh(const NetworkParameters& measured, const std::vector<UsedChoice>& used,
                         const std::atomic<bool>& stop) const = 0;
};

// Set-up of one rank. Call the methods in this order, from one thread. `options` outlives it.
class TunerSetup final {
 public:
  // Loads the user's tuner. Throws Error(invalid_argument) with the reason.
  TunerSetup(int rank, int size, const Options& options);
  ~TunerSetup();
  // Rank 0's parameters, for make_mesh(); "" on the others.
  std::string announcement() const;
  // For make_mesh(). This object outlives it.
  LinkAgreement links();
  // After make_mesh(): leaves in mesh.announcement only the parameters.
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
// agree() for a group without a TunerSetup: the network's parameters are measured, all others are
// the defaults. Collective; throws Error.
void agree_on_network(Mesh& mesh, const Options& options);
// The parameters of a group as text, for recordings. After agree().
std::string parameters_of(const Mesh& mesh);

// Who chooses at present, and what is in use.
struct TunerInUse {
  std::shared_ptr<const Tuner> tuner;
  std::vector<UsedChoice> choices;
};

// Watches what the paths between hosts carry while a group runs, and proposes other parameters
// where that is not what was expected (watch/path_monitor.h). Thread safety: the methods at the end
// are called by the control thread only, and return at once; the others by any thread.
class NetworkWatch {
 public:
  // Ends its thread. No handler runs any more.
  virtual ~NetworkWatch() = default;
  // The group is set up. `mesh` and its links outlive this object. in_use() is called on this
  // object's own thread. If its result has no tuner, nothing is weighed.
  virtual void use(Mesh& mesh, std::function<TunerInUse()> in_use) = 0;
  // Call this when the algorithms have changed: rates seen before no longer count.
  virtual void renew() = 0;
  // Measures the network. Collective: all ranks call it at the same point, with nothing under way
  // on `channel`. Throws Error.
  virtual void measure(int channel) = 0;

  // Control::Handlers paths, reported, next_change, and part of abandon.
  virtual std::vector<PathReport> look() = 0;
  virtual void reported(const PathReport& report) = 0;
  virtual Proposal next_change() = 0;
  virtual void abandoned() = 0;
};
std::unique_ptr<NetworkWatch> make_network_watch(const Options& options);

// A Proposal with this text keeps the parameters; its epoch begins with measure(). So a network
// that has changed makes two epochs: one that measures, and one with the new parameters.
inline constexpr std::string_view kMeasureAgain = "measure again";

}  // namespace ringwood
