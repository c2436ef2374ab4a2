#include "tools/simulate/simulate_svg.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "tools/simulate/simulate_report.h"

namespace ringwood::tools {
namespace {

constexpr double kWidth = 760, kHeight = 420, kLeft = 70, kRight = 560, kTop = 40, kBottom = 370;
constexpr const char* kColours[] = {"#b3261e", "#1f77b4", "#2ca02c", "#f97316",
                                    "#9467bd", "#8c564b", "#e377c2", "#17becf"};

struct Scale {
  size_t points;
  double most;  // GB/s
  double x(size_t point) const {
    const double parts = std::max<double>(1, static_cast<double>(points) - 1);
    return kLeft + (kRight - kLeft) * static_cast<double>(point) / parts;
  }
  double y(double rate) const { return kBottom - (kBottom - kTop) * rate / most; }
};

std::string line(double x1, double y1, double x2, double y2) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", x1, y1,
                     x2, y2);
}

std::string axes(const std::vector<ScalePoint>& points, const Scale& scale) {
  constexpr int kParts = 5;
  std::string text;
  for (int i = 0; i <= kParts; ++i) {
    const double rate = scale.most * i / kParts;
    text += line(kLeft, scale.y(rate), kRight, scale.y(rate));
    text += fmt::format("<text x=\"{}\" y=\"{:.1f}\" class=\"end\">{:.3g}</text>\n", kLeft - 6,
                        scale.y(rate) + 4, rate);
  }
  for (size_t i = 0; i < points.size(); ++i) {
    text += line(scale.x(i), kTop, scale.x(i), kBottom);
    text += fmt::format("<text x=\"{:.1f}\" y=\"{}\" class=\"middle\">{}</text>\n", scale.x(i),
                        kBottom + 18, points[i].options.query.n);
  }
  const SimulateOptions& first = points.front().options;
  text += fmt::format(
      "<text x=\"{}\" y=\"24\" class=\"title\">{} of {} bytes{}: bus bandwidth in GB/s by ranks"
      "</text>\n",
      kLeft, to_string(first.query.collective), first.bytes,
      first.faults.any() ? ", with the faults" : "");
  return text;
}

}  // namespace

std::string draw_scale(const std::vector<ScalePoint>& points) {
  Scale scale{points.size(), 0};
  std::map<std::string, std::map<size_t, double>> lines;  // by algorithm and point: GB/s
  for (size_t i = 0; i < points.size(); ++i)
    for (const SimulatedRow& row : points[i].rows) {
      if (!row.why_not.empty()) continue;
      const double rate = bandwidth_of(points[i].options, row.outcome().seconds).bus;
      lines[row.name()][i] = rate;
      scale.most = std::max(scale.most, rate);
    }
  if (scale.most <= 0) scale.most = 1;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<style>polyline{{fill:none;stroke-width:2}}line{{stroke:#ddd}}"
      ".title{{font-size:15px}}.end{{text-anchor:end}}.middle{{text-anchor:middle}}</style>\n"
      "<rect width=\"{}\" height=\"{}\" fill=\"white\"/>\n",
      kWidth, kHeight, kWidth, kHeight);
  text += axes(points, scale);
  size_t number = 0;
  for (const auto& [algorithm, rates] : lines) {
    const char* const colour = kColours[number % std::size(kColours)];
    const bool dashed = number >= std::size(kColours);
    std::string corners, dots;
    for (const auto& [point, rate] : rates) {
      corners += fmt::format("{:.1f},{:.1f} ", scale.x(point), scale.y(rate));
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n",
                          scale.x(point), scale.y(rate), colour);
    }
    corners.pop_back();
    text += fmt::format("<polyline points=\"{}\" stroke=\"{}\"{}/>\n{}", corners, colour,
                        dashed ? " stroke-dasharray=\"5 4\"" : "", dots);
    const double y = kTop + 8 + 18 * static_cast<double>(number++);
    text += fmt::format("<text x=\"{}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n", kRight + 16, y,
                        colour, algorithm);
  }
  return text + "</svg>\n";
}

}  // namespace ringwood::tools
