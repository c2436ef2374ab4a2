// The tuning file: what `ringwood tune` has measured on a group's hosts, as a text that people read
// and edit. A group that finds it takes its rows where it has some, and predicts elsewhere.
//
//   ringwood-tuning-1
//   made measured=2026-11-23 version=0.1.0 seed=7
//   group ranks=4 hosts=4x1 nodes= table=1f3a5c7788990011 knobs=sockets:0,...
//   hardware AMD EPYC; 2 cores; ...; 10000 Mbit/s; tcp
//   links RINGWOOD_TCP_SOCKETS=8
//   machine ringwood-machine-12 hosts= ...
//   range collective=broadcast root=0 types=exact from=4096 to=65536 tolerance=0 use=chain ...
//     proof row=chain segments=1 verified=yes ranks=4 schedule=99e0... wrong=0 with=...
//     point bytes=8192 us=74.7,73.2,76.1 default=linear/1 default_us=101,99,103 repetitions=9
//   schedule name=mine collective=broadcast root=0 lines=12
//   (the 12 lines of the schedules of all ranks, as in schedule.h)
//
// `links`, which may be left out: settings (link_knobs.h) that all ranks take before they make
// their links, unless their users have chosen others (link_tuning.h). `knobs=` are those with these
// settings.
//
// Sizes are those of `ringwood perf`: of the whole buffer, or of n blocks. Times are median and
// bounds of its interval (medians.h). `use=default`: measured, and the choice without the file was
// the best one; nothing is changed there. A line that begins with '#' is a comment.
//
// Ranges may be written and edited by hand: sizes, `use=`, `segments=`. One whose row or segments
// are not those of its proof, or that has no proof, is edited(): it is proved again where the file
// is found (find_tuning.h), and its times, if any, are not taken for its own.
//
// Bounded and strict: the bytes may be anybody's. What is refused throws Error(invalid_argument)
// with the line and a remedy, but not the file's name. Values are immutable after parsing; any
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/kernels/reduce.h"
#include "collectives/kernels/wire_format.h"
#include "collectives/plan/proved_schedules.h"
#include "collectives/schedule/collective.h"
#include "collectives/tuner/tuning/medians.h"
#include "transports/base/knobs/link_knobs.h"

namespace ringwood {

inline constexpr size_t kMaxTuningText = 1 << 20, kMaxTunedRanges = 1024, kMaxTunedPoints = 4096,
                        kMaxTunedSchedules = 64;
inline constexpr int kMaxTunedSegments = 256;

// What the measurements depend on.
struct TuningFingerprint {
  std::vector<int> hosts;  // by rank, numbered from 0 in the order of first ranks
  std::vector<int> nodes;  // memory nodes, likewise; empty: a host is one
  std::string hardware;    // the kinds of hosts: processors, interfaces, transports in use
  std::string knobs;       // those that decide how fast a link is
  uint64_t table = 0;      // table_hash()
  bool operator==(const TuningFingerprint&) const = default;
  int ranks() const { return static_cast<int>(hosts.size()); }
};
// Of the names of all rows: a version with other algorithms has to be measured anew.
uint64_t table_hash();
// "the hardware is 'x', but was 'y' when it was tuned", or nothing.
std::string difference(const TuningFingerprint& tuned, const TuningFingerprint& now);

// A time measured for a choice.
struct TunedPoint {
  size_t bytes = 0;
  MeasuredTime time;
  // What is chosen without the file, and its time.
  std::string default_algorithm;
  int default_segments = 1;
  MeasuredTime default_time;
  int repetitions = 0;
  bool operator==(const TunedPoint&) const = default;
};

struct TunedRange {
  Collective collective = Collective::all_reduce;
  int root = 0;
  bool rounded = false;     // for types and operations that gains_by_accumulation() (types.h)
  size_t from = 0, to = 0;  // bytes, both included
  double tolerance = 0;     // of the calls that it is for
  std::string algorithm;    // a row, or a schedule of the file; empty: the default
  int segments = 1;
  WireFormat wire = WireFormat::exact;
  bool verified = false;  // the schedules were proved
  // The row or schedule that was measured and proved; another one than `algorithm` where somebody
  // has edited the range, and nothing where it is somebody's own.
  std::string proved;
  int proved_segments = 1;
  uint64_t schedule = 0;  // schedules_hash() of it
  std::string with;       // type, operation, memory
  std::vector<TunedPoint> points;
  bool operator==(const TunedRange&) const = default;
};

struct TunedSchedules {
  std::string name;
  std::shared_ptr<const ProvedSchedules> schedules;
  bool operator==(const TunedSchedules& other) const {
    return name == other.name && schedules->hash() == other.schedules->hash();
  }
};

struct TuningFile {
  std::string measured, version;  // a date, and of ringwood
  uint64_t seed = 0;
  TuningFingerprint fingerprint;
  LinkSettings links;   // that groups take from here
  std::string machine;  // print(MachineModel) of the group, for predictions; or empty
  std::vector<TunedRange> ranges;
  std::vector<TunedSchedules> schedules;
  bool operator==(const TuningFile&) const = default;
};

std::string print(const TuningFile& file);
// Names are those of the table, or of the file's schedules, which are proved here; of another
// version's table, too, where the file is only to be compared. Ranges of one collective, root, kind
// of types and tolerance do not overlap.
enum class TunedNames { of_this_version, any };
TuningFile parse_tuning_file(std::string_view text, TunedNames names = TunedNames::of_this_version);

// Of the text of all ranks' schedules.
uint64_t schedules_hash(std::span<const Schedule> schedules);
// The schedules that a range runs, in one segment; none where ranks are too many to build them all.
std::vector<Schedule> schedules_of(const TuningFile& file, const TunedRange& range);
// Whether somebody has written this range, or its `use=`: its times are of something else, if any.
inline bool edited(const TunedRange& range) {
  return range.proved != range.algorithm ||
         (!range.algorithm.empty() && range.proved_segments != range.segments);
}
// A range that must not be used, as a sentence, or nothing: its row's schedules are no longer those
// that were measured; or it is edited(), and they are not proved here.
std::string objection_to_rows(const TuningFile& file);
// By verify(), up to a bound on the steps of all ranks together; beyond it, and of none: false.
bool proved(Collective collective, const std::vector<Schedule>& all, int root);

// "14 ranges for 3 collectives, measured 2026-11-23", ", 2 edited" where somebody has done so, and
// ", links RINGWOOD_TCP_SOCKETS=8" where it sets some.
std::string summary(const TuningFile& file);

// A call, as far as a range depends on it.
struct TunedCall {
  Collective collective = Collective::all_reduce;
  int root = 0;
  bool rounded = false;
  size_t bytes = 0;  // as in TunedRange
  double tolerance = 0;
};
// Null: nothing but the default.
const TunedRange* find_range(const TuningFile& file, const TunedCall& call);
// The schedules of the file that a range names, or null.
std::shared_ptr<const ProvedSchedules> own_schedules(const TuningFile& file,
                                                     const TunedRange& range);

}  // namespace ringwood
