// What rank 0's tuning files set the links of all ranks to, before there are any.
//
//   rank 0: a file for so many ranks has a line "links" (tuning_file.h) -> its announcement asks
//   every rank                                      -> RankFacts, with its introduction
//   rank 0: the newest file that is for these ranks -> its settings, with its own address
//
// A file is for them if its whole fingerprint is theirs, once its settings are made; but for the
// transports in use, which are not known before there are links, and are checked then
// (group_tuning.h). What a user has chosen is never changed: a file that sets it to something else
// is not for these ranks, on whichever of them that is. Nothing here throws for what a file or a
// rank says.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/tuner/machine/probe_messages.h"
#include "collectives/tuner/tuning/find_tuning.h"
#include "transports/base/bytes.h"
#include "transports/base/knobs/link_knobs.h"
#include "transports/base/options.h"

namespace ringwood {

// Of a rank, for rank 0.
struct RankFacts {
  std::string hardware;  // as in a fingerprint, with a word for the transports
  std::string chosen;    // the settings of links that its user has chosen, as a text
};
void fields(auto& io, RankFacts& facts) {
  io.text(facts.hardware, kMaxFacts);
  io.text(facts.chosen, kMaxLinkSettings);
}
RankFacts own_rank_facts(const Options& options);

// Files that may be for groups of so many ranks, the newest first; none, without parsing any, where
// none of them sets links. `knob`: RINGWOOD_TUNING_FILE.
std::vector<FoundTuning> link_files(const std::string& knob, int ranks);

// Which of link_files() sets the links.
struct LinkChoice {
  std::optional<FoundTuning> file;  // with settings; none: all ranks keep theirs
  // Otherwise the first that is not for these ranks, and a sentence that says why.
  std::string path, refusal;
};
// `now`: what is known of the group, with rank 0's options without any settings; `ranks`: of all.
LinkChoice choose_link_file(const std::vector<FoundTuning>& files, const TuningFingerprint& now,
                            const Options& options, const std::vector<RankFacts>& ranks);

}  // namespace ringwood
