// The text form of a tuning file.
#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/machine/machine_model.h"
#include "collectives/tuner/machine/places.h"
#include "collectives/tuner/tuning/tuning_file.h"
#include "collectives/tuner/tuning/tuning_line.h"
#include "transports/base/error.h"

namespace ringwood {
namespace {

constexpr std::string_view kVersion = "ringwood-tuning-1";
constexpr const char* kAbout =
    "# Made by `ringwood tune`. What is in no range is chosen by prediction. Ranges may be "
    "deleted,\n"
    "# and their sizes, use= and segments= edited; a range of your own needs no proof and no "
    "point.\n"
    "# What was not measured is proved when the file is loaded, and called edited.\n"
    "# `links`: set for all ranks, unless a variable or option of a rank sets it.\n"
    "# `ringwood tune --diff FILE default` shows what this file changes.\n";
constexpr size_t kMaxHardware = 16 << 10;
constexpr size_t kMaxTunedBytes = size_t{1} << 46;
constexpr size_t kFewChunks = 1 << 10, kMaxOwnWork = 1 << 22;

std::string print_time(const MeasuredTime& t) {
  return fmt::format("{:.6g},{:.6g},{:.6g}", t.median * 1e6, t.low * 1e6, t.high * 1e6);
}

class Parser {
 public:
  Parser(std::string_view text, TunedNames names) : text_(text), names_(names) {}

