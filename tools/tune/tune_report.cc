#include "tools/tune/tune_report.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "tools/counted.h"
#include "tools/report/html_report.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kCut = "# ---- 8< ----";

std::string micros(double seconds) {
  const double us = seconds * 1e6;
  return us < 10 ? fmt::format("{:.3f}", us) : fmt::format("{:.{}f}", us, us < 1000 ? 2 : 1);
}

std::string interval(const MeasuredTime& t) {
  return fmt::format("{}..{}", micros(t.low), micros(t.high));
}

std::string words_on(const Contender& c, const TuneResult& r) {
  if (c.outcome == Outcome::wrong) return c.is_default ? "default, wrong" : "wrong";
  if (&c == r.choice()) return c.is_default ? "default, kept" : "chosen";
  return c.is_default ? "default" : to_string(c.outcome);
}

double gain(const TuneResult& r) { return r.incumbent()->time.median / r.choice()->time.median; }

size_t measured_of(const TuneResult& r) {
  return static_cast<size_t>(
      std::ranges::count_if(r.contenders, [](const Contender& c) { return !c.times.empty(); }));
}

Json json_of(const MeasuredTime& t) {
  return {{"median_us", t.median * 1e6}, {"low_us", t.low * 1e6}, {"high_us", t.high * 1e6}};
}

Json json_of(const Contender& c, const TuneResult& r) {
  Json one = {{"algorithm", c.algorithm},        {"segments", c.segments},
              {"wire", to_string(c.wire)},       {"predicted_us", nullptr},
              {"outcome", to_string(c.outcome)}, {"default", c.is_default},
              {"chosen", &c == r.choice()},      {"wrong", c.wrong},
              {"repetitions", c.times.size()}};
  if (c.predicted > 0) one["predicted_us"] = c.predicted * 1e6;
  if (!c.times.empty()) one.update(json_of(c.time));
  return one;
}

Json json_of(const TunedCollective& tuned, const TuneResult& r) {
  Json one = {{"collective", tuned.operation->name()}, {"bytes", r.bytes}};
  if (!r.skipped.empty()) {
    one["skipped"] = r.skipped;
    return one;
  }
  one["default"] = name_of(*r.standard());
  one["chosen"] = r.choice() ? Json(name_of(*r.choice())) : Json();
  one["gain"] = r.choice() ? Json(gain(r)) : Json();
  one["counters"] = r.counters;
  for (const Contender& c : r.contenders) one["contenders"].push_back(json_of(c, r));
  return one;
}

ReportPlot plot_of(const TunedCollective& tuned) {
  ReportPlot plot;
  plot.title = fmt::format("{}: time by size", tuned.operation->name());
  plot.x = {"size", AxisUnit::bytes, 2};
  plot.y = {"time", AxisUnit::microseconds, 10};
  PlotSeries before{"default", {}, {}, true, -1}, after{"tuned", {}, {}, false, -1};
  std::map<std::string, PlotSeries> others;
  for (const TuneResult& r : tuned.results) {
    if (!r.incumbent()) continue;
    const auto x = static_cast<double>(r.bytes);
    before.x.push_back(x);
    before.y.push_back(r.incumbent()->time.median * 1e6);
    after.x.push_back(x);
    after.y.push_back(r.choice()->time.median * 1e6);
    for (const Contender& c : r.contenders) {
      if (c.times.empty()) continue;
      PlotSeries& s = others[c.algorithm];
      s.name = c.algorithm;
      if (!s.x.empty() && s.x.back() == x) {
        s.y.back() = std::min(s.y.back(), c.time.median * 1e6);
        continue;
      }
      s.x.push_back(x);
      s.y.push_back(c.time.median * 1e6);
    }
  }
  plot.series = {after, before};
  for (auto& [name, s] : others) plot.series.push_back(std::move(s));
  plot.note = "Medians of what was measured; an algorithm in its best segments.";
  return plot;
}

Json json_of(const MeasuredKnob& knob) {
  Json one = {{"knob", knob.name}, {"settings", Json::array()}};
  for (const MeasuredSetting& s : knob.settings) {
    Json setting = {{"value", print_setting(knob, s.value)},
                    {"before", &s == &knob.before()},
                    {"taken", s.taken},
                    {"impossible", s.impossible.empty() ? Json() : Json(s.impossible)},
                    {"wrong", s.wrong},
                    {"gain", s.points.empty() ? Json() : Json(s.gain)},
                    {"points", Json::array()}};
    for (const LinkPoint& p : s.points) {
      setting["points"].push_back({{"collective", p.operation}, {"bytes", p.bytes}});
      setting["points"].back().update(json_of(p.time));
    }
    one["settings"].push_back(std::move(setting));
  }
  return one;
}

}  // namespace

