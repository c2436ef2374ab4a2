#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tools/draw/draw.h"

namespace ringwood {
namespace {

// Pixels.
constexpr double kLeft = 64, kRight = 24, kTop = 40, kHeader = 40, kFoot = 40;
constexpr double kMargin = 16;  // of the title and the legend, from both edges
constexpr double kRound = 78;   // height of a round
constexpr double kBox = 10;     // a chunk
constexpr double kGap = 16;     // minimum between the boxes of two ranks
constexpr double kColumn = 96;  // minimum from rank to rank
constexpr double kMinWidth = 420;
constexpr int kMaxBoxes = 16;  // with more chunks, boxes do not show single chunks
constexpr size_t kMaxLabel = 14;
constexpr double kTitleFont = 15, kSmallFont = 11;
constexpr double kAdvance = 0.62;  // a character's largest width in heights, in the fonts asked for
constexpr double kLegendRow = 16, kLegendGap = 24, kLegendSample = 30;

double width_of(std::string_view words, double font) { return words.size() * kAdvance * font; }

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    switch (c) {
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '&': result += "&amp;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

// Spreads chunks around the colour circle, in integers, so that the text does not depend
// on rounding.
std::string colour(int chunk, int chunks) {
  if (chunk < 0 || chunks == 0) return "#555";
  constexpr int kLow = 43, kHigh = 182;
  const int hue = (210 + chunk * 360 / chunks) % 360, part = (kHigh - kLow) * (hue % 60) / 60;
  const int rising = kLow + part, falling = kHigh - part;
  const int rgb[][3] = {{kHigh, rising, kLow},  {falling, kHigh, kLow}, {kLow, kHigh, rising},
                        {kLow, falling, kHigh}, {rising, kLow, kHigh},  {kHigh, kLow, falling}};
  const auto& [r, g, b] = rgb[hue / 60];
  return fmt::format("#{:02x}{:02x}{:02x}", r, g, b);
}

struct LegendEntry {
  std::string_view words;
  std::string_view sample;  // attributes of the line before it; empty: no line
  double x = kMargin;
  int row = 0;
};

// What arrows and boxes mean, in as many rows as fit into the width.
std::vector<LegendEntry> lay_out_legend(bool sums, bool boxes, double width) {
  std::vector<LegendEntry> entries;
  if (sums) entries.push_back({"added there", "stroke-width=\"1.6\""});
  entries.push_back({"stored there", "stroke-width=\"1.6\" stroke-dasharray=\"6 3\""});
  if (boxes) entries.push_back({sums ? "boxes: chunks, filled by operands" : "boxes: chunks", ""});
  double x = kMargin;
  int row = 0;
  for (LegendEntry& entry : entries) {
    const double wide =
        (entry.sample.empty() ? 0 : kLegendSample) + width_of(entry.words, kSmallFont);
    if (x > kMargin && x + wide > width - kMargin) {
      x = kMargin;
      ++row;
    }
    entry.x = x;
    entry.row = row;
    x += wide + kLegendGap;
  }
  return entries;
}

class Canvas {
 public:
  Canvas(Collective collective, const std::vector<Schedule>& all, std::string_view title, int root,
         std::span<const int> host)
      : collective_(collective),
        n_(static_cast<int>(all.size())),
        chunks_(all[0].chunks),
        picture_(lay_out(collective, all, root)),
        title_(title),
        host_(host) {
    const double boxes = shows_boxes() ? chunks_ * kBox + kGap : 0;
    column_ = std::max(kColumn, std::ceil(boxes));
    width_ = std::ceil(std::max(
        {kMinWidth, kLeft + n_ * column_ + kRight, 2 * kMargin + width_of(title, kTitleFont)}));
    legend_ = lay_out_legend(reduces(collective_), shows_boxes(), width_);
    end_ = kTop + kHeader + picture_.rounds * kRound;
    height_ = end_ + kFoot + legend_.back().row * kLegendRow;
  }

  std::string draw() {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"ui-monospace,Menlo,Consolas,monospace\" "
        "font-size=\"12\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        "<text x=\"{2:.0f}\" y=\"24\" font-size=\"{3:.0f}\" font-weight=\"bold\" fill=\"#222\">"
        "{4}</text>\n",
        width_, height_, kMargin, kTitleFont, escaped(title_));
    hosts();
    frame();
    for (const Picture::Arrow& arrow : picture_.arrows) line(arrow);
    for (int k = 0; k <= picture_.rounds; ++k) {
      for (int rank = 0; rank < n_; ++rank) boxes(k, rank);
    }
    for (const Picture::Arrow& arrow : picture_.arrows) label(arrow);
    legend();
    return out_ + "</svg>\n";
  }

 private:
  bool shows_boxes() const { return chunks_ > 0 && chunks_ <= kMaxBoxes; }
  double x(int rank) const { return kLeft + (rank + 0.5) * column_; }
  double y(int k) const { return kTop + kHeader + k * kRound; }

  void text(double x, double y, std::string_view attributes, std::string_view words) {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes,
                        escaped(words));
  }