  TuningFile parse() {
    if (text_.size() > kMaxTuningText)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} bytes are more than the {} allowed; tune fewer sizes",
                              text_.size(), kMaxTuningText));
    if (next_line() != kVersion)
      Line("", 1).refuse(fmt::format("it does not begin with {}", kVersion));
    while (!text_.empty()) {
      const std::string_view whole = next_line();
      Line line(whole, number_);
      if (line.kind().empty() || line.kind().front() == '#') continue;
      read(line);
    }
    if (!grouped_) Line("", number_).refuse("there is no line 'group'");
    if (names_ == TunedNames::of_this_version)
      for (const auto& [at, range] : named_) check_names(at, file_.ranges[range]);
    check_overlaps();
    return std::move(file_);
  }

 private:
  std::string_view next_line() {
    ++number_;
    return cut(text_, '\n');
  }

  void read(Line& line) {
    if (line.kind() == "hardware") {
      if (line.rest().size() > kMaxHardware) line.refuse("the hardware is too long");
      file_.fingerprint.hardware = printable(std::string(line.rest()));
      return;
    }
    if (line.kind() == "machine") {
      const auto parsed = line.guarded([&] { return parse_machine_model(line.rest()); });
      file_.machine = ringwood::print(parsed);
      return;
    }
    if (line.kind() == "links") {
      if (!file_.links.empty()) line.refuse("a second line 'links'");
      file_.links = line.guarded([&] { return parse_link_settings(line.rest()); });
      if (file_.links.empty()) line.refuse("it has no settings");
      return;
    }
    line.split();
    if (line.kind() == "made")
      read_made(line);
    else if (line.kind() == "group")
      read_group(line);
    else if (line.kind() == "range")
      read_range(line);
    else if (line.kind() == "proof")
      read_proof(line);
    else if (line.kind() == "point")
      read_point(line);
    else if (line.kind() == "schedule")
      read_schedule(line);
    else
      line.refuse(fmt::format("'{}' is not known", line.kind().substr(0, kMaxShown)));
    line.end();
  }

  void read_made(Line& line) {
    file_.measured = line.word("measured");
    file_.version = line.word("version");
    file_.seed = line.number<uint64_t>("seed", 0, UINT64_MAX);
  }

  void read_group(Line& line) {
    if (grouped_) line.refuse("a second group");
    grouped_ = true;
    TuningFingerprint& f = file_.fingerprint;
    const int ranks = line.number("ranks", 2, kMaxPlaces);
    f.hosts = line.guarded([&] { return parse_places("hosts", line.take("hosts")); });
    f.nodes = line.guarded([&] { return parse_places("nodes", line.take("nodes")); });
    f.knobs = line.word("knobs");
    f.table = line.hash("table");
    const auto count = static_cast<size_t>(ranks);
    if (f.hosts.size() != count || (!f.nodes.empty() && f.nodes.size() != count))
      line.refuse(fmt::format("hosts= or nodes= do not place {} ranks", ranks));
  }

  static std::string row_named(const std::string& word) { return word == "default" ? "" : word; }

  void read_range(Line& line) {
    if (!grouped_) line.refuse("a range before the line 'group'");
    if (file_.ranges.size() == kMaxTunedRanges) line.refuse("too many ranges");
    TunedRange& r = file_.ranges.emplace_back();
    r.collective = line.guarded([&] { return parse_collective(line.take("collective")); });
    const bool rooted = has_root(r.collective);
    r.root = line.number("root", 0, rooted ? file_.fingerprint.ranks() - 1 : 0);
    r.rounded = line.one_of("types", {"exact", "rounded"}) == 1;
    r.from = line.number<size_t>("from", 0, kMaxTunedBytes);
    r.to = line.number<size_t>("to", r.from, kMaxTunedBytes);
    r.tolerance = line.number("tolerance", 0.0, 0.999);
    r.algorithm = row_named(line.word("use"));
    r.segments = line.number("segments", 1, kMaxTunedSegments);
    r.wire = static_cast<WireFormat>(line.one_of(
        "wire",
        {to_string(WireFormat::exact), to_string(WireFormat::bf16), to_string(WireFormat::int8)}));
    if (r.wire != WireFormat::exact && r.tolerance == 0)
      line.refuse("a wire format needs a tolerance");
    named_.emplace_back(line, file_.ranges.size() - 1);
  }

  TunedRange& range_of(Line& line) {
    if (file_.ranges.empty()) line.refuse(fmt::format("'{}' before any range", line.kind()));
    return file_.ranges.back();
  }

  void read_proof(Line& line) {
    TunedRange& r = range_of(line);
    // Files of the first versions do not have it.
    r.proved = line.has("row") ? row_named(line.word("row")) : r.algorithm;
    r.proved_segments =
        line.has("segments") ? line.number("segments", 1, kMaxTunedSegments) : r.segments;
    r.verified = line.one_of("verified", {"no", "yes"}) == 1;
    line.number("ranks", file_.fingerprint.ranks(), file_.fingerprint.ranks());
    r.schedule = line.hash("schedule");
    if (line.number("wrong", int64_t{0}, INT64_MAX) != 0)
      line.refuse("its results were wrong: it must not be used");
    r.with = line.word("with");
  }

  void read_point(Line& line) {
    TunedRange& r = range_of(line);
    if (++points_ > kMaxTunedPoints) line.refuse("too many points");
    TunedPoint& p = r.points.emplace_back();
    p.bytes = line.number<size_t>("bytes", 0, kMaxTunedBytes);
    p.time = line.time("us");
    std::string name = line.word("default");
    const size_t slash = name.rfind('/');
    if (slash == name.npos) line.refuse("default= is not NAME/SEGMENTS");
    p.default_segments =
        line.parsed("default", std::string_view(name).substr(slash + 1), 1, kMaxTunedSegments);
    p.default_algorithm = name.substr(0, slash);
    p.default_time = line.time("default_us");
    p.repetitions = line.number("repetitions", 1, 1 << 30);
  }

  void read_schedule(Line& line) {
    if (file_.schedules.size() == kMaxTunedSchedules) line.refuse("too many schedules");
    const std::string name = line.word("name");
    const Collective collective =
        line.guarded([&] { return parse_collective(line.take("collective")); });
    const int root = line.number("root", 0, std::max(0, file_.fingerprint.ranks() - 1));
    const auto lines = line.number("lines", 1, static_cast<int>(kMaxTuningText));
    const char* const begin = text_.data();
    for (int i = 0; i < lines && !text_.empty(); ++i) next_line();
    const std::string_view body(begin, static_cast<size_t>(text_.data() - begin));
    if (name.empty() || name == "default" || find_algorithm(collective, name))
      line.refuse(fmt::format("name={} is taken by the table of algorithms", name));
    for (const TunedSchedules& other : file_.schedules)
      if (other.name == name) line.refuse(fmt::format("a second schedule {}", name));
    file_.schedules.push_back({name, line.guarded([&] { return proved(collective, body, root); })});
  }

  // The proof takes memory for each chunk of each rank, and time for each chunk of each step, so
  // those are counted first.
  std::shared_ptr<const ProvedSchedules> proved(Collective collective, std::string_view text,
                                                int root) const {
    std::vector<Schedule> all = parse_schedules(text);
    size_t chunks = 0, work = 0;
    for (const Schedule& s : all) {
      chunks += static_cast<size_t>(s.chunks) + s.scratch.size();
      for (const Step& step : s.steps)
        work += static_cast<size_t>(std::max(step.src.count, step.dst.count));
    }
    if (all.size() != file_.fingerprint.hosts.size())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("these schedules are for {} ranks, not {}", all.size(),
                              file_.fingerprint.ranks()));
    if (chunks > std::max(kFewChunks, text.size()) || work > kMaxOwnWork)
      throw Error(ErrorCode::invalid_argument,
                  "these schedules have more chunks than a tuning file may");
    return ProvedSchedules::create(collective, std::move(all), root);
  }

  void check_names(const Line& line, const TunedRange& r) {
    if (r.algorithm.empty()) return;
    const TuningFingerprint& f = file_.fingerprint;
    if (const auto own = own_schedules(file_, r)) {
      if (own->root() != r.root || r.wire != WireFormat::exact)
        line.refuse(fmt::format("schedule {} has another root, or no wire format", r.algorithm));
      return;
    }
    const AlgorithmRow* const row = find_algorithm(r.collective, r.algorithm);
    if (!row || !row->accepts({0, f.ranks(), r.root, f.hosts, f.nodes}))
      line.refuse(fmt::format("there is no algorithm '{}' for {} with {} ranks on these hosts",
                              r.algorithm.substr(0, kMaxShown), to_string(r.collective),
                              f.ranks()));
  }

  void check_overlaps() const {
    std::vector<const TunedRange*> order;
    for (const TunedRange& r : file_.ranges) order.push_back(&r);
    const auto key = [](const TunedRange& r) {
      return std::tuple(r.collective, r.root, r.rounded, r.tolerance, r.from);
    };
    std::ranges::sort(order, [&](auto* a, auto* b) { return key(*a) < key(*b); });
    for (size_t i = 1; i < order.size(); ++i) {
      const TunedRange &a = *order[i - 1], &b = *order[i];
      if (std::tuple(a.collective, a.root, a.rounded, a.tolerance) ==
              std::tuple(b.collective, b.root, b.rounded, b.tolerance) &&
          b.from <= a.to)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("the ranges of {} from {} and from {} overlap; "
                                "correct it, or run ringwood tune again",
                                to_string(a.collective), a.from, b.from));
    }
  }

  std::string_view text_;
  const TunedNames names_;
  int number_ = 0;
  size_t points_ = 0;
  bool grouped_ = false;
  TuningFile file_;
  std::vector<std::pair<Line, size_t>> named_;  // ranges, with their lines
};

