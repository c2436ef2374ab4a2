#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include <fmt/format.h>

#include "tools/ladder/ladder.h"
#include "tools/report/html_report.h"

namespace ringwood::tools {
namespace {

std::string size_text(size_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

// Of a part with the digits of the whole at least, so that printed parts add up to it.
std::string micros(double seconds, double whole) {
  const double us = seconds * 1e6, least = std::min(std::abs(us), whole * 1e6);
  return fmt::format("{:.{}f}", us, least < 1 ? 3 : least < 10 ? 2 : least < 1000 ? 1 : 0);
}
std::string micros(double seconds) { return micros(seconds, seconds); }

std::string sentence(const Ladder& ladder, const LadderLoss& loss) {
  return fmt::format("{}: most is lost from {} to {}: {} us more, {:.2f} times as long",
                     size_text(ladder.sizes[loss.size]), loss.from, loss.to, micros(loss.seconds),
                     loss.factor);
}

// The time of a size; "-" where there is none.
std::string cell(const LadderRow& row, size_t size) {
  return row.has(size) ? micros(row.seconds[size]) : "-";
}

std::string said_of(const LadderRow& row) {
  const std::string beside = row.beside ? "; the link does not go over it" : "";
  const std::string ended = row.why_not.empty() ? "" : "; ended early: " + row.why_not;
  return row.what + beside + ended;
}

bool is_below(const LadderRow& below, const LadderRow& row, size_t size) {
  constexpr double kMinOfAPort = 0.1;
  return below.name != "port" || below.seconds[size] >= kMinOfAPort * row.seconds[size];
}

std::optional<LadderSum> sum_of(const Ladder& ladder, size_t size) {
  std::optional<LadderSum> sum;
  const LadderRow* below = nullptr;
  for (const LadderRow& row : ladder.rows) {
    if (!row.has(size) || row.beside) continue;
    const double seconds = row.seconds[size];
    if (below == nullptr || !is_below(*below, row, size))
      sum = {size, row.name, "", seconds, 0, {}};
    else
      sum->losses.push_back({size, below->name, row.name, seconds - below->seconds[size],
                             seconds / below->seconds[size]});
    sum->whole = row.name;
    sum->whole_seconds = seconds;
    below = &row;
  }
  return sum;
}

// The cell of a rung in what its size is the sum of; "-" where it has no part.
std::string part(const LadderSum& sum, const std::string& rung) {
  if (rung == sum.base) return micros(sum.base_seconds, sum.whole_seconds);
  const auto loss = std::ranges::find(sum.losses, rung, &LadderLoss::to);
  if (loss == sum.losses.end()) return "-";
  return (loss->seconds < 0 ? "" : "+") + micros(loss->seconds, sum.whole_seconds);
}

// Rungs, each with its part of every size, and the whole of it.
std::vector<std::vector<std::string>> parts_of(const std::vector<LadderSum>& sums,
                                               const std::vector<LadderRow>& rows) {
  std::vector<std::vector<std::string>> lines;
  for (const LadderRow& row : rows) {
    std::vector<std::string> line{row.name};
    for (const LadderSum& sum : sums) line.push_back(part(sum, row.name));
    if (std::any_of(line.begin() + 1, line.end(), [](const auto& cell) { return cell != "-"; }))
      lines.push_back(line);
  }
  lines.push_back({"whole"});
  for (const LadderSum& sum : sums) lines.back().push_back(micros(sum.whole_seconds));
  return lines;
}

std::string print_parts(const Ladder& ladder) {
  const std::vector<LadderSum> sums = all_losses(ladder);
  if (sums.empty()) return "";
  std::string text = "\n# the lowest rung's time, and what each takes more than the one below it\n";
  text += fmt::format("# {:<12}", "loss");
  for (const LadderSum& sum : sums)
    text += fmt::format(" {:>10}", size_text(ladder.sizes[sum.size]));
  text += "\n";
  for (const std::vector<std::string>& line : parts_of(sums, ladder.rows)) {
    text += fmt::format("  {:<12}", line.front());
    for (size_t i = 1; i < line.size(); ++i) text += fmt::format(" {:>10}", line[i]);
    text += "\n";
  }
  return text;
}

using Json = nlohmann::ordered_json;

Json json_of(const Ladder& ladder, const LadderSum& sum) {
  Json losses = Json::array();
  for (const LadderLoss& loss : sum.losses)
    losses.push_back({{"from", loss.from},
                      {"to", loss.to},
                      {"us", loss.seconds * 1e6},
                      {"factor", loss.factor}});
  return {{"bytes", ladder.sizes[sum.size]},
          {"base", sum.base},
          {"base_us", sum.base_seconds * 1e6},
          {"losses", std::move(losses)},
          {"whole", sum.whole},
          {"whole_us", sum.whole_seconds * 1e6}};
}

void add_parts(HtmlReport& report, const Ladder& ladder) {
  const std::vector<LadderSum> sums = all_losses(ladder);
  if (sums.empty()) return;
  std::vector<std::string> head{"rung"};
  for (const LadderSum& sum : sums) head.push_back(size_text(ladder.sizes[sum.size]));
  report.add_heading("What each rung takes more");
  report.add_text(
      "Microseconds: of each size the time of the lowest rung, what each rung takes more than the "
      "one below it, and all of that together.");
  report.add_table(head, parts_of(sums, ladder.rows));
}

}  // namespace

bool LadderRow::measured() const {
  return std::ranges::any_of(seconds, [](double time) { return time > 0; });
}

std::vector<LadderSum> all_losses(const Ladder& ladder) {
  std::vector<LadderSum> sums;
  for (size_t size = 0; size < ladder.sizes.size(); ++size)
    if (auto sum = sum_of(ladder, size)) sums.push_back(std::move(*sum));
  return sums;
}

std::vector<LadderLoss> largest_losses(const Ladder& ladder) {
  std::vector<LadderLoss> losses;
  for (const LadderSum& sum : all_losses(ladder)) {
    const auto worst = std::ranges::max_element(sum.losses, {}, &LadderLoss::seconds);
    if (worst != sum.losses.end() && worst->seconds > 0) losses.push_back(*worst);
  }
  return losses;
}

std::string print_table(const Ladder& ladder) {
  std::string text = fmt::format(
      "# ladder: {}\n# both send each other so many bytes at the same time; microseconds, "
      "medians\n",
      ladder.ranks);
  text += fmt::format("# {:<12}", "rung");
  for (const size_t size : ladder.sizes) text += fmt::format(" {:>10}", size_text(size));
  text += "\n";
  for (const LadderRow& row : ladder.rows) {
    text += fmt::format("  {:<12}", row.name);
    if (row.measured())
      for (size_t size = 0; size < ladder.sizes.size(); ++size)
        text += fmt::format(" {:>10}", cell(row, size));
    else
      text += fmt::format(" not measured: {}", row.why_not);
    text += "\n";
  }
  text += print_parts(ladder) + "\n";
  for (const LadderRow& row : ladder.rows)
    if (row.measured()) text += fmt::format("# {:<12} {}\n", row.name, said_of(row));
  for (const LadderLoss& loss : largest_losses(ladder)) text += sentence(ladder, loss) + "\n";
  return text;
}

std::string print_json(const Ladder& ladder) {
  Json rungs = Json::array(), losses = Json::array(), largest = Json::array();
  for (const LadderRow& row : ladder.rows) {
    Json times = Json::array();
    for (size_t size = 0; size < ladder.sizes.size(); ++size)
      times.push_back(row.has(size) ? Json(row.seconds[size] * 1e6) : Json(nullptr));
    rungs.push_back({{"rung", row.name},
                     {"what", row.what},
                     {"why_not", row.why_not},
                     {"beside", row.beside},
                     {"time_us", times}});
  }
  for (const LadderSum& sum : all_losses(ladder)) losses.push_back(json_of(ladder, sum));
  for (const LadderLoss& loss : largest_losses(ladder))
    largest.push_back({{"bytes", ladder.sizes[loss.size]},
                       {"from", loss.from},
                       {"to", loss.to},
                       {"us", loss.seconds * 1e6},
                       {"factor", loss.factor},
                       {"sentence", sentence(ladder, loss)}});
  return Json{{"version", RINGWOOD_VERSION}, {"ranks", ladder.ranks},
              {"sizes", ladder.sizes},       {"rungs", std::move(rungs)},
              {"losses", std::move(losses)}, {"largest_losses", std::move(largest)}}
      .dump(2, ' ', false, Json::error_handler_t::replace);
}

void write_html(const Ladder& ladder, const std::string& file) {
  HtmlReport report({"The ladder", ladder.ranks, {{"version", "ringwood " RINGWOOD_VERSION}}});
  for (const LadderLoss& loss : largest_losses(ladder)) report.add_text(sentence(ladder, loss));
  ReportPlot times{"Time of an exchange",
                   {"size", AxisUnit::bytes, 2},
                   {"time", AxisUnit::microseconds, 10},
                   {},
                   ""};
  std::vector<std::vector<std::string>> lines;
  for (const LadderRow& row : ladder.rows) {
    lines.push_back({row.name, row.measured() ? said_of(row) : "not measured: " + row.why_not});
    if (!row.measured()) continue;
    PlotSeries series{row.name, {}, {}, row.name == "port", -1};
    for (size_t i = 0; i < ladder.sizes.size(); ++i) {
      if (!row.has(i)) continue;
      series.x.push_back(static_cast<double>(ladder.sizes[i]));
      series.y.push_back(row.seconds[i] * 1e6);
    }
    times.series.push_back(std::move(series));
  }
  report.add_plot(times);
  report.add_table({"rung", "what"}, lines);
  add_parts(report, ladder);
  report.add_heading("Time of each rung");
  for (size_t size = 0; size < ladder.sizes.size(); ++size) {
    std::vector<ReportBar> bars;
    for (const LadderRow& row : ladder.rows)
      if (row.has(size))
        bars.push_back({row.name, row.seconds[size] * 1e6, micros(row.seconds[size]) + " us"});
    report.add_bars(size_text(ladder.sizes[size]), bars);
  }
  report.write(file);
}

}  // namespace ringwood::tools
