#include "tools/tune/tune.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <memory>

#include <fmt/format.h>

#include "collectives/kernels/types.h"
#include "collectives/kernels/wire.h"
#include "collectives/runtime/group_parts.h"
#include "collectives/tuner/machine/group_model.h"
#include "collectives/tuner/machine/places.h"
#include "collectives/tuner/tuning/find_tuning.h"
#include "collectives/tuner/tuning/group_tuning.h"
#include "tools/gather.h"
#include "tools/perf/perf_counters.h"
#include "tools/tune/contenders.h"
#include "tools/tune/link_settings.h"
#include "tools/tune/ranges.h"
#include "tools/tune/trials.h"
#include "tools/tune/tune_report.h"
#include "tools/tune/tuned_file.h"

namespace ringwood::tools {
namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  ::gmtime_r(&now, &date);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &date);
  return text;
}

Options group_options(const TuneOptions& tune) {
  Options options = Options::from_environment();
  options.tolerance = tune.tolerance;
  options.tuning_file = "off";  // the default is what is chosen without a file
  return options;
}

std::vector<Collective> collectives_of(const TuneOptions& tune) {
  std::vector<Collective> all;
  for (const OperationRow* row : tune.operations) all.push_back(*row->collective);
  return all;
}

// The hosts of all ranks, and what they are. Collective.
TuningFingerprint fingerprint_of(Communicator& group, const Options& options) {
  TuningFingerprint f = own_fingerprint(parts_of(group).mesh(), options);
  const std::vector<std::string> texts = gather_texts(group, f.hardware);
  std::vector<std::string> facts;
  for (const int rank : first_ranks(f.hosts)) facts.push_back(texts[static_cast<size_t>(rank)]);
  f.hardware = hardware_of(facts);
  return f;
}

// The work of one rank.
class Tuner {
 public:
  Tuner(const TuneOptions& tune, const LinkTuning& links, const std::vector<OwnText>& own,
        Communicator& group, TuneReport* report)
      : tune_(tune), links_(links), own_(own), group_(group), report_(report) {
    fingerprint_ = fingerprint_of(group, links.options);
    seed_ = agreed(static_cast<double>(tune.seed != 0 ? tune.seed & 0xffffffff
                                                      : std::time(nullptr) & 0xffffffff));
    hosts_ = gather_hosts(group);
    points_left_ = tune.operations.size() * tune.sizes.size();
    if (group.rank() == 0) path_ = output_path(tune, fingerprint_);
  }

  // Whether every contender's result was right, and the file is written. What was measured before
  // the group failed is kept.
  bool all() try {
    for (const OperationRow* row : tune_.operations) {
      if (report_) report_->begin(*row);
      TunedCollective& tuned = all_.emplace_back();
      tuned.operation = row;
      size_t last = 0;
      for (const size_t size : tune_.sizes) {
        const size_t count = count_for(*row, size, tune_.type, group_.size());
        if (count == last) {
          --points_left_;
          continue;
        }
        last = count;
        tuned.results.push_back(tune(*row, count));
        --points_left_;
        if (report_) report_->add(*row, tuned.results.back());
      }
    }
    const bool written = group_.rank() != 0 || conclude();
    return written && wrong_ == 0;
  } catch (const Error& error) {
    if (group_.rank() == 0) conclude(error.cause);
    throw;
  }

 private:
  // Rank 0's number at all ranks.
  uint64_t agreed(double mine) {
    double value = group_.rank() == 0 ? mine : 0;
    finish(group_.all_reduce(&value, 1, DataType::float64, ReduceOp::max, synchronous_call()));
    return static_cast<uint64_t>(value);
  }
  double elapsed() { return static_cast<double>(agreed(seconds_since(begin_) * 1e6)) * 1e-6; }
  size_t blocks(const OperationRow& row) const {
    return row.in_blocks() ? static_cast<size_t>(group_.size()) : 1;
  }

