#include "tools/report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/report/assets.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

using nlohmann::json;

constexpr size_t kWideFact = 60;  // longer ones have a row of their own
constexpr size_t kLongColumn = 12;
constexpr size_t kLongCell = 40;  // longer ones are sentences, which may go on in the next line

// Also for attributes in double quotes. Bytes that are not UTF-8 become the sign for that.
std::string escape(const std::string& raw) {
  const std::string quoted = json(raw).dump(-1, ' ', false, json::error_handler_t::replace);
  const std::string clean = json::parse(quoted).get<std::string>();
  std::string out;
  for (const char c : clean) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      case '\0': break;
      default: out += c;
    }
  }
  return out;
}

// JSON within <script>: there `</script` and `<!--` would end or change it.
std::string script_json(const json& value) {
  std::string out;
  for (const char c : value.dump(-1, ' ', true, json::error_handler_t::replace))
    out += c == '<' ? "\\u003c" : std::string(1, c);
  return out;
}

bool is_number(const std::string& cell) {
  const size_t at = cell.find_first_not_of("+-~ ");
  return at != std::string::npos && cell[at] >= '0' && cell[at] <= '9';
}

json finite(const std::vector<double>& values, bool positive) {
  json list = json::array();
  for (const double value : values)
    list.push_back(std::isfinite(value) && (!positive || value > 0) ? json(value) : json());
  return list;
}

const char* to_string(AxisUnit unit) {
  switch (unit) {
    case AxisUnit::bytes: return "bytes";
    case AxisUnit::microseconds: return "microseconds";
    case AxisUnit::number: break;
  }
  return "number";
}

json json_of(const PlotAxis& axis) {
  return {{"label", axis.label}, {"unit", to_string(axis.unit)}, {"log", axis.log_base}};
}

const char* css_class(Tone tone) {
  switch (tone) {
    case Tone::good: return "note good";
    case Tone::warning: return "note warning";
    case Tone::bad: return "note bad";
    case Tone::plain: break;
  }
  return "plain";
}

// Three or four significant digits, as long as they fit a cell.
std::string short_number(double value) {
  const double size = std::abs(value);
  return size >= 100 || value == 0 ? fmt::format("{:.0f}", value)
         : size >= 10              ? fmt::format("{:.1f}", value)
         : size >= 0.01            ? fmt::format("{:.2f}", value)
                                   : fmt::format("{:.1e}", value);
}

using Colour = std::array<double, 3>;
// Dark to light with an even step of lightness, safe for the colour-blind.
constexpr Colour kScale[] = {
    {68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}};

Colour colour_at(double share) {
  const double place = std::clamp(share, 0.0, 1.0) * (std::size(kScale) - 1);
  const size_t low = std::min<size_t>(static_cast<size_t>(place), std::size(kScale) - 2);
  Colour mixed;
  for (size_t i = 0; i < mixed.size(); ++i)
    mixed[i] = std::lerp(kScale[low][i], kScale[low + 1][i], place - static_cast<double>(low));
  return mixed;
}

std::string css(const Colour& c) {
  return fmt::format("rgb({:.0f} {:.0f} {:.0f})", c[0], c[1], c[2]);
}

std::string cell_style(double share) {
  const Colour c = colour_at(share);
  const double light = 0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2];
  return fmt::format("background:{};color:{}", css(c), light > 130 ? "#111" : "#fff");
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  // 0 to 1, where 1 is good.
  double share(double value, bool low_is_good) const {
    const double at = high > low ? (value - low) / (high - low) : 1;
    return high > low && low_is_good ? 1 - at : at;
  }
};

Range range_of(const HeatMap& map) {
  Range range;
  for (const auto& row : map.values) {
    for (const double value : row) {
      if (!std::isfinite(value)) continue;
      range.low = std::min(range.low, value);
      range.high = std::max(range.high, value);
    }
  }
  return range;
}

