// Where a tuning file lies, and whether it is the right one.
//
// RINGWOOD_TUNING_FILE names a file; or a folder, in which files are named by their fingerprints
// (tuning_file.h); or says "off". By default the folder is that of the cache (cache_directory()).
// Nothing here throws for what a file has in it: what is wrong is a sentence.
//
// In the cache a file must belong to this user or to root: others may be able to write there, if
// the cache is a folder in /tmp. A folder or a file that the user has named is trusted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/tuner/tuning/tuning_file.h"
#include "transports/base/options.h"

namespace ringwood {

// A file is named, or there may be one in the folder: cheap, without a look into it.
bool may_be_tuned(const std::string& knob);

struct FoundTuning {
  std::string path;
  std::string text;                // of the file to be used; empty: there is none
  std::optional<TuningFile> file;  // the same
  std::string refusal;             // why it is not used, with a remedy; empty: there is none
  int ranks = 0;                   // of the groups that it is for, as far as it can be read
  bool expected = false;           // named by the user, or by its fingerprint made for this group
};
FoundTuning find_tuning(const std::string& knob, const TuningFingerprint& now);
// The file `found.file`, if it is for this group; `now.knobs`: with the settings of its links.
void judge_tuning(FoundTuning& found, const TuningFingerprint& now);
// "tuning file PATH is not used: WHY; run ringwood tune again, or ...".
std::string refusal_of(const std::string& path, const std::string& why);

// The file that is named; or of a folder those whose names are of groups of so many ranks, the
// newest first, at most kMaxLookedAt, and none that is not trusted.
inline constexpr int kMaxLookedAt = 16;
std::vector<std::string> tuning_paths(const std::string& knob, int ranks);

// That of the knob, or of the cache for "off", "" and a file. Throws Error(invalid_argument) where
// there is none.
std::string tuning_folder(const std::string& knob);
// The path at which find_tuning() looks in a folder.
std::string tuning_path(const std::string& folder, const TuningFingerprint& fingerprint);
// That of the knob or the cache for a new file; throws Error(invalid_argument) where there is none.
std::string new_tuning_path(const std::string& knob, const TuningFingerprint& fingerprint);
// A file of at most kMaxTuningText bytes; throws Error(invalid_argument) with the reason, without
// its name.
std::string read_tuning_text(const std::string& path);
// Replaced as a whole, readable by others. Throws Error(invalid_argument).
void write_tuning_file(const std::string& path, const TuningFile& file);

// The knobs that decide how fast the links of a group are, in one word.
std::string link_knobs(const Options& options);
// The hosts' facts (network_facts.h), each kind once.
std::string hardware_of(const std::vector<std::string>& facts);

}  // namespace ringwood
