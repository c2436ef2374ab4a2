// The tuning file of a run of `ringwood tune`: where it goes, what is proved for it, and what of
// the file before stays in it. What throws, throws Error(invalid_argument).
#pragma once

#include <string>

#include "collectives/tuner/tuning/tuning_file.h"
#include "tools/tune/tune.h"

namespace ringwood::tools {

// Before anything is measured: that the file and the page can be written. Of rank 0's host only,
// where they go.
void require_outputs(const TuneOptions& tune);
// --output, as a file or a folder, or what RINGWOOD_TUNING_FILE says, or the cache.
std::string output_path(const TuneOptions& tune, const TuningFingerprint& fingerprint);

// The hash and the proof of what each range runs.
void prove(TuningFile& file);

// What the file at `path` says about other calls on the same hosts remains, and what it sets the
// links to. Ranges whose schedule has a name that is another one's in `file` are left behind.
struct CarriedOver {
  size_t kept = 0, left_behind = 0;
  // Nothing is kept, because only these settings are not those of this run's links.
  LinkSettings other_links;
};
CarriedOver carry_over(TuningFile& file, const std::string& path);

}  // namespace ringwood::tools
