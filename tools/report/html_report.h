// A report as one HTML file that needs nothing else: no network, no other file.
//
//   HtmlReport report({"All-reduce on two hosts", "8 ranks, RoCE", {{"version", "0.1.0"}}});
//   report.add_heading("Bandwidth");
//   report.add_plot({"bus bandwidth", {"size", AxisUnit::bytes, 2}, {"GB/s"}, {{"ring", x, y}}});
//   report.write("report.html");
//
// Rules
// 1. Everything given is text, never markup: it is escaped wherever it goes. A text that is not
//    UTF-8 has its bad bytes replaced.
// 2. Tables, bars and heat maps are readable without scripts; plots are drawn by uPlot from data in
//    the page. The page forbids itself to load anything (Content-Security-Policy).
// 3. Light or dark as the reader's system says, with a button; it prints in light.
// Thread safety: none.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ringwood::tools {

// By their units the values at an axis are written: 64 KiB, 1.5 ms, 12.3.
enum class AxisUnit { number, bytes, microseconds };
struct PlotAxis {
  std::string label;
  AxisUnit unit = AxisUnit::number;
  int log_base =
      0;  // 2 or 10; 0: linear. Values of a logarithmic axis that are not > 0 are left out
};
struct PlotSeries {
  std::string name;
  std::vector<double> x, y;  // as many; x ascending. What is not finite leaves a gap
  bool dashed = false;       // predictions, limits, what others measured
  int colour = -1;           // of the palette, so that two series can share one; -1: the next
  bool strong = false;       // what the plot is about, among many
  bool hidden = false;       // until a click on its name
  bool off_scale = false;    // leaves the plot at the top where it would flatten the other lines
};
// Of the palette. The last one, grey, is of limits: it is only had where it is named.
constexpr int kColours = 9, kGrey = 9;
struct ReportPlot {
  std::string title;
  PlotAxis x, y;
  std::vector<PlotSeries> series;
  std::string note;  // below it
};

struct HeatMap {
  std::string title;
  std::vector<std::string> row_names, column_names;
  std::vector<std::vector<double>> values;  // by row; NaN: none, an empty cell
  std::string unit;
  std::string note;
  bool low_is_good = false;  // of latencies
};

struct ReportBar {
  std::string name;
  double value;
  std::string text;  // beside it; empty: the value
};

enum class Tone { plain, good, warning, bad };

class HtmlReport final {
 public:
  struct Head {
    std::string title, subtitle;
    std::vector<std::pair<std::string, std::string>> facts;  // what was measured, where, when
  };
  explicit HtmlReport(Head head);

  void add_heading(const std::string& text);
  void add_text(const std::string& text, Tone tone = Tone::plain);  // a paragraph
  // Rows may be shorter than the header. Columns of numbers are aligned to the right.
  void add_table(const std::vector<std::string>& header,
                 const std::vector<std::vector<std::string>>& rows);
  void add_plot(const ReportPlot& plot);
  void add_heat_map(const HeatMap& map);
  void add_bars(const std::string& title, const std::vector<ReportBar>& bars,
                const std::string& note = "");

  std::string text() const;  // the page
  // Throws Error(invalid_argument), naming the file, if that fails.
  void write(const std::string& path) const;

 private:
  const Head head_;
  std::string body_;   // markup
  std::string plots_;  // JSON objects, divided by commas
  int plot_count_ = 0;
};

}  // namespace ringwood::tools
