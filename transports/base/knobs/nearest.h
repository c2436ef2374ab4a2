// The name that somebody may have meant.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringwood {

// How many characters must be put in, taken out, replaced, or exchanged with the next one ("pref"
// is one from "perf"): the distance of Damerau and Levenshtein, each place changed once.
inline size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = last[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(last, row);
  }
  return last.back();
}

// The first of those with the least distance; "" if there are none.
template <class Names>
std::string_view nearest(std::string_view name, const Names& names) {
  std::string_view found;
  size_t least = SIZE_MAX;
  for (const std::string_view candidate : names) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < least) least = distance, found = candidate;
  }
  return found;
}

// "; did you mean all_reduce?", or "" where none is near: a third of the characters may be wrong,
// and a beginning is enough. Two characters say too little.
template <class Names>
std::string did_you_mean(std::string_view typed, const Names& names) {
  const size_t dashes = std::min(typed.find_first_not_of('-'), typed.size());
  if (typed.size() < dashes + 3) return "";
  std::string_view found;
  for (const std::string_view name : names)
    if (found.empty() && name.starts_with(typed)) found = name;
  const bool begun = !found.empty();
  if (!begun) found = nearest(typed, names);
  const size_t most = std::max<size_t>(1, typed.size() / 3);
  if (found.empty() || found == typed || (!begun && edit_distance(typed, found) > most)) return "";
  return "; did you mean " + std::string(found) + "?";
}

}  // namespace ringwood