  // A background per rank, alternating by host.
  void hosts() {
    if (host_.empty()) return;
    constexpr const char* kShades[] = {"#eef3fa", "#faf3e8", "#eef7ee", "#f7eef5"};
    std::vector<int> names;
    for (int rank = 0; rank < n_; ++rank) {
      auto at = std::find(names.begin(), names.end(), host_[rank]);
      const size_t number = static_cast<size_t>(at - names.begin());
      if (at == names.end()) names.push_back(host_[rank]);
      out_ += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
          x(rank) - column_ / 2, kTop, column_, end_ - kTop + 16, kShades[number % 4]);
    }
  }

  void frame() {
    for (int rank = 0; rank < n_; ++rank) {
      const std::string name = host_.empty() ? fmt::format("rank {}", rank)
                                             : fmt::format("{} (host {})", rank, host_[rank]);
      text(x(rank), kTop + 16, "text-anchor=\"middle\" fill=\"#222\"", name);
      out_ +=
          fmt::format("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\" stroke=\"#bbb\" stroke-width=\"1\"/>\n",
                      x(rank), y(0), y(picture_.rounds));
    }
    for (int k = 0; k < picture_.rounds; ++k) {
      text(12, y(k) + kRound / 2 + 4, "fill=\"#888\"", fmt::format("{}", k));
    }
    text(12, kTop + 16, "fill=\"#888\"", "round");
  }

  struct Ends {
    double x0, y0, x1, y1;
  };
  Ends ends(const Picture::Arrow& arrow) const {
    const double margin = shows_boxes() ? kBox / 2 + 3 : 3;
    return {x(arrow.from), y(arrow.round) + margin, x(arrow.to), y(arrow.arrival) - margin};
  }

  std::string colour_of(const Picture::Arrow& arrow) const {
    return colour(arrow.chunks.empty() ? -1 : arrow.chunks[0], chunks_);
  }

