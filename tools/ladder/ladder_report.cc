#include <algorithm>
#include <nlohmann/json.hpp>

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

std::string micros(double seconds) {
  const double us = seconds * 1e6;
  return fmt::format("{:.{}f}", us, us < 10 ? 2 : us < 1000 ? 1 : 0);
}

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

}  // namespace

bool LadderRow::measured() const {
  return std::ranges::any_of(seconds, [](double time) { return time > 0; });
}

std::vector<LadderLoss> largest_losses(const Ladder& ladder) {
  std::vector<LadderLoss> losses;
  for (size_t size = 0; size < ladder.sizes.size(); ++size) {
    LadderLoss worst;
    const LadderRow* below = nullptr;
    for (const LadderRow& row : ladder.rows) {
      if (!row.has(size) || row.beside) continue;
      if (below && !is_below(*below, row, size)) below = nullptr;
      const double more = below ? row.seconds[size] - below->seconds[size] : 0;
      if (more > worst.seconds)
        worst = {size, below->name, row.name, more, row.seconds[size] / below->seconds[size]};
      below = &row;
    }
    if (worst.seconds > 0) losses.push_back(worst);
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
  text += "\n";
  for (const LadderRow& row : ladder.rows)
    if (row.measured()) text += fmt::format("# {:<12} {}\n", row.name, said_of(row));
  for (const LadderLoss& loss : largest_losses(ladder)) text += sentence(ladder, loss) + "\n";
  return text;
}

std::string print_json(const Ladder& ladder) {
  using Json = nlohmann::ordered_json;
  Json rungs = Json::array(), losses = Json::array();
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
  for (const LadderLoss& loss : largest_losses(ladder))
    losses.push_back({{"bytes", ladder.sizes[loss.size]},
                      {"from", loss.from},
                      {"to", loss.to},
                      {"us", loss.seconds * 1e6},
                      {"factor", loss.factor},
                      {"sentence", sentence(ladder, loss)}});
  return Json{{"version", RINGWOOD_VERSION},
              {"ranks", ladder.ranks},
              {"sizes", ladder.sizes},
              {"rungs", std::move(rungs)},
              {"largest_losses", std::move(losses)}}
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