  TuneResult tune(const OperationRow& row, size_t count) {
    TuneResult result;
    result.unit = blocks(row) * size_of(tune_.type);
    result.bytes = count * result.unit;
    Call call = call_of(tune_, row, group_, count);
    result.contenders = contenders_for(call, *row.collective, fingerprint_.hosts, own_,
                                       {tune_.factor, tune_.most}, result.predicted);
    if (!result.standard()) {
      result.skipped = "no way to carry it out is known for these ranks";
      return result;
    }
    const double left = tune_.seconds - elapsed();
    const double least = expected_seconds(result.contenders);
    if (least > left) {
      result.skipped =
          fmt::format("it needs about {:.0f} s, and {:.0f} of --seconds {:.0f} are left", least,
                      std::max(0.0, left), tune_.seconds);
      result.contenders.clear();
      return result;
    }
    ContestOptions how{tune_.repetitions, left / static_cast<double>(points_left_), seed_,
                       tune_.tolerance};
    const NetworkCounters counters;
    contest(row, call, result, how);
    for (const HostCounters& of : gather_counters(group_, hosts_, &counters))
      for (const std::string& line : lines_of(of.risen))
        result.counters.push_back(fmt::format("{}: {}", of.host, line));
    return result;
  }

  void contest(const OperationRow& row, Call& call, TuneResult& result, const ContestOptions& how) {
    const CallData data(tune_, row, call);
    Contest contest(row, call, data.pattern(), how);
    contest.measure(result.contenders, [&](const std::string& what) {
      if (report_)
        report_->progress(fmt::format("{} {} B: {}; at most {:.0f} s left", row.name(),
                                      result.bytes, what,
                                      std::max(0.0, tune_.seconds - seconds_since(begin_))));
    });
    for (const Contender& c : result.contenders) wrong_ += c.outcome == Outcome::wrong ? 1 : 0;
  }

  // First runs of all, and the fewest repetitions of two.
  static double expected_seconds(const std::vector<Contender>& contenders) {
    double seconds = 0, incumbent = 0;
    for (const Contender& c : contenders) seconds += 2 * c.predicted;
    for (const Contender& c : contenders)
      if (c.is_default) incumbent = c.predicted;
    return seconds + 2 * kMinRepetitions * incumbent;
  }

  // ---- rank 0's ---------------------------------------------------------------------------------

  TunedRange like(const OperationRow& row) const {
    TunedRange range;
    range.collective = *row.collective;
    range.root = row.rooted() ? tune_.root : 0;
    range.rounded = row.reduces() && gains_by_accumulation(tune_.type, tune_.op);
    range.tolerance = may_encode(*row.collective, tune_.type, tune_.op) ? tune_.tolerance : 0;
    range.with = fmt::format("{},{},{}", to_string(tune_.type),
                             row.reduces() ? to_string(tune_.op) : "none", tune_.memory);
    return range;
  }

  std::string default_at(const OperationRow& row, size_t bytes) const {
    const auto c = group_.choice(*row.collective, bytes / blocks(row), tune_.type,
                                 row.reduces() ? tune_.op : ReduceOp::sum);
    Contender one;
    one.algorithm = c.algorithm;
    one.segments = c.segments;
    for (const WireFormat wire : {WireFormat::exact, WireFormat::bf16, WireFormat::int8})
      if (c.wire == to_string(wire)) one.wire = wire;
    return name_of(one);
  }

  TuningFile file_of() const {
    TuningFile file;
    file.measured = today();
    file.version = RINGWOOD_VERSION;
    file.seed = seed_;
    file.fingerprint = fingerprint_;
    file.links = settings_of(links_);
    file.machine = print(machine_model_of(parts_of(group_).mesh()));
    for (const TunedCollective& tuned : all_) {
      const OperationRow& row = *tuned.operation;
      for (TunedRange& range :
           ranges_of(tuned.results, like(row), [&](size_t at) { return default_at(row, at); }))
        file.ranges.push_back(std::move(range));
    }
    for (const OwnText& text : own_)
      if (std::ranges::any_of(file.ranges, [&](const TunedRange& r) {
            return r.collective == text.collective && r.algorithm == text.own.name;
          }))
        file.schedules.push_back(text.own);
    prove(file);
    return file;
  }

