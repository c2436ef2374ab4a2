#include "tools/tune/tuned_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "collectives/tuner/tuning/find_tuning.h"
#include "collectives/verify/verify.h"
#include "tools/tune/ranges.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

namespace fs = std::filesystem;

// Files are replaced as a whole, so it is the folder that must take them.
void require_folder(const std::string& what, const fs::path& folder) {
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0) return;
  refuse(fmt::format("{}: it cannot be written: {}", what, std::strerror(errno)));
}

void require_file(const std::string& what, const std::string& path) {
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  if (fs::exists(there) && !fs::is_regular_file(there))
    refuse(fmt::format("{}: it is {}; name a file", what,
                       fs::is_directory(there) ? "a folder" : "no plain file"));
  require_folder(what, fs::path(path).parent_path());
}

// A file, or a folder in which groups find it.
void require_file_or_folder(const std::string& what, const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    require_folder(what, path);
  else
    require_file(what, path);
}

// Whether two files have a schedule of this name in common, and it is not the same.
bool another_one(const TuningFile& file, const TunedSchedules& own) {
  return std::ranges::any_of(file.schedules, [&](const TunedSchedules& s) {
    return s.name == own.name &&
           !(s == own && s.schedules->collective() == own.schedules->collective());
  });
}

}  // namespace

void require_outputs(const TuneOptions& tune) {
  if (tune.html) require_file("--html " + *tune.html, *tune.html);
  if (!tune.output.empty()) {
    require_file_or_folder("--output " + tune.output, tune.output);
    return;
  }
  const std::string knob = Options::from_environment().tuning_file;
  if (!knob.empty() && knob != "off") {
    require_file_or_folder("RINGWOOD_TUNING_FILE " + knob, knob);
    return;
  }
  const std::string folder = tuning_folder(knob);
  std::error_code error;
  fs::create_directories(folder, error);
  require_folder(fmt::format("the cache {} (name a file with --output)", folder), folder);
}

std::string output_path(const TuneOptions& tune, const TuningFingerprint& fingerprint) {
  return new_tuning_path(
      tune.output.empty() ? Options::from_environment().tuning_file : tune.output, fingerprint);
}

void prove(TuningFile& file) {
  for (TunedRange& range : file.ranges) {
    if (range.algorithm.empty()) continue;
    const std::vector<Schedule> all = schedules_of(file, range);
    range.schedule = all.empty() ? 0 : schedules_hash(all);
    range.verified = proved(range.collective, all, range.root);
    range.proved = range.algorithm;
    range.proved_segments = range.segments;
  }
}

CarriedOver carry_over(TuningFile& file, const std::string& path) try {
  CarriedOver carried;
  TuningFile before = parse_tuning_file(read_tuning_text(path));
  if (!difference(before.fingerprint, file.fingerprint).empty()) {
    before.fingerprint.knobs = file.fingerprint.knobs;
    if (difference(before.fingerprint, file.fingerprint).empty())
      carried.other_links = before.links;
    return carried;
  }
  // Equal fingerprints: this group's links have these settings.
  if (file.links.empty()) file.links = before.links;
  for (const TunedSchedules& own : before.schedules) {
    if (another_one(file, own)) {
      carried.left_behind += std::erase_if(before.ranges, [&](const TunedRange& r) {
        return r.algorithm == own.name && r.collective == own.schedules->collective();
      });
    } else if (std::ranges::find(file.schedules, own) == file.schedules.end()) {
      file.schedules.push_back(own);
    }
  }
  const size_t count = file.ranges.size();
  file.ranges = merged(before.ranges, file.ranges);
  carried.kept = file.ranges.size() - count;
  return carried;
} catch (const Error&) {
  return {};
}

}  // namespace ringwood::tools
