#include "tools/tune/tune_diff.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/machine/machine_model.h"
#include "collectives/tuner/machine/places.h"
#include "collectives/tuner/tuning/find_tuning.h"
#include "tools/command/text_files.h"
#include "tools/prediction.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

// A or B.
struct Side {
  std::string name;
  std::optional<TuningFile> file;
  std::optional<MachineModel> machine;  // by which it predicts
};

// What is compared: the fields of TunedCall.
struct Place {
  Collective collective;
  int root;
  bool rounded;
  double tolerance;
  size_t bytes;
  auto operator<=>(const Place&) const = default;
};

struct Choice {
  std::string algorithm;
  int segments = 1;
  std::string name;  // "ring/4"
};

std::string name_of_choice(const std::string& algorithm, int segments) {
  return segments == 1 ? algorithm : fmt::format("{}/{}", algorithm, segments);
}

struct Difference {
  Place place;
  Choice before, after;
  std::optional<double> before_seconds, after_seconds;
  std::string basis;  // "measured", "predicted", or ""
};

Side read_side(const std::string& word) {
  Side side;
  side.name = word;
  if (word == "default") return side;
  std::string text;
  try {
    text = read_tuning_text(word);
    if (text.starts_with("ringwood-tuning-")) {
      // Rows of another version have names that this one may not know.
      side.file = parse_tuning_file(text, TunedNames::any);
      if (!side.file->machine.empty()) side.machine = parse_machine_model(side.file->machine);
      if (side.machine) side.machine->hosts = side.file->fingerprint.hosts;
      return side;
    }
  } catch (const Error& error) {
    refuse(fmt::format("--diff {}: {}", word, error.cause));
  }
  side.machine = read_parameters_from(word, Options()).machine;
  return side;
}

class Comparison {
 public:
  Comparison(const DiffOptions& options, Side before, Side after)
      : options_(options), before_(std::move(before)), after_(std::move(after)) {
    if (!before_.machine) before_.machine = after_.machine;
    if (!after_.machine) after_.machine = before_.machine;
    if (!before_.machine) before_.machine = after_.machine = MachineModel{};
    place(*before_.machine);
    place(*after_.machine);
    if (before_.machine->hosts.size() != after_.machine->hosts.size())
      refuse(fmt::format("--diff: {} is of {} ranks, and {} of {}", before_.name,
                         before_.machine->hosts.size(), after_.name, after_.machine->hosts.size()));
  }

  std::set<Place> places() const {
    std::set<Place> all;
    for (const Side* side : {&before_, &after_})
      if (side->file)
        for (const TunedRange& r : side->file->ranges)
          for (const TunedPoint& p : r.points)
            if (wanted(r.collective))
              all.insert({r.collective, r.root, r.rounded, r.tolerance, p.bytes});
    if (before_.file || after_.file) return all;
    for (const CollectiveTraits& traits : kCollectiveTraits)
      for (const size_t bytes : options_.sizes)
        if (wanted(traits.collective) && moves_data(traits.collective))
          all.insert({traits.collective, 0, false, 0.0, bytes});
    return all;
  }

  Difference at(const Place& p) const { return compare(p, choice(before_, p), choice(after_, p)); }
  // What is chosen without a file, by the version that made it and by the other one.
  Difference defaults_at(const Place& p) const {
    return compare(p, default_of(before_, p), default_of(after_, p));
  }
  bool has_defaults() const { return before_.file || after_.file; }
  std::string version_of(bool before) const {
    const Side& side = before ? before_ : after_;
    return side.file ? side.file->version : RINGWOOD_VERSION;
  }

  std::string heading() const {
    std::string text =
        fmt::format("# from {} to {}, {} ranks on hosts {}\n", before_.name, after_.name,
                    before_.machine->hosts.size(), print_places(before_.machine->hosts));
    if (!before_.file || !after_.file) return text;
    const std::string differs = difference(before_.file->fingerprint, after_.file->fingerprint);
    if (!differs.empty()) text += fmt::format("# of different groups: {}\n", differs);
    return text;
  }