  TuneSummary summary(const std::string& cut_short) const {
    TuneSummary s;
    s.hardware = fingerprint_.hardware;
    s.hosts = print_places(fingerprint_.hosts);
    s.seed = seed_;
    s.seconds = seconds_since(begin_);
    s.wrong = wrong_;
    s.cut_short = cut_short;
    for (const TunedCollective& tuned : all_)
      for (const TuneResult& r : tuned.results)
        ++(!r.skipped.empty()            ? s.skipped
           : !r.incumbent()              ? s.wrong_defaults
           : r.choice() == r.incumbent() ? s.kept
                                         : s.changed);
    return s;
  }

  // What was measured is reported also where the file cannot be written after all.
  bool conclude(const std::string& cut_short = "") {
    TuneSummary s = summary(cut_short);
    if (s.changed + s.kept > 0 || !settings_of(links_).empty()) {
      TuningFile file = file_of();
      const CarriedOver carried = carry_over(file, path_);
      s.carried_over = carried.kept;
      s.left_behind = carried.left_behind;
      s.other_links = print(carried.other_links);
      s.text = print(file);
      try {
        (void)parse_tuning_file(s.text);  // as groups will
        write_tuning_file(path_, file);
        s.path = path_;
      } catch (const Error& error) {
        s.not_written = error.cause;
      }
    }
    if (report_) report_->end(all_, s);
    return s.not_written.empty();
  }

  const TuneOptions& tune_;
  const LinkTuning& links_;
  const std::vector<OwnText>& own_;
  Communicator& group_;
  TuneReport* const report_;
  const Clock::time_point begin_ = Clock::now();
  TuningFingerprint fingerprint_;
  std::vector<HostRanks> hosts_;
  std::string path_;  // of the file; rank 0's
  uint64_t seed_ = 1;
  size_t points_left_ = 1;
  size_t wrong_ = 0;
  std::vector<TunedCollective> all_;
};

// Names are those of the files, and a tuning file has each once.
void require_names(const TuneOptions& tune, const std::vector<OwnText>& own) {
  for (size_t i = 0; i < own.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (own[i].own.name == own[j].own.name)
        refuse(fmt::format("--file {} and --file {}: both schedules would be called {}; rename one",
                           tune.files[j], tune.files[i], own[i].own.name));
}

void validate(const TuneOptions& tune, int ranks, const std::vector<OwnText>& own) {
  require_names(tune, own);
  if (ranks < 2) refuse("one rank has nothing to choose: tune 2 and more, with --ranks");
  if (tune.root < 0 || tune.root >= ranks)
    refuse(fmt::format("--root {} is not one of the ranks 0 to {}", tune.root, ranks - 1));
  for (const OwnText& text : own)
    if (text.own.schedules->size() != ranks)
      refuse(fmt::format("--file: {} is for {} ranks, not {}", text.own.name,
                         text.own.schedules->size(), ranks));
}

}  // namespace

int run_tune(const TuneOptions& tune) {
  const Options options = group_options(tune);
  std::vector<OwnText> own;
  for (const std::string& word : tune.files)
    own.push_back(read_own_text(word, collectives_of(tune), tune.root));
  LaunchOptions launch_options = tune.launch;
  launch_options.init_timeout = options.init_timeout;
  if (!own.empty()) launch_options.needed = own.front().own.schedules->size();
  const LaunchPlan plan = plan_launch(launch_options);
  validate(tune, plan.ranks, own);
  if (plan.speaks()) require_outputs(tune);
  std::unique_ptr<TuneReport> report;
  if (plan.speaks()) report = std::make_unique<TuneReport>(tune, plan.ranks);
  return launch(plan, [&](Place& place) {
    LinkTuning links{options, {}};
    TuneReport* const told = place.rank == 0 ? report.get() : nullptr;
    if (tune.links)
      links = tune_links(place, tune, options, [&](const std::string& what) {
        if (told) told->progress(what);
      });
    if (told) told->add(links);
    const auto group =
        Communicator::create(place.store, place.rank, place.size, links.options, "tune");
    finish(group->barrier());
    place.store.reset();
    place.met();
    Tuner tuner(tune, links, own, *group, told);
    const bool right = tuner.all() && links.wrong() == 0;
    finish(group->barrier());  // no rank leaves before the file is written
    return right ? 0 : 1;
  });
}

}  // namespace ringwood::tools