std::string print(const TunedPoint& p) {
  return fmt::format("  point bytes={} us={} default={}/{} default_us={} repetitions={}\n", p.bytes,
                     print_time(p.time), p.default_algorithm, p.default_segments,
                     print_time(p.default_time), p.repetitions);
}

std::string named_row(const std::string& row) { return row.empty() ? "default" : row; }

std::string print(const TunedRange& r, int ranks) {
  std::string text = fmt::format(
      "range collective={} root={} types={} from={} to={} tolerance={} use={} segments={} "
      "wire={}\n",
      to_string(r.collective), r.root, r.rounded ? "rounded" : "exact", r.from, r.to, r.tolerance,
      named_row(r.algorithm), r.segments, to_string(r.wire));
  // A range of somebody's own has none.
  if (!r.proved.empty() || !r.with.empty())
    text += fmt::format(
        "  proof row={} segments={} verified={} ranks={} schedule={:016x} wrong=0 with={}\n",
        named_row(r.proved), r.proved_segments, r.verified ? "yes" : "no", ranks, r.schedule,
        r.with);
  for (const TunedPoint& p : r.points) text += print(p);
  return text;
}

}  // namespace

std::string print(const TuningFile& file) {
  const TuningFingerprint& f = file.fingerprint;
  std::string text = fmt::format(
      "{}\n{}made measured={} version={} seed={}\n"
      "group ranks={} hosts={} nodes={} table={:016x} knobs={}\nhardware {}\n",
      kVersion, kAbout, file.measured, file.version, file.seed, f.ranks(), print_places(f.hosts),
      print_places(f.nodes), f.table, f.knobs, f.hardware);
  if (!file.links.empty()) text += fmt::format("links {}\n", print(file.links));
  if (!file.machine.empty()) text += fmt::format("machine {}\n", file.machine);
  for (const TunedRange& range : file.ranges) text += print(range, f.ranks());
  for (const TunedSchedules& own : file.schedules) {
    std::string body;
    for (const Schedule& s : own.schedules->schedules()) body += print(s);
    text += fmt::format("schedule name={} collective={} root={} lines={}\n{}", own.name,
                        to_string(own.schedules->collective()), own.schedules->root(),
                        std::ranges::count(body, '\n'), body);
  }
  return text;
}

TuningFile parse_tuning_file(std::string_view text, TunedNames names) {
  return Parser(text, names).parse();
}

}  // namespace ringwood
