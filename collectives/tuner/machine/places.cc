#include "collectives/tuner/machine/places.h"

#include <algorithm>

#include <fmt/format.h>

#include "collectives/tuner/machine/model_text.h"

namespace ringwood {
namespace {

// How many entries from `at` on are equal.
size_t run_at(const std::vector<int>& places, size_t at) {
  const auto begin = places.begin() + static_cast<std::ptrdiff_t>(at);
  return static_cast<size_t>(
      std::find_if(begin, places.end(), [&](int place) { return place != *begin; }) - begin);
}

// The number of entries at each place, if places follow each other with equally many; else 0.
size_t equal_runs(const std::vector<int>& places) {
  const size_t each = places.empty() ? 0 : run_at(places, 0);
  if (each == 0 || places.size() % each != 0) return 0;
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i] != static_cast<int>(i / each)) return 0;
  return each;
}

void append(std::vector<int>& places, std::string_view key, int place, int times) {
  if (places.size() + static_cast<size_t>(times) > kMaxPlaces)
    refuse_model(fmt::format("{}= has more than {} entries", key, kMaxPlaces));
  places.insert(places.end(), static_cast<size_t>(times), place);
}

}  // namespace

std::string print_places(const std::vector<int>& places) {
  if (const size_t each = equal_runs(places))
    return fmt::format("{}x{}", places.size() / each, each);
  std::string text;
  for (size_t at = 0; at < places.size();) {
    const size_t run = run_at(places, at);
    text += fmt::format("{}{}", text.empty() ? "" : ",", places[at]);
    if (run > 1) text += fmt::format("*{}", run);
    at += run;
  }
  return text;
}

std::vector<int> parse_places(std::string_view key, std::string_view text) {
  std::vector<int> places;
  if (text.find('x') != text.npos) {
    const int count = model_number(key, cut_text(text, 'x'), 1, kMaxPlaces);
    const int each = model_number(key, text, 1, kMaxPlaces);
    for (int place = 0; place < count; ++place) append(places, key, place, each);
    return places;
  }
  int known = 0;
  while (!text.empty()) {
    std::string_view run = cut_text(text, ',');
    const int place = model_number(key, cut_text(run, '*'), 0, known);
    append(places, key, place, run.empty() ? 1 : model_number(key, run, 1, kMaxPlaces));
    known = std::max(known, place + 1);
  }
  return places;
}

}  // namespace ringwood
