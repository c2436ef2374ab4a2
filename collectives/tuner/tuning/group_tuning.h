// The tuning file of a group: rank 0's, alike on all ranks.
//
// Rank 0 says in its announcement (mesh.h) whether it may have one. Only then do the first ranks of
// the hosts tell it what their hosts are; it looks for the file (find_tuning.h), says in the log
// whether it is used, and sends its text to all. So a group without one pays for nothing. A file
// that sets the links is looked for before there are any (link_tuning.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/tuner/tuning/link_tuning.h"
#include "collectives/tuner/tuning/tuning_file.h"
#include "transports/base/options.h"
#include "transports/mesh.h"

namespace ringwood {

// One rank's part, while its group is made: in this order, by one thread. `options` outlives it.
class GroupTuning final {
 public:
  // Rank 0 of several looks for files that set links.
  GroupTuning(int rank, int size, const Options& options);

  // Rank 0's of several: its parameters (group_model.h), with the word that it may have a tuning
  // file. Otherwise "".
  std::string announcement() const;
  // For make_mesh(). This object outlives it.
  LinkAgreement links();
  // Then: takes that word from the announcement.
  void unmark(std::string& announcement);
  // The text of the file, alike on all ranks, is text() then; empty: there is none. Collective;
  // throws Error.
  void agree(Mesh& mesh);
  const std::string& text() const { return text_; }

 private:
  LinkSettings decide(const Mesh& mesh, const std::vector<std::string>& told);
  std::string text_for(const TuningFingerprint& now) const;

  const bool announces_;
  const Options& options_;
  std::vector<FoundTuning> link_files_;  // rank 0's
  LinkChoice choice_;                    // rank 0's, of these
  bool marked_ = false;
  std::string text_;
};

// Of that text; null for none.
std::shared_ptr<const TuningFile> parse_tuning(const std::string& text);

// Of a group, with the facts of this rank's host as its hardware; `options` without what rank 0 has
// set the links to, or with it.
TuningFingerprint own_fingerprint(const Mesh& mesh, const Options& options);
// The first rank of each host.
std::vector<int> first_ranks(const std::vector<int>& hosts);

}  // namespace ringwood