std::vector<std::string> not_tuned(bool links) {
  std::vector<std::string> all;
  if (!links)
    all.emplace_back(
        "RINGWOOD_TCP_SOCKETS, RINGWOOD_VERBS_QPS, RINGWOOD_*_RING_BYTES: of the links, for which "
        "groups are made value by value; --links measures them, too");
  for (const char* line :
       {"RINGWOOD_SPIN_US: whether cores are free is the user's to say",
        "RINGWOOD_SEGMENT_BYTES: the segments themselves are tuned",
        "limits of eager slots, of one round and of zero copy: of the machine model, which the "
        "calibration measures",
        "RINGWOOD_TOLERANCE: the user's permission, not a question of speed; --tolerance tunes for "
        "one"})
    all.emplace_back(line);
  return all;
}

TuneReport::TuneReport(const TuneOptions& options, int ranks)
    : options_(options), ranks_(ranks), table_(stdout) {
  if (options.json == "-") table_ = stderr;
  if (options.json) {
    json_ = *options.json == "-" ? stdout : std::fopen(options.json->c_str(), "we");
    if (!json_)
      throw Error(ErrorCode::invalid_argument, fmt::format("--json {}: it cannot be written: {}",
                                                           *options.json, std::strerror(errno)));
  }
}

TuneReport::~TuneReport() {
  progress_.erase();
  if (json_ && json_ != stdout) std::fclose(json_);
}

void TuneReport::add(LinkTuning links) {
  progress_.erase();
  links_ = std::move(links);
  for (const std::string& line : lines_of(links_)) fmt::print(table_, "# {}\n", line);
  std::fflush(table_);
}

void TuneReport::begin(const OperationRow& operation) {
  progress_.erase();
  fmt::print(table_, "# {}, {} ranks\n{:>12} {:>22} {:>12} {:>22} {:>12} {:>6}  {}\n",
             operation.name(), ranks_, "# size (B)", "default", "time (us)", "tuned", "time (us)",
             "gain", "measured, of predicted");
  std::fflush(table_);
}

void TuneReport::add_times(const TuneResult& r) {
  const Contender &before = *r.incumbent(), &after = *r.choice();
  const bool same = &before == &after;
  fmt::print(table_, "{:>12} {:>22} {:>12} {:>22} {:>12} {:>6}  {} of {}, {} repetitions\n",
             r.bytes, name_of(before), micros(before.time.median),
             same ? "the default" : name_of(after), same ? "-" : micros(after.time.median),
             same ? "-" : fmt::format("{:.2f}x", gain(r)), measured_of(r), r.predicted,
             before.times.size());
  if (!same)
    fmt::print(table_, "{:>12} {:>22} {:>12} {:>22}\n", "", interval(before.time), "",
               interval(after.time));
}

void TuneReport::add(const OperationRow&, const TuneResult& r) {
  progress_.erase();
  if (!r.skipped.empty()) {
    fmt::print(table_, "{:>12} not measured: {}\n", r.bytes, r.skipped);
    return;
  }
  if (r.incumbent())
    add_times(r);
  else
    fmt::print(table_, "{:>12} {:>22} nothing is chosen: the result of the default is wrong\n",
               r.bytes, name_of(*r.standard()));
  for (const Contender& c : r.contenders)
    if (c.outcome == Outcome::wrong)
      fmt::print(table_, "  WRONG: {} has {} wrong elements: disqualified\n", name_of(c), c.wrong);
  for (const std::string& line : r.counters) fmt::print(table_, "# {}\n", line);
  std::fflush(table_);
}

void TuneReport::write_json(const std::vector<TunedCollective>& all, const TuneSummary& s) {
  Json rows = Json::array();
  for (const TunedCollective& tuned : all)
    for (const TuneResult& r : tuned.results) rows.push_back(json_of(tuned, r));
  Json links = Json::array();
  for (const MeasuredKnob& knob : links_.knobs) links.push_back(json_of(knob));
  const Json object = {{"version", RINGWOOD_VERSION},
                       {"ranks", ranks_},
                       {"hosts", s.hosts},
                       {"hardware", s.hardware},
                       {"seed", s.seed},
                       {"seconds", s.seconds},
                       {"file", s.path.empty() ? Json() : Json(s.path)},
                       {"cut_short", s.cut_short.empty() ? Json() : Json(s.cut_short)},
                       {"not_written", s.not_written.empty() ? Json() : Json(s.not_written)},
                       {"wrong", s.wrong},
                       {"wrong_defaults", s.wrong_defaults},
                       {"links", std::move(links)},
                       {"rows", std::move(rows)},
                       {"not_tuned", not_tuned(options_.links)}};
  fmt::print(json_, "{}\n", object.dump(2));
  std::fflush(json_);
}