  void line(const Picture::Arrow& arrow) {
    const auto [x0, y0, x1, y1] = ends(arrow);
    const double length = std::hypot(x1 - x0, y1 - y0);
    const double dx = (x1 - x0) / length, dy = (y1 - y0) / length;
    // The head is a triangle of 9 by 7; the line ends at its base.
    const double bx = x1 - 9 * dx, by = y1 - 9 * dy;
    const std::string paint = colour_of(arrow);
    out_ += fmt::format(
        "<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"{}\" stroke-width=\"1.6\"{}/>\n", x0, y0,
        bx, by, paint, arrow.adds ? "" : " stroke-dasharray=\"6 3\"");
    out_ += fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}Z\" fill=\"{}\"/>\n",
                        x1, y1, bx - 3.5 * dy, by + 3.5 * dx, bx + 3.5 * dy, by - 3.5 * dx, paint);
  }

  // How many arrows of the same fan, from one rank to one side in one round, are shorter.
  int place_in_fan(const Picture::Arrow& arrow) const {
    const auto& all = picture_.arrows;
    auto length = [](const Picture::Arrow& a) { return std::abs(a.to - a.from); };
    auto begin = std::lower_bound(all.begin(), all.end(), arrow, [](const auto& a, const auto& b) {
      return std::pair(a.round, a.from) < std::pair(b.round, b.from);
    });
    int shorter = 0;
    for (; begin != all.end() && begin->round == arrow.round && begin->from == arrow.from;
         ++begin) {
      const bool same_side = (begin->to > begin->from) == (arrow.to > arrow.from);
      shorter += same_side && length(*begin) < length(arrow);
    }
    return shorter;
  }

  // Labels are near the sender, where arrows to one rank are still apart. They are farther out for
  // longer arrows of a fan, and for all arrows to the right, which meet those to the left half way.
  void label(const Picture::Arrow& arrow) {
    std::string words = print_chunks(arrow.chunks);
    if (words.empty()) return;
    if (words.size() > kMaxLabel) words = fmt::format("{} chunks", arrow.chunks.size());
    const auto [x0, y0, x1, y1] = ends(arrow);
    const double way = (arrow.to > arrow.from ? 40 : 28) + 36 * place_in_fan(arrow);
    const double share = std::clamp(way / std::hypot(x1 - x0, y1 - y0), 0.05, 0.6);
    const double at_x = x0 + share * (x1 - x0), at_y = y0 + share * (y1 - y0) + 4;
    const std::string paint = colour_of(arrow);
    for (const char* edge : {" stroke=\"#fff\" stroke-width=\"3\"", ""}) {
      text(at_x, at_y,
           fmt::format("text-anchor=\"middle\" font-size=\"{:.0f}\" fill=\"{}\"{}", kSmallFont,
                       paint, edge),
           words);
    }
  }

  void boxes(int k, int rank) {
    if (!shows_boxes()) {
      out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"#555\"/>\n",
                          x(rank), y(k));
      return;
    }
    const double left = x(rank) - chunks_ * kBox / 2, top = y(k) - kBox / 2;
    const int whole = reduces(collective_) ? n_ : 1;
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#fff\"/>\n",
        left, top, chunks_ * kBox, kBox);
    for (int c = 0; c < chunks_; ++c) {
      const int operands = std::min(picture_.operands[k][rank][c], whole);
      if (operands == 0) continue;
      const double filled = kBox * operands / whole;
      out_ += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
          left + c * kBox, top + kBox - filled, kBox, filled, colour(c, chunks_));
    }
    std::string edges = fmt::format("M{:.1f} {:.1f}h{:.1f}v{:.1f}h-{:.1f}z", left, top,
                                    chunks_ * kBox, kBox, chunks_ * kBox);
    for (int c = 1; c < chunks_; ++c) {
      edges += fmt::format("M{:.1f} {:.1f}v{:.1f}", left + c * kBox, top, kBox);
    }
    out_ +=
        fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"#777\" stroke-width=\"0.8\"/>\n", edges);
  }

  void legend() {
    for (const LegendEntry& entry : legend_) {
      const double at = end_ + kFoot - 12 + entry.row * kLegendRow;
      double x = entry.x;
      if (!entry.sample.empty()) {
        out_ += fmt::format("<path d=\"M{:.1f} {:.1f}h24\" stroke=\"#555\" {}/>\n", x, at - 4,
                            entry.sample);
        x += kLegendSample;
      }
      text(x, at, fmt::format("font-size=\"{:.0f}\" fill=\"#555\"", kSmallFont), entry.words);
    }
  }

  const Collective collective_;
  const int n_;
  const int chunks_;
  const Picture picture_;
  const std::string_view title_;
  const std::span<const int> host_;
  double column_ = 0, width_ = 0, height_ = 0;
  double end_ = 0;  // where the last round ends and the legend begins
  std::vector<LegendEntry> legend_;
  std::string out_;
};

}  // namespace

std::string draw_svg(Collective collective, const std::vector<Schedule>& all,
                     std::string_view title, int root, std::span<const int> host) {
  if (all.empty()) throw Error(ErrorCode::invalid_argument, "there are no schedules to draw");
  if (!host.empty() && host.size() != all.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} hosts are named for {} ranks", host.size(), all.size()));
  }
  return Canvas(collective, all, title, root, host).draw();
}

}  // namespace ringwood
