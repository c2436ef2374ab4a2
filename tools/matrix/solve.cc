#include "tools/matrix/solve.h"

#include <algorithm>

#include <fmt/format.h>

namespace ringwood::tools {
namespace {

double upper_median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return value <= 0; });
  if (values.empty()) return 0;
  const auto half = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  return *half;
}

}  // namespace

const Table& judged(const HostMatrix& rail) { return rail.alone.empty() ? rail.pairs : rail.alone; }

double median_rate(const Table& table) {
  std::vector<double> all;
  for (const auto& row : table) all.insert(all.end(), row.begin(), row.end());
  return upper_median(std::move(all));
}

std::vector<SlowPath> find_slow(const Table& table, double slow, const std::string& rail) {
  const size_t n = table.size();
  std::vector<double> out(n), in(n);
  for (size_t h = 0; h < n; ++h) {
    out[h] = upper_median(table[h]);
    std::vector<double> column;
    for (const auto& row : table) column.push_back(row[h]);
    in[h] = upper_median(std::move(column));
  }
  if (n == 2) out = in = std::vector<double>(2, std::max(table[0][1], table[1][0]));
  std::vector<SlowPath> found;
  const double usual_out = upper_median(out), usual_in = upper_median(in);
  for (size_t h = 0; h < n; ++h) {
    const auto host = static_cast<int>(h);
    if (out[h] > 0 && out[h] < slow * usual_out)
      found.push_back({SlowPath::Kind::sender, host, -1, rail, out[h], usual_out});
    if (in[h] > 0 && in[h] < slow * usual_in)
      found.push_back({SlowPath::Kind::receiver, -1, host, rail, in[h], usual_in});
  }
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = 0; b < n; ++b) {
      const double expected = std::min(out[a], in[b]);
      if (table[a][b] > 0 && table[a][b] < slow * expected)
        found.push_back({SlowPath::Kind::link, static_cast<int>(a), static_cast<int>(b), rail,
                         table[a][b], expected});
    }
  }
  std::ranges::stable_sort(found, {}, [](const SlowPath& s) { return s.rate / s.expected; });
  return found;
}

std::vector<SlowPath> find_slow_rails(const Matrix& matrix, double slow) {
  std::vector<SlowPath> found;
  double fastest = 0;
  for (const HostMatrix& rail : matrix.rails)
    fastest = std::max(fastest, median_rate(judged(rail)));
  const RailMatrix& between = matrix.rail_by_rail;
  for (size_t i = 0; i < matrix.rails.size(); ++i) {
    const std::string& name = matrix.rails[i].rail;
    const double rate = median_rate(judged(matrix.rails[i]));
    if (rate > 0 && rate < slow * fastest)
      found.push_back({SlowPath::Kind::rail, -1, -1, name, rate, fastest});
    if (between.all.empty()) continue;
    const double together = between.all[i], alone = between.cross[i][i];
    if (together > 0 && together < slow * alone)
      found.push_back({SlowPath::Kind::together, -1, -1, name, together, alone});
  }
  std::ranges::stable_sort(found, {}, [](const SlowPath& s) { return s.rate / s.expected; });
  return found;
}

std::vector<std::string> not_measured(const Matrix& matrix) {
  std::vector<std::string> missing;
  const auto add = [&](const Table& table, const std::vector<std::string>& from,
                       const std::string& what, bool diagonal) {
    for (size_t a = 0; a < table.size(); ++a)
      for (size_t b = 0; b < table.size(); ++b)
        if ((a != b || diagonal) && table[a][b] <= 0)
          missing.push_back(fmt::format("{} -> {}, {}", from[a], from[b], what));
  };
  std::vector<std::string> rails;
  for (const HostMatrix& rail : matrix.rails) {
    const std::string over = rail.rail.empty() ? "" : " over " + rail.rail;
    add(rail.alone, matrix.hosts, "alone" + over, false);
    add(rail.pairs, matrix.hosts, "in pairs" + over, false);
    add(rail.all, matrix.hosts, "all at once" + over, false);
    rails.push_back(rail.rail);
  }
  add(matrix.rail_by_rail.cross, rails, "rail by rail", true);
  for (size_t i = 0; i < matrix.rail_by_rail.all.size(); ++i)
    if (matrix.rail_by_rail.all[i] <= 0)
      missing.push_back(fmt::format("{}, all rails at once", rails[i]));
  return missing;
}

}  // namespace ringwood::tools
