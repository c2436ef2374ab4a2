#include "tools/matrix/matrix_report.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include <fmt/format.h>

#include "tools/matrix/solve.h"

namespace ringwood::tools {
namespace {

constexpr size_t kMaxNamed = 12;     // slow paths in the table
constexpr size_t kWidestTable = 24;  // hosts; larger ones are in CSV, JSON and HTML
constexpr size_t kLongestName = 18;

using Unit = std::pair<double, const char*>;

std::string in_unit(double value, std::initializer_list<Unit> units) {
  const Unit* taken = units.end() - 1;
  for (const Unit& unit : units)
    if (value >= unit.first && unit.first > taken->first) taken = &unit;
  const double scaled = value / taken->first;
  const int digits = scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", scaled, digits, taken->second);
}

std::string short_name(const std::string& name) {
  if (name.size() <= kLongestName) return name;
  return name.substr(0, kLongestName - 2) + "..";
}

// Of all numbers of a table, so that they can be compared.
struct Scale {
  double one;
  const char* unit;
};
Scale scale_of(double usual, bool latency) {
  if (latency) return usual >= 1e-3 ? Scale{1e-3, "ms"} : Scale{1e-6, "us"};
  return usual >= 1e9 ? Scale{1e9, "GB/s"} : Scale{1e6, "MB/s"};
}

bool is_slow(const Matrix& matrix, const std::string& rail, int from, int to) {
  return std::ranges::any_of(matrix.slow, [&](const SlowPath& path) {
    return path.rail == rail && path.kind != SlowPath::Kind::together &&
           (path.from < 0 || path.from == from) && (path.to < 0 || path.to == to);
  });
}

std::string cell(double value, const Scale& scale, bool slow) {
  if (value <= 0) return "-";
  const double scaled = value / scale.one;
  const int digits = scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", scaled, digits, slow ? "*" : " ");
}

// With the names of rows and columns; `marked(row, column)`: with a star.
template <class Marked>
std::string grid(const Table& table, const std::vector<std::string>& names, const Scale& scale,
                 const Marked& marked) {
  size_t first = 4, width = 8;
  for (const std::string& name : names) first = std::max(first, short_name(name).size());
  for (const std::string& name : names) width = std::max(width, short_name(name).size() + 1);
  std::string text = fmt::format("  {:<{}}", "from", first);
  for (const std::string& name : names) text += fmt::format(" {:>{}} ", short_name(name), width);
  text += "\n";
  for (size_t a = 0; a < table.size(); ++a) {
    text += fmt::format("  {:<{}}", short_name(names[a]), first);
    for (size_t b = 0; b < table[a].size(); ++b) {
      const bool slow = marked(static_cast<int>(a), static_cast<int>(b));
      std::string value = cell(table[a][b], scale, slow);
      if (value == "-") value = "- ";
      text += fmt::format(" {:>{}}", value, width + 1);
    }
    text += "\n";
  }
  return text;
}

std::string hosts_text(const Matrix& matrix, const HostMatrix& rail) {
  std::string text;
  const auto add = [&](const char* title, const Table& table, bool latency) {
    if (table.empty()) return;
    const double usual = median_rate(table);
    const Scale scale = scale_of(usual, latency);
    text += fmt::format("\n{}{}{}, {}; median {}\n", rail.rail, rail.rail.empty() ? "" : ": ",
                        title, scale.unit, latency ? print_time(usual) : print_rate(usual));
    if (table.size() > kWidestTable) {
      text += fmt::format("  {} hosts are too many for a table; see --csv, --json, --html\n",
                          table.size());
      return;
    }
    text += grid(table, matrix.hosts, scale, [&](int a, int b) {
      return !latency && a != b && is_slow(matrix, rail.rail, a, b);
    });
  };
  add("latency, one way", rail.latency, true);
  add("rate of each pair alone", rail.alone, false);
  add("rate of disjoint pairs at once, both directions", rail.pairs, false);
  add("rate while all send to all", rail.all, false);
  return text;
}

std::string rails_text(const Matrix& matrix) {
  const RailMatrix& rails = matrix.rail_by_rail;
  if (rails.all.empty()) return "";
  std::vector<std::string> names;
  for (const HostMatrix& rail : matrix.rails) names.push_back(rail.rail);
  const Scale scale = scale_of(median_rate(rails.cross), false);
  const auto none = [](int, int) { return false; };
  std::string text =
      fmt::format("\nfrom a rail to a rail of another host, alone, {}\n", scale.unit);
  text += grid(rails.cross, names, scale, none);
  text += fmt::format("\na rail while another one is busy too (diagonal: alone), {}\n", scale.unit);
  text += grid(rails.pair, names, scale, none);
  text += "\nall rails at once:";
  for (size_t i = 0; i < names.size(); ++i) {
    const double alone = rails.cross[i][i];
    text += fmt::format(" {} {}", names[i], print_rate(rails.all[i]));
    if (alone > 0) text += fmt::format(" ({:.2f} of alone)", rails.all[i] / alone);
    if (i + 1 < names.size()) text += ",";
  }
  return text + "\n";
}

}  // namespace

std::string print_rate(double rate) {
  return in_unit(rate, {{1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}});
}

std::string print_time(double seconds) {
  return in_unit(seconds, {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}});
}