 private:
  Difference compare(const Place& p, Choice before, Choice after) const {
    Difference d{p, std::move(before), std::move(after), {}, {}, ""};
    if (d.before.name == d.after.name) return d;
    for (const Side* side : {&after_, &before_}) {
      const auto x = measured(*side, p, d.before), y = measured(*side, p, d.after);
      if (!x || !y) continue;
      d.before_seconds = x;
      d.after_seconds = y;
      d.basis = "measured";
      return d;
    }
    d.before_seconds = measured(before_, p, d.before);
    d.after_seconds = measured(after_, p, d.after);
    if (d.before_seconds && d.after_seconds) {
      d.basis = "measured in two runs";
      return d;
    }
    d.before_seconds = predicted(after_, p, d.before);
    d.after_seconds = predicted(after_, p, d.after);
    if (d.before_seconds && d.after_seconds) d.basis = "predicted";
    return d;
  }

  bool wanted(Collective c) const {
    return options_.collectives.empty() || std::ranges::count(options_.collectives, c) > 0;
  }

  // Of a machine model without places: those of the options, or of the other side.
  void place(MachineModel& machine) const {
    if (options_.ranks > 0 || !options_.hosts.empty())
      machine.hosts = places_of({options_.hosts, options_.ranks});
    for (const Side* side : {&before_, &after_})
      if (machine.hosts.empty() && side->file) machine.hosts = side->file->fingerprint.hosts;
    if (machine.hosts.empty()) machine.hosts = places_of({});
  }

  ModelQuery query(const Side& side, const Place& p) const {
    ModelQuery q;
    q.collective = p.collective;
    q.root = p.root;
    q.n = static_cast<int>(side.machine->hosts.size());
    q.bytes = in_blocks(p.collective) ? p.bytes / static_cast<size_t>(q.n) : p.bytes;
    if (p.rounded) q.type = DataType::bfloat16;
    q.tolerance = p.tolerance;
    q.machine = &*side.machine;
    q.several_hosts = host_count(*side.machine) > 1;
    return q;
  }

  Choice choice(const Side& side, const Place& p) const {
    if (side.file)
      if (const TunedRange* r =
              find_range(*side.file, {p.collective, p.root, p.rounded, p.bytes, p.tolerance})) {
        return {r->algorithm, r->segments,
                name_of_choice(ringwood::name_of(r->algorithm, r->wire), r->segments)};
      }
    return default_of(side, p);
  }

  // As the file has recorded it, for sizes that it has measured; else what this version predicts.
  Choice default_of(const Side& side, const Place& p) const {
    if (side.file)
      for (const TunedRange& r : side.file->ranges) {
        if (Place{r.collective, r.root, r.rounded, r.tolerance, p.bytes} != p) continue;
        for (const TunedPoint& point : r.points)
          if (point.bytes == p.bytes)
            return {point.default_algorithm, point.default_segments,
                    name_of_choice(point.default_algorithm, point.default_segments)};
      }
    const TuningChoice c = choose(query(side, p), knobs_);
    return {c.algorithm, c.segments,
            name_of_choice(ringwood::name_of(c.algorithm, c.wire), c.segments)};
  }

  static std::optional<double> measured(const Side& side, const Place& p, const Choice& c) {
    if (!side.file) return {};
    for (const TunedRange& r : side.file->ranges) {
      if (Place{r.collective, r.root, r.rounded, r.tolerance, p.bytes} != p) continue;
      const std::string chosen = name_of_choice(ringwood::name_of(r.algorithm, r.wire), r.segments);
      for (const TunedPoint& point : r.points) {
        if (point.bytes != p.bytes) continue;
        if (!r.algorithm.empty() && !edited(r) && chosen == c.name) return point.time.median;
        if (name_of_choice(point.default_algorithm, point.default_segments) == c.name)
          return point.default_time.median;
      }
    }
    return {};
  }

  static std::optional<double> seconds_of(const std::vector<Candidate>& all, const Choice& c) {
    for (const Candidate& one : all)
      if (one.algorithm == c.algorithm && one.segments == c.segments && !std::isinf(one.seconds))
        return one.seconds;
    return {};
  }
  std::optional<double> predicted(const Side& side, const Place& p, const Choice& c) const try {
    return seconds_of(explain(query(side, p), knobs_, c.algorithm, c.segments), c);
  } catch (const Error&) {
    return {};  // schedules of a file
  }

