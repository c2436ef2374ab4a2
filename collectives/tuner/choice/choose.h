// Chooses the algorithm and the number of segments by their predicted cost (cost.h): what loses
// least against the best candidate, for private and for shared buffers (cost_candidates.h has the
// rule).
//
// Every rank must make the same choice, so it is computed only from what all ranks know alike:
// the collective, bytes, type, group size, and the parameters of the group's machines
// (machine_model.h), which one rank sends to the others.
//
// Sizes are costed in classes (size_class() in tuner.h), so that a sweep of sizes need not cost
// each anew. All roots cost the same here: root 0 stands for all.
//
// The first choice of a group for a collective takes this time of a core, on hosts of 8 (540 cases
// of bench/scale/regret): 64 ranks 16 ms in the mean and 79 at most, 256 ranks 28 and 110, 1,024
// ranks 43 and 152; another choice then 12, 17 and 23 in the mean. Most where the operation takes
// long itself, since what is simulated is a part of that. 8 ranks take 0.8 ms.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/kernels/reduce.h"
#include "collectives/schedule/schedule.h"
#include "collectives/tuner/choice/cost_candidates.h"
#include "collectives/tuner/machine/machine_model.h"
#include "collectives/tuner/tuner.h"
#include "transports/base/options.h"

namespace ringwood {

// With the machines that carry it out.
struct ModelQuery : TuningQuery {
  bool several_hosts = false;             // without a machine model: each rank on its own host
  const MachineModel* machine = nullptr;  // null: default_machine_model()
};

// The documented parameters of machine_model.h, with a core for every rank.
MachineModel default_machine_model(int n, bool several_hosts);

// Whether RINGWOOD_ALGORITHM names a row of the collective.
bool names_row(const Options& options, Collective collective);
// Throws Error(invalid_argument) for one of 1 and more.
void check_tolerance(const TuningQuery& query);

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
TuningChoice choose(const ModelQuery& query, const Options& options,
                    const std::string& algorithm = "", int segments = 0,
                    RowProfiles* profiles = nullptr);

// Every row, with its predicted time for the query's size class; the chosen one is that
// of choose().
std::vector<Candidate> explain(const ModelQuery& query, const Options& options,
                               const std::string& algorithm = "", int segments = 0,
                               RowProfiles* profiles = nullptr);
// Of one row, of which this is the choice, what it takes with the query's own bytes, not with those
// of their class. Without a prediction its time is infinite. Throws as choose() does.
Candidate predict_choice(const ModelQuery& query, const Options& options,
                         const TuningChoice& choice, RowProfiles& profiles);
// A choice that is no candidate, as one; without a prediction its time is infinite.
Candidate candidate_of(const TuningChoice& choice);
// The candidate that is `choice` becomes the chosen one, for the reason `why`, and the one that was
// is not, for the reason `why_not`. Where there is none, the one that `missing` returns is added.
void choose_instead(std::vector<Candidate>& candidates, const TuningChoice& choice,
                    const std::function<Candidate()>& missing, std::string why,
                    const std::string& why_not);
// "ring", or "ring+bf16".
std::string name_of(const std::string& algorithm, WireFormat wire);
// A table, one line for each candidate: the chosen one, then the best ones first. `nearest`: the
// five of them that are nearest, and how many more there are.
enum class Shown { nearest, all };
std::string print(std::vector<Candidate> candidates, Shown shown = Shown::all);

}  // namespace ringwood