void TuneReport::write_html(const std::vector<TunedCollective>& all, const TuneSummary& s) const {
  HtmlReport page({"What was tuned",
                   fmt::format("{} ranks on hosts {}", ranks_, s.hosts),
                   {{"version", RINGWOOD_VERSION},
                    {"hardware", s.hardware},
                    {"file", s.path},
                    {"seed", std::to_string(s.seed)},
                    {"measured in", fmt::format("{:.0f} s", s.seconds)}}});
  page.add_text(fmt::format("{} sizes have another choice now, {} keep the default, {} were not "
                            "measured; {} contenders had wrong results.",
                            s.changed, s.kept, s.skipped, s.wrong),
                s.wrong > 0 ? Tone::bad : Tone::plain);
  for (const TunedCollective& tuned : all) {
    page.add_heading(tuned.operation->name());
    page.add_plot(plot_of(tuned));
    std::vector<std::vector<std::string>> rows;
    for (const TuneResult& r : tuned.results) {
      if (!r.skipped.empty()) {
        rows.push_back({std::to_string(r.bytes), "not measured: " + r.skipped});
        continue;
      }
      for (const Contender& c : r.contenders)
        if (!c.times.empty() || c.outcome == Outcome::wrong)
          rows.push_back({std::to_string(r.bytes), name_of(c),
                          c.times.empty() ? "-" : micros(c.time.median),
                          c.times.empty() ? "-" : interval(c.time),
                          c.predicted > 0 ? micros(c.predicted) : "-",
                          std::to_string(c.times.size()), words_on(c, r)});
    }
    page.add_table({"size (B)", "algorithm/segments", "median (us)", "95 % (us)", "predicted (us)",
                    "repetitions", "outcome"},
                   rows);
  }
  if (!links_.knobs.empty()) page.add_heading("Links");
  for (const std::string& line : lines_of(links_)) page.add_text(line);
  page.add_heading("Not tuned");
  for (const std::string& line : not_tuned(options_.links)) page.add_text(line);
  page.write(*options_.html);
}

void TuneReport::end(const std::vector<TunedCollective>& all, const TuneSummary& s) {
  progress_.erase();
  fmt::print(table_,
             "# {} sizes have another choice, {} keep the default, {} not measured; {:.0f} s\n",
             s.changed, s.kept, s.skipped, s.seconds);
  if (s.wrong > 0)
    fmt::print(table_, "# {} had wrong results and {} not in the file\n",
               counted(s.wrong, "contender"), s.wrong == 1 ? "is" : "are");
  if (s.wrong_defaults > 0)
    fmt::print(table_,
               "# WRONG: the default gave wrong results at {} of the sizes, for which nothing is "
               "chosen. Run ringwood doctor, and ringwood perf --check 1 on these hosts\n",
               s.wrong_defaults);
  if (s.carried_over > 0)
    fmt::print(table_, "# {} ranges of the file before are kept\n", s.carried_over);
  if (s.left_behind > 0)
    fmt::print(table_,
               "# {} ranges of the file before are dropped: their schedules have names "
               "that other schedules have now\n",
               s.left_behind);
  if (!s.other_links.empty())
    fmt::print(table_,
               "# the file before is dropped: it was for links with {}, and is added to by groups "
               "that have them\n",
               s.other_links);
  if (!s.cut_short.empty()) fmt::print(table_, "# the run ended early: {}\n", s.cut_short);
  if (!s.not_written.empty())
    fmt::print(table_, "# NOT WRITTEN: {}; save the text between the lines yourself\n{}\n{}{}\n",
               s.not_written, kCut, s.text, kCut);
  if (!s.path.empty())
    fmt::print(table_, "# written: {}; ringwood tune --diff {} default\n", s.path, s.path);
  fmt::print(table_, "# not tuned: {}spinning, limits (why: --json)\n",
             options_.links ? "" : "sockets, queue pairs, rings (--links does), ");
  std::fflush(table_);
  if (json_) write_json(all, s);
  if (options_.html) write_html(all, s);
}

}  // namespace ringwood::tools