std::string describe(const Matrix& matrix, const SlowPath& slow) {
  const auto host = [&](int number) {
    return number < 0 ? std::string("all others") : matrix.hosts[static_cast<size_t>(number)];
  };
  std::string what = slow.rail + " at all hosts", than = "the fastest rail";
  if (slow.kind == SlowPath::Kind::together) {
    what = slow.rail + " while all rails are busy";
    than = "its rate alone";
  } else if (slow.kind != SlowPath::Kind::rail) {
    what = fmt::format("{} -> {}{}{}", host(slow.from), host(slow.to),
                       slow.rail.empty() ? "" : " over ", slow.rail);
    than = "the median";
  }
  return fmt::format("{}: {:.2f} of {}, {}, expected {}", what, slow.rate / slow.expected, than,
                     print_rate(slow.rate), print_rate(slow.expected));
}

int exit_code_of(const Matrix& matrix) {
  return matrix.slow.empty() && not_measured(matrix).empty() ? 0 : 1;
}

std::string print_table(const Matrix& matrix) {
  size_t ranks = 0;
  for (const int of_host : matrix.ranks) ranks += static_cast<size_t>(of_host);
  std::string text =
      fmt::format("# {} hosts, {} ranks, {}{}; measured in {}\n", matrix.hosts.size(), ranks,
                  matrix.rails.size() > 1 ? fmt::format("{} rails, ", matrix.rails.size()) : "",
                  matrix.rails[0].transport, print_time(matrix.seconds));
  for (const HostMatrix& rail : matrix.rails) text += hosts_text(matrix, rail);
  text += rails_text(matrix);
  text += "\n";
  for (const std::string& note : matrix.notes) text += fmt::format("note: {}\n", note);
  const auto missing = not_measured(matrix);
  for (size_t i = 0; i < std::min(missing.size(), kMaxNamed); ++i)
    text += fmt::format("not measured: {}\n", missing[i]);
  if (missing.size() > kMaxNamed)
    text += fmt::format("and {} more; see --json\n", missing.size() - kMaxNamed);
  if (!missing.empty()) text += std::string(kRemedy) + "\n";
  if (matrix.slow.empty()) return text + (missing.empty() ? "nothing is slow\n" : "");
  for (size_t i = 0; i < std::min(matrix.slow.size(), kMaxNamed); ++i)
    text += fmt::format("slow: {}\n", describe(matrix, matrix.slow[i]));
  if (matrix.slow.size() > kMaxNamed)
    text += fmt::format("and {} more; see --json\n", matrix.slow.size() - kMaxNamed);
  return text;
}

std::string print_csv(const Matrix& matrix) {
  std::string text = "rail,from,to,latency_us,alone_mb_s,pairs_mb_s,all_mb_s,slow\n";
  const auto value = [](const Table& table, size_t a, size_t b, double unit) {
    return table.empty() || table[a][b] <= 0 ? "" : fmt::format("{:.6g}", table[a][b] / unit);
  };
  for (const HostMatrix& rail : matrix.rails) {
    for (size_t a = 0; a < matrix.hosts.size(); ++a) {
      for (size_t b = 0; b < matrix.hosts.size(); ++b) {
        if (a == b) continue;
        text += fmt::format(
            "{},{},{},{},{},{},{},{}\n", rail.rail, matrix.hosts[a], matrix.hosts[b],
            value(rail.latency, a, b, 1e-6), value(rail.alone, a, b, 1e6),
            value(rail.pairs, a, b, 1e6), value(rail.all, a, b, 1e6),
            is_slow(matrix, rail.rail, static_cast<int>(a), static_cast<int>(b)) ? 1 : 0);
      }
    }
  }
  return text;
}

}  // namespace ringwood::tools