std::string heat_row(const HeatMap& map, size_t row, const Range& range) {
  std::string text = fmt::format("<tr><th scope=row>{}</th>", escape(map.row_names[row]));
  for (size_t c = 0; c < map.column_names.size(); ++c) {
    const bool there =
        row < map.values.size() && c < map.values[row].size() && std::isfinite(map.values[row][c]);
    if (!there) {
      text += "<td class=none></td>";
      continue;
    }
    const double value = map.values[row][c];
    text += fmt::format("<td style=\"{}\" title=\"{}: {} {}\">{}</td>",
                        cell_style(range.share(value, map.low_is_good)),
                        escape(map.row_names[row] + " → " + map.column_names[c]),
                        fmt::format("{:.6g}", value), escape(map.unit), short_number(value));
  }
  return text + "</tr>\n";
}

}  // namespace

HtmlReport::HtmlReport(Head head) : head_(std::move(head)) {}

void HtmlReport::add_heading(const std::string& text) {
  body_ += fmt::format("<h2>{}</h2>\n", escape(text));
}

void HtmlReport::add_text(const std::string& text, Tone tone) {
  body_ += fmt::format("<p class=\"{}\">{}</p>\n", css_class(tone), escape(text));
}

void HtmlReport::add_table(const std::vector<std::string>& header,
                           const std::vector<std::vector<std::string>>& rows) {
  std::vector<bool> numbers(header.size(), !rows.empty());
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size() && c < numbers.size(); ++c)
      numbers[c] = numbers[c] && (row[c].empty() || row[c] == "-" || is_number(row[c]));
  }
  const auto style = [&](size_t c, const std::string& cell) {
    return c < numbers.size() && numbers[c] ? " class=n"
           : cell.size() > kLongCell        ? " class=long"
                                            : "";
  };
  body_ += "<div class=scroll><table class=data><thead><tr>";
  for (size_t c = 0; c < header.size(); ++c)
    body_ += fmt::format("<th{}>{}</th>", style(c, ""), escape(header[c]));
  body_ += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    body_ += "<tr>";
    for (size_t c = 0; c < row.size(); ++c)
      body_ += fmt::format("<td{}>{}</td>", style(c, row[c]), escape(row[c]));
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void HtmlReport::add_plot(const ReportPlot& plot) {
  json data = {{"title", plot.title},
               {"x", json_of(plot.x)},
               {"y", json_of(plot.y)},
               {"series", json::array()}};
  for (const PlotSeries& one : plot.series) {
    data["series"].push_back({{"name", one.name},
                              {"x", finite(one.x, plot.x.log_base != 0)},
                              {"y", finite(one.y, plot.y.log_base != 0)},
                              {"dashed", one.dashed},
                              {"strong", one.strong},
                              {"hidden", one.hidden},
                              {"off_scale", one.off_scale},
                              {"colour", one.colour}});
  }
  plots_ += (plots_.empty() ? "" : ",\n") + script_json(data);
  body_ += fmt::format(
      "<figure><figcaption>{}</figcaption><div class=plot data-plot={}>"
      "<noscript>Plots need scripts.</noscript></div>",
      escape(plot.title), plot_count_++);
  if (!plot.note.empty()) body_ += fmt::format("<p class=small>{}</p>", escape(plot.note));
  body_ += "</figure>\n";
}

