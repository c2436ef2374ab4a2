// Chooses the algorithm and the number of segments with the lowest predicted cost (cost.h).
//
// Every rank must make the same choice, so it is computed only from what all ranks know alike:
// the collective, bytes, type, group size, and the parameters of the group's machines
// (machine_model.h), which one rank sends to the others. The fingerprint detects a rank with
// other options.
//
// Sizes are costed in classes, eight for each doubling, so that a sweep of sizes need not cost each
// anew. All roots cost the same here: root 0 stands for all. Where a tuning file says what was
// measured (tuning_file.h), a Chooser takes that, and predicts nothing.
//
// The first choice in a class takes this time of a core, measured on a loaded machine with 7
// collectives of 6 sizes and hosts of 8: 2 ranks 1.0 ms in the mean and 5 at most, 8 ranks 1.3 and
// 9, 128 ranks 6.2 and 11, 1,024 ranks 7.7 and 24, 16,384 ranks 17 and 67. A Chooser keeps what
// it finds out about rows, and choices: later ones are a look-up.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/choice/cost_candidates.h"
#include "collectives/kernels/reduce.h"
#include "collectives/machine/machine_model.h"
#include "collectives/schedule/schedule.h"
#include "collectives/tuning/tuning_file.h"
#include "transports/base/options.h"

namespace ringwood {

struct TuningQuery {
  Collective collective = Collective::all_reduce;
  size_t bytes = 0;  // of the whole buffer, or of one block; uneven: the mean, or 0
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;  // only a tuning file tells them apart
  int n = 1;
  bool several_hosts = false;             // without a machine model: each rank on its own host
  bool uneven = false;                    // block sizes differ
  double tolerance = 0;                   // RINGWOOD_TOLERANCE, or the call's
  const MachineModel* machine = nullptr;  // null: default_machine_model()
};
struct TuningChoice {
  std::string algorithm;
  int segments = 1;
  WireFormat wire = WireFormat::exact;
  double seconds = 0;  // predicted for private buffers of the size's class; 0: not known
  // Of a tuning file: the range that says so, which is its memory, and schedules of its own, with
  // kUserSchedules as the algorithm; else null.
  const TunedRange* tuned = nullptr;
  std::shared_ptr<const ProvedSchedules> own = nullptr;
  // Whether the same is run.
  bool operator==(const TuningChoice& o) const {
    return algorithm == o.algorithm && segments == o.segments && wire == o.wire && own == o.own;
  }
};

// The documented parameters of machine_model.h, with a core for every rank.
MachineModel default_machine_model(int n, bool several_hosts);

// Whether RINGWOOD_ALGORITHM names a row of the collective.
bool names_row(const Options& options, Collective collective);
// Throws Error(invalid_argument) for one of 1 and more.
void check_tolerance(const TuningQuery& query);

// The bytes that represent a class: its smallest size. Powers of two represent themselves.
size_t size_class(size_t bytes);

// `algorithm` and `segments` of the call override the options', which override the choice. Throws
// Error(invalid_argument) for a name that is not in the table or does not accept n, listing those
// that do, and for a tolerance of 1 and more. `profiles`: of the query's machine model and ranks,
// which keep what is found out about rows; null: it is found anew.
// - 16- and 8-bit floats are added in fp32; rows that round them more than once per level have to
//   be so much faster (CandidateQuery::Rounding), unless the user names one. Averages of integers
//   are added by one owner per element, where a row does that, and are exact then.
// - Within the query's tolerance, and unless the options want reproducible results, a wire format
//   is chosen with the row where that is faster; also for a row that the user names.
// - Blocks of different sizes, where all ranks know them, are costed by their mean, among the rows
//   that accept any sizes; where only pairs know them, as blocks of 64 KiB each, in one segment. A
//   row for blocks of one size that the options name is ignored then.
TuningChoice choose(const TuningQuery& query, const Options& options,
                    const std::string& algorithm = "", int segments = 0,
                    RowProfiles* profiles = nullptr);

// Every row, with its predicted time for the query's size class; the chosen one is that
// of choose().
std::vector<Candidate> explain(const TuningQuery& query, const Options& options,
                               const std::string& algorithm = "", int segments = 0,
                               RowProfiles* profiles = nullptr);
// "ring", or "ring+bf16".
std::string name_of(const std::string& algorithm, WireFormat wire);
// A table, best first, one line for each candidate.
std::string print(std::vector<Candidate> candidates);

// choose() with a cache, for one group. Thread-safe.
class Chooser final {
 public:
  // `tuning`: null, or of a group with this fingerprint.
  Chooser(MachineModel machine, const Options& options,
          std::shared_ptr<const TuningFile> tuning = nullptr);
  ~Chooser();
  // The query's machine model is replaced by the chooser's. A tuning file's range is taken where
  // neither call nor options name a row or segments, block sizes are alike, and results need not be
  // reproducible.
  TuningChoice choose(TuningQuery query, const std::string& algorithm = "", int segments = 0);
  std::vector<Candidate> explain(TuningQuery query);
  const MachineModel& machine() const { return machine_; }

 private:
  using Key = std::tuple<Collective, size_t, DataType, ReduceOp, int, bool, double, std::string,
                         int, const TunedRange*>;
  RowProfiles& profiles(int n);
  const TunedRange* tuned_range(const TuningQuery& query, const std::string& algorithm,
                                int segments) const;
  // What the range says, where that can be.
  TuningChoice tuned_choice(const TuningQuery& query, const TunedRange& range);
  void explain_tuned(const TuningQuery& query, const TunedRange& range,
                     std::vector<Candidate>& candidates);

  const MachineModel machine_;
  const Options options_;
  const std::shared_ptr<const TuningFile> tuning_;
  std::mutex mutex_;
  std::map<Key, TuningChoice> choices_;
  std::map<int, std::unique_ptr<RowProfiles>> profiles_;  // by ranks
};

}  // namespace ringwood
