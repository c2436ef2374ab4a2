#include "tools/perf/html/perf_sweeps.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

namespace ringwood::tools {

std::vector<std::pair<std::string, std::vector<const Row*>>> Sweep::lines() const {
  std::vector<std::pair<std::string, std::vector<const Row*>>> all;
  for (const Row* row : rows) {
    const std::string line = compared ? algorithm_text(*row) : "ringwood";
    const auto known = std::ranges::find(all, line, [](const auto& one) { return one.first; });
    if (known == all.end())
      all.push_back({line, {row}});
    else
      known->second.push_back(row);
  }
  return all;
}

std::vector<const Row*> Sweep::chosen() const {
  std::vector<const Row*> some;
  for (const Row* row : rows)
    if (row->chosen) some.push_back(row);
  return some;
}

std::vector<const Row*> Sweep::taken() const {
  std::map<size_t, const Row*> sizes;
  for (const Row* row : rows) {
    const Row*& known = sizes[row->bytes];
    const bool quicker = known != nullptr && row->times.median_us < known->times.median_us;
    if (known == nullptr || row->chosen || (quicker && !known->chosen)) known = row;
  }
  std::vector<const Row*> some;
  for (const auto& [bytes, row] : sizes) some.push_back(row);
  return some;
}

std::vector<Sweep> sweeps_of(const std::vector<Row>& rows) {
  std::vector<Sweep> sweeps;
  for (const Row& row : rows) {
    std::string name = row.collective;
    if (row.bytes > 0) name += ", " + row.dtype;
    if (row.op != "none") name += ", " + row.op;
    if (row.root > 0) name += fmt::format(", root {}", row.root);
    auto known = std::ranges::find(sweeps, name, &Sweep::name);
    if (known == sweeps.end())
      known = sweeps.insert(sweeps.end(),
                            {name, {row.collective, row.dtype, row.op, row.root}, {}, false});
    known->rows.push_back(&row);
    known->compared |= row.compared;
  }
  return sweeps;
}

std::string algorithm_text(const Row& row) {
  return row.segments == 1 ? row.algorithm : fmt::format("{}, segmented", row.algorithm);
}

std::string size_text(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

}  // namespace ringwood::tools