  const DiffOptions& options_;
  const Options knobs_ = Options::from_environment();
  Side before_, after_;
};

std::string time_text(const std::optional<double>& seconds) {
  if (!seconds) return "-";
  return fmt::format("{:.{}f}", *seconds * 1e6, *seconds < 1e-5 ? 3 : 1);
}

nlohmann::ordered_json json_of(const Difference& d) {
  nlohmann::ordered_json one = {{"collective", to_string(d.place.collective)},
                                {"root", d.place.root},
                                {"types", d.place.rounded ? "rounded" : "exact"},
                                {"tolerance", d.place.tolerance},
                                {"bytes", d.place.bytes},
                                {"before", d.before.name},
                                {"after", d.after.name},
                                {"before_us", nullptr},
                                {"after_us", nullptr},
                                {"worth", nullptr},
                                {"basis", d.basis.empty() ? "unknown" : d.basis}};
  if (d.before_seconds) one["before_us"] = *d.before_seconds * 1e6;
  if (d.after_seconds) one["after_us"] = *d.after_seconds * 1e6;
  if (d.before_seconds && d.after_seconds) one["worth"] = *d.before_seconds / *d.after_seconds;
  return one;
}

// "broadcast root=1 rounded": ranges of one collective differ in more than its name.
std::string name_of_place(const Place& p) {
  std::string text(to_string(p.collective));
  if (p.root != 0) text += fmt::format(" root={}", p.root);
  if (p.rounded) text += " rounded";
  if (p.tolerance > 0) text += fmt::format(" tolerance={}", p.tolerance);
  return text;
}

void print_table(const std::vector<Difference>& changes) {
  if (!changes.empty())
    fmt::print("{:<16} {:>12} {:>24} {:>12} {:>24} {:>12} {:>7}\n", "# collective", "size (B)",
               "before", "time (us)", "after", "time (us)", "worth");
  for (const Difference& d : changes)
    fmt::print("{:<16} {:>12} {:>24} {:>12} {:>24} {:>12} {:>7}  {}\n", name_of_place(d.place),
               d.place.bytes, d.before.name, time_text(d.before_seconds), d.after.name,
               time_text(d.after_seconds),
               d.before_seconds && d.after_seconds
                   ? fmt::format("{:.2f}x", *d.before_seconds / *d.after_seconds)
                   : "-",
               d.basis);
}

nlohmann::ordered_json json_of(const std::vector<Difference>& changes) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Difference& d : changes) rows.push_back(json_of(d));
  return rows;
}

void write_json(const std::string& path, const nlohmann::ordered_json& object) {
  write_all("--json", path, object.dump(2) + "\n");
}

}  // namespace

int run_tune_diff(const DiffOptions& options) {
  const Comparison comparison(options, read_side(options.before), read_side(options.after));
  const std::set<Place> places = comparison.places();
  std::vector<Difference> changes, defaults;
  for (const Place& p : places) {
    if (Difference d = comparison.at(p); d.before.name != d.after.name)
      changes.push_back(std::move(d));
    if (!comparison.has_defaults()) continue;
    if (Difference d = comparison.defaults_at(p); d.before.name != d.after.name)
      defaults.push_back(std::move(d));
  }
  if (options.json)
    write_json(*options.json,
               {{"version", RINGWOOD_VERSION},
                {"before", options.before},
                {"after", options.after},
                {"versions", {comparison.version_of(true), comparison.version_of(false)}},
                {"compared", places.size()},
                {"changes", json_of(changes)},
                {"defaults", json_of(defaults)}});
  if (options.json == "-") return 0;
  fmt::print("{}", comparison.heading());
  print_table(changes);
  fmt::print("# {} of {} sizes change their choice\n", changes.size(), places.size());
  if (!comparison.has_defaults()) return 0;
  fmt::print("# {} of {} sizes change their default, from version {} to {}\n", defaults.size(),
             places.size(), comparison.version_of(true), comparison.version_of(false));
  print_table(defaults);
  return 0;
}

}  // namespace ringwood::tools
