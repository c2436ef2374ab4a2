// An end of a path as both greetings carry it, a link's and that of a path that is opened again:
// [number, first packet], and what ECE has to say where there is any.
//
// Found by nlohmann::json by their names. from_json throws what the library throws; numbers are cut
// to the 24 bits that they have on the network.
#pragma once

#include <nlohmann/json.hpp>

#include "transports/verbs/path/queue_pair.h"

namespace ringwood::verbs {

inline void to_json(nlohmann::json& json, const PathEnd& end) {
  json = {end.number, end.first_packet};
  if (end.ece)
    for (const uint32_t part : {end.ece->vendor, end.ece->options, end.ece->mask})
      json.push_back(part);
}

inline void from_json(const nlohmann::json& json, PathEnd& end) {
  constexpr uint32_t k24Bits = 0xffffff;
  const auto part = [&](size_t i) { return json.at(i).get<uint32_t>(); };
  end = {part(0) & k24Bits, part(1) & k24Bits};
  if (json.size() > 2) end.ece = Ece{part(2), part(3), part(4)};
}

}  // namespace ringwood::verbs