void HtmlReport::add_heat_map(const HeatMap& map) {
  const Range range = range_of(map);
  // Many cells are small ones, whose numbers show where the pointer is.
  const bool dense = map.column_names.size() > 24;
  // Long names stand upright, or the columns would be as wide as they and few of them in view.
  const bool upright = std::ranges::any_of(
      map.column_names, [](const std::string& name) { return name.size() > kLongColumn; });
  const char* kind = dense ? " dense" : upright ? " upright" : "";
  body_ += fmt::format(
      "<figure><figcaption>{}</figcaption><div class=scroll><table class=\"heat{}\">"
      "<thead><tr><th></th>",
      escape(map.title), kind);
  for (const std::string& name : map.column_names)
    body_ += fmt::format("<th scope=col><span>{}</span></th>", escape(name));
  body_ += "</tr></thead><tbody>\n";
  for (size_t row = 0; row < map.row_names.size(); ++row) body_ += heat_row(map, row, range);
  body_ += "</tbody></table></div>";
  if (range.low <= range.high) {
    body_ += "<p class=\"small legend\">";
    body_ += short_number(map.low_is_good ? range.high : range.low);
    body_ += "<span class=scale>";
    for (int i = 0; i < 20; ++i)
      body_ += fmt::format("<i style=\"background:{}\"></i>", css(colour_at(i / 19.0)));
    body_ += fmt::format("</span>{} {}</p>", short_number(map.low_is_good ? range.low : range.high),
                         escape(map.unit));
  }
  if (!map.note.empty()) body_ += fmt::format("<p class=small>{}</p>", escape(map.note));
  body_ += "</figure>\n";
}

void HtmlReport::add_bars(const std::string& title, const std::vector<ReportBar>& bars,
                          const std::string& note) {
  double most = 0;
  for (const ReportBar& bar : bars)
    if (std::isfinite(bar.value)) most = std::max(most, bar.value);
  body_ += fmt::format("<figure><figcaption>{}</figcaption><table class=bars>\n", escape(title));
  for (const ReportBar& bar : bars) {
    const double share = most > 0 && bar.value > 0 ? std::min(bar.value / most, 1.0) : 0;
    body_ += fmt::format(
        "<tr><th scope=row>{}</th><td><div style=\"width:{:.2f}%\"></div></td><td class=n>{}</td>"
        "</tr>\n",
        escape(bar.name), share * 100,
        bar.text.empty() ? short_number(bar.value) : escape(bar.text));
  }
  body_ += "</table>";
  if (!note.empty()) body_ += fmt::format("<p class=small>{}</p>", escape(note));
  body_ += "</figure>\n";
}

std::string HtmlReport::text() const {
  std::string facts;
  for (const auto& [name, value] : head_.facts)
    facts +=
        fmt::format("<div{}><dt>{}</dt><dd>{}</dd></div>\n",
                    value.size() > kWideFact ? " class=wide" : "", escape(name), escape(value));
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
      "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; "
      "script-src 'unsafe-inline'; style-src 'unsafe-inline'\">\n"
      "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=generator content=\"ringwood " RINGWOOD_VERSION
      "\">\n<title>{}</title>\n<style>\n{}\n{}</style>\n</head>\n<body>\n<main>\n<header>\n"
      "<button type=button id=theme title=\"light or dark\" aria-label=\"light or dark\">◐</button>"
      "\n<h1>{}</h1>\n",
      escape(head_.title), kUplotStyle, kReportStyle, escape(head_.title));
  if (!head_.subtitle.empty())
    page += fmt::format("<p class=subtitle>{}</p>\n", escape(head_.subtitle));
  if (!facts.empty()) page += "<dl class=facts>\n" + facts + "</dl>\n";
  page += "</header>\n" + body_ + "<footer>ringwood " RINGWOOD_VERSION "</footer>\n</main>\n";
  page += "<script type=application/json id=plots>[" + plots_ + "]</script>\n";
  page += fmt::format("<script>{}</script>\n<script>\n{}</script>\n</body>\n</html>\n",
                      kUplotScript, kReportScript);
  return page;
}

void HtmlReport::write(const std::string& path) const {
  const std::string page = text();
  const auto close = [](std::FILE* file) { return std::fclose(file); };
  std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "we"), close);
  const bool written = file && std::fwrite(page.data(), 1, page.size(), file.get()) == page.size();
  if (!written || close(file.release()) != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("cannot write {}: {}", path, system_message("write")));
}

}  // namespace ringwood::tools
