#include "transports/verbs/path/path_offer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "transports/base/error.h"
#include "transports/verbs/path/path_text.h"

namespace ringwood::verbs {
namespace {

constexpr size_t kMostBytes = 1024;

}  // namespace

std::string print(const PathOffer& offer) {
  return nlohmann::json{{"pair", offer.end}, {"gid", offer.gid}, {"lid", offer.lid},
                        {"mtu", offer.mtu},  {"key", offer.key}, {"scrap", offer.scrap}}
      .dump();
}

PathOffer parse_path_offer(std::span<const std::byte> text) {
  PathOffer offer;
  try {
    if (text.size() > kMostBytes) throw std::runtime_error("too long");
    const auto* const begin = reinterpret_cast<const char*>(text.data());
    const auto json = nlohmann::json::parse(begin, begin + text.size());
    offer.end = json.at("pair").get<PathEnd>();
    offer.gid = json.at("gid").get<GidBytes>();
    offer.lid = std::clamp(json.at("lid").get<int>(), 0, 0xffff);
    offer.mtu = std::clamp(json.at("mtu").get<int>(), 256, 4096);
    offer.key = json.at("key").get<uint32_t>();
    offer.scrap = json.at("scrap").get<uint64_t>();
  } catch (const std::exception& error) {
    throw Error(ErrorCode::network, fmt::format("the peer's new path: {}", error.what()));
  }
  return offer;
}

std::string printable(std::span<const std::byte> text) {
  std::string words(reinterpret_cast<const char*>(text.data()), std::min(text.size(), kMostBytes));
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return words;
}

}  // namespace ringwood::verbs
